"""Masking the secrets of one call in its upstream's response: bodies, streams, headers, problem bodies.

A `ResponseMasker` is made once for a set of credentials and used for each response. It searches for needles,
which are the forms of `secret_forms` as bytes:

- a form of at least `MIN_NEEDLE` bytes anywhere;
- a shorter one only as a whole value: a JSON string, a header value, a whole text.

Where nothing is found, nothing is copied: the same object is returned. Measurements for 200 B, 10 kB and 1 MB
are in docs/decisions/0040.
"""

import codecs
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

import orjson

from app.core import exact_json
from app.core.errors import FieldError, GatewayError, UpstreamError
from app.security.masking import MASK, MIN_SECRET, secret_forms

MIN_NEEDLE: Final = 12
"""The least number of bytes of a form that is searched for within longer text."""
_MASK: Final = MASK.encode()
_PREFIX: Final = 8
_ANCHOR: Final = re.compile(r"[A-Za-z0-9_.~-]{8,}")
# Forms that could be a number in JSON: these get a mask with which the JSON remains valid.
_NUMBER: Final = re.compile(r"[0-9.eE+-]*")
# What follows `\u00` for printable ASCII, which JSON encoders need not escape.
_PRINTABLE_ESCAPE: Final = re.compile(rb"[2-7][0-9a-fA-F]")
# Without a declared byte order, text may have either.
_BYTE_ORDERS: Final = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-32": ("utf-32-le", "utf-32-be")}
# Possessive quantifiers: no backtracking, so the time is linear also without a closing quote.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Characters that a JSON string can contain only unescaped or as `_ESCAPE`, or (the slash) as `\/`.
_INVARIANT: Final = re.compile(rb"[\x20\x21\x23-\x5b\x5d-\x7f]{4,}")
# Such escapes; an escaped backslash is matched too, since it begins no other escape.
_ESCAPE: Final = re.compile(rb"\\(?:\\|u00[2-7][0-9a-fA-F])")
_MAX_CACHED: Final = 8
_Key = TypeVar("_Key")


class ResponseMasker:
    """Masks these values. It is immutable and has them in plain text: hold it no longer than the values.

    Values of less than `MIN_SECRET` characters are not masked. `charsets` are the encodings that are searched
    for.
    """

    __slots__ = (
        "_charsets",
        "_combined",
        "_invariant",
        "_max",
        "_needles",
        "_prefilters",
        "_prefixes",
        "_regex",
        "_short_prefixes",
        "_whole_values",
        "values",
    )  # fmt: skip

    def __init__(self, values: Iterable[str], *, charsets: Sequence[str] = ("utf-8",)) -> None:
        self.values = tuple(dict.fromkeys(value for value in values if len(value) >= MIN_SECRET))
        """The values that are masked."""
        short: set[bytes] = set()
        needles: dict[bytes, bytes] = {}
        for form in dict.fromkeys(form for value in self.values for form in secret_forms(value)):
            is_long = len(form.encode("utf-8", "surrogatepass")) >= MIN_NEEDLE
            needle = form if is_long else f'"{form}"'
            mask = _mask_of(form) if is_long else f'"{MASK}"'
            for charset in charsets:
                with contextlib.suppress(UnicodeError):
                    needles[needle.encode(charset)] = mask.encode(charset)
                    if not is_long:
                        short.add(form.encode(charset))
        self._needles = {needle: needles[needle] for needle in sorted(needles, key=len, reverse=True)}
        self._whole_values = frozenset(short)
        self._prefilters = _prefilters(self.values, tuple(self._needles))
        self._invariant = _invariant(self._prefilters)
        self._max = max(map(len, self._needles), default=0)
        by_prefix: dict[bytes, list[bytes]] = {}
        for encoded in self._needles:
            if len(encoded) > _PREFIX:
                by_prefix.setdefault(encoded[:_PREFIX], []).append(encoded)
        self._prefixes = tuple((prefix, tuple(found)) for prefix, found in by_prefix.items())
        self._short_prefixes = frozenset(
            needle[:size] for needle in self._needles for size in range(1, min(_PREFIX, len(needle)))
        )
        self._regex: re.Pattern[bytes] | None = None
        self._charsets: dict[str, ResponseMasker] = {}
        self._combined: dict[ResponseMasker, ResponseMasker] = {}

    @classmethod
    def for_values(cls, values: Iterable[str]) -> Self | None:
        """Return a masker of these values, or None where there is nothing to be masked."""
        known = [value for value in values if len(value) >= MIN_SECRET]
        return cls(known) if known else None

    def combined_with(self, other: "ResponseMasker | None") -> "ResponseMasker":
        """Return a masker for the values of both; `other` caches it, so it lives no longer than `other`."""
        if other is None or other is self:
            return self
        cache = other._combined  # noqa: SLF001 - of its own class.
        made = cache.get(self)
        if made is None:
            made = ResponseMasker((*self.values, *other.values))
            _put_bounded(cache, self, made)
        return made

    @property
    def is_ascii(self) -> bool:
        """Whether all values are ASCII, which most charsets encode in the same way."""
        return all(value.isascii() for value in self.values)

    def __repr__(self) -> str:
        return f"<ResponseMasker of {len(self.values)} values>"

    def is_clean(self, text: bytes) -> bool:
        """Return True where UTF-8 text certainly contains no secret, in whichever parts it is sent.

        Return False also where one search cannot tell: for short secrets, escapes, and text with a NUL.
        """
        if self._whole_values or b"\\" in text or b"\x00" in text:
            return False
        for needle in self._prefilters:  # noqa: SIM110 - a generator costs as much as three needles.
            if needle in text:
                return False
        return True

    def mask(self, body: bytes) -> bytes:
        """Return the body with its secrets masked; the same object where it contains none."""
        for needle in self._prefilters:
            if needle in body:
                return self.mask_part(body)
        if self._whole_values and len(body) <= 2 * self._max and body.strip() in self._whole_values:
            return _MASK
        return body

    def mask_json(self, body: bytes) -> bytes:
        """Return a body of one or more JSON values masked, also where secrets in its strings are escaped."""
        masked = self.mask(body)
        if masked is not body and masked == _MASK and _is_json(body):
            # The whole body was a number or a string.
            return b'"' + _MASK + b'"'
        # Searching for one byte is ten times as fast as for four.
        if b"\\" in masked and b"\\u00" in masked and self._may_be_escaped(masked):
            return self.mask_strings(masked)
        return masked

    def mask_strings(self, body: bytes) -> bytes:
        """Return JSON masked by decoding each of its strings; the same object where no secret is found."""
        masked = _STRING.sub(self._in_string, body)
        return body if masked == body else masked

    def _may_be_escaped(self, body: bytes) -> bool:
        """Return whether a string of the JSON may contain a secret with unnecessary escapes; False is
        certain.

        Every needle has a part whose characters have no other escapes than these: it is searched for in the
        body with these escapes resolved. All steps are single passes in C, for any number of escapes.
        """
        # An escaped backslash begins no other escape, and is in none of these parts.
        plain = body.replace(b"\\\\", b"\x00") if b"\\\\" in body else body
        codes = [
            code
            for code in {rest[:2] for rest in plain.split(b"\\u00")[1:]}
            if _PRINTABLE_ESCAPE.fullmatch(code)
        ]
        if not codes or not self._invariant:
            return bool(codes)
        for code in codes:
            character = bytes((int(code, 16),))
            if any(character in part for part in self._invariant):
                plain = plain.replace(b"\\u00" + code, character)
        if any(b"/" in part for part in self._invariant):
            plain = plain.replace(b"\\/", b"/")
        return any(part in plain for part in self._invariant)

    def mask_text(self, text: str) -> str:
        """Return a whole text, such as a header value, masked; the same object where no secret is found."""
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.mask(raw)
        return text if masked is raw else masked.decode("utf-8", "surrogatepass")

    def mask_headers(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Return headers with their values masked; the same list where they contain no secret.

        A header whose name contains a secret is left out.
        """
        joined = "\n".join([text for pair in headers for text in pair]).encode("utf-8", "surrogatepass")
        if not self._whole_values:
            for needle in self._prefilters:
                if needle in joined:
                    break
            else:
                return headers
        masked = [(name, self.mask_text(value)) for name, value in headers if self.mask_text(name) is name]
        return headers if masked == headers else masked

    def mask_value(self, value: Any) -> Any:
        """Return a JSON value with its strings and keys masked; unchanged parts are the same objects."""
        if isinstance(value, str):
            return self.mask_text(value)
        if isinstance(value, dict):
            masked = {self._key(name): self.mask_value(member) for name, member in value.items()}
            same = all(a is b for a, b in zip(value, masked, strict=False)) and len(masked) == len(value)
            return value if same and all(masked[name] is value[name] for name in value) else masked
        if isinstance(value, list | tuple):
            members = [self.mask_value(member) for member in value]
            if all(a is b for a, b in zip(value, members, strict=True)):
                return value
            return members if isinstance(value, list) else tuple(members)
        if isinstance(value, int | float) and not isinstance(value, bool):
            # A secret of digits may have been parsed as a number.
            text = repr(value)
            return MASK if text in self.values else value
        return value

    def contains_secret(self, body: bytes) -> bool:
        """Return whether the body contains a secret."""
        return self.mask(body) is not body

    def stream_masker(self) -> "StreamMasker":
        """Return a masker for a body that arrives in pieces."""
        return StreamMasker(self)

    def in_charset(self, charset: str) -> "ResponseMasker":
        """Return a masker for text that is declared to be in this charset, and may be in UTF-8 nevertheless.

        Return this masker itself for a charset that Python does not know.
        """
        try:
            name = codecs.lookup(charset).name
        except LookupError:
            return self
        if name == "utf-8":
            return self
        made = self._charsets.get(name)
        if made is None:
            made = ResponseMasker(self.values, charsets=("utf-8", *_BYTE_ORDERS.get(name, (name,))))
            _put_bounded(self._charsets, name, made)
        return made

    def _key(self, name: Any) -> Any:
        return self.mask_text(name) if isinstance(name, str) else name

    def _in_string(self, found: re.Match[bytes]) -> bytes:
        """Return the matched JSON string, decoded and masked where it contains an escaped secret."""
        if b"\\" not in found[0]:
            return found[0]
        try:
            text = orjson.loads(found[0])
        except orjson.JSONDecodeError:
            # Truncated, or not UTF-8: it is not valid JSON anyway.
            plain = _ESCAPE.sub(_character, found[0])
            masked_part = self.mask_part(plain)
            return found[0] if masked_part is plain else masked_part
        masked = self.mask_text(text)
        return found[0] if masked is text else exact_json.dumps(masked)

    def mask_part(self, body: bytes) -> bytes:
        """Return a part of a body masked: as `mask`, without the search for short secrets as a whole text."""
        masked = self._pattern().sub(self._mask_of, body)
        # The prefilter may have found only a part of a needle.
        return body if masked == body else masked

    def advance(self, piece: bytes) -> tuple[bytes, bytes, bool]:
        """Mask the beginning of a stream.

        Return the masked bytes that can be sent, the bytes that must wait for more, and whether something was
        masked.
        """
        end = len(piece) - self._pending_size(piece)
        for needle in self._prefilters:
            if needle in piece:
                break
        else:
            return (piece, b"", False) if end == len(piece) else (piece[:end], piece[end:], False)
        out: list[bytes] = []
        begin = 0
        for found in self._pattern().finditer(piece):
            if found.start() >= end:
                # It may be the beginning of a longer needle.
                break
            out += (piece[begin : found.start()], self._needles[found[0]])
            begin = found.end()
        if begin > end:
            end = len(piece) - self._pending_size(piece[begin:])
        out.append(piece[begin:end])
        return b"".join(out), piece[end:], begin > 0

    def _mask_of(self, found: re.Match[bytes]) -> bytes:
        return self._needles[found[0]]

    def _pattern(self) -> re.Pattern[bytes]:
        """Return a pattern of all needles, the longest first."""
        if self._regex is None:
            self._regex = re.compile(b"|".join(re.escape(needle) for needle in self._needles))
        return self._regex

    def _pending_size(self, piece: bytes) -> int:
        """Return the length of the longest end of a piece that may be the beginning of a needle."""
        window = piece[1 - self._max :] if len(piece) >= self._max else piece
        longest = 0
        for prefix, needles in self._prefixes:
            at = window.find(prefix)
            while at >= 0 and len(window) - at > longest:
                rest = window[at:]
                if any(len(rest) < len(needle) and needle.startswith(rest) for needle in needles):
                    longest = len(rest)
                    break
                at = window.find(prefix, at + 1)
        for size in range(min(_PREFIX - 1, len(window)), longest, -1):
            if window[-size:] in self._short_prefixes:
                return size
        return longest


class StreamMasker:
    """Masks a body that arrives in pieces. The end of a piece is held back where it may be the beginning of a
    secret: at most one byte less than the longest needle.
    """

    __slots__ = ("_held", "_masker", "has_masked")

    def __init__(self, masker: ResponseMasker) -> None:
        self._masker = masker
        self._held = b""
        self.has_masked = False
        """Whether something was masked."""

    def feed(self, piece: bytes) -> bytes:
        """Return what can be sent now; b"" where the whole piece has to wait for the next."""
        if self._held:
            piece = self._held + piece
        passed, self._held, found = self._masker.advance(piece)
        self.has_masked = self.has_masked or found
        return passed

    def flush(self) -> bytes:
        """Return what was held back, masked; nothing is fed after that."""
        held, self._held = self._held, b""
        masked = self._masker.mask_part(held) if held else held
        self.has_masked = self.has_masked or masked is not held
        return masked


def mask_error(error: GatewayError, masker: ResponseMasker) -> None:
    """Mask an error in place: its own texts, and the upstream's body and headers."""
    error.detail = masker.mask_text(error.detail)
    error.args = (error.detail,)
    error.headers = {name: masker.mask_text(value) for name, value in error.headers.items()}
    error.extra = masker.mask_value(error.extra)
    error.errors = tuple(
        FieldError(
            masker.mask_text(one.pointer), masker.mask_text(one.detail), masker.mask_value(one.expected)
        )
        for one in error.errors
    )
    if isinstance(error, UpstreamError) and error.response is not None:
        headers = {name: masker.mask_text(value) for name, value in error.response.headers.items()}
        error.response = replace(error.response, body=masker.mask_value(error.response.body), headers=headers)


def _mask_of(form: str) -> str:
    """Return the mask of a form: `***`, or nines where it could be a number in JSON, which stays valid."""
    if _NUMBER.fullmatch(form) is None:
        return MASK
    return ("8" if set(form) == {"9"} else "9") * len(form)


def _put_bounded(cache: dict[_Key, ResponseMasker], key: _Key, masker: ResponseMasker) -> None:
    """Add an entry to a small cache, and drop the oldest ones beyond its size."""
    while len(cache) >= _MAX_CACHED:
        del cache[next(iter(cache))]
    cache[key] = masker


def _character(escape: re.Match[bytes]) -> bytes:
    return bytes((int(escape[0][4:], 16),)) if len(escape[0]) > 2 else escape[0]


def _is_json(body: bytes) -> bool:
    try:
        orjson.loads(body)
    except orjson.JSONDecodeError:
        return False
    return True


def _invariant(parts: Iterable[bytes]) -> tuple[bytes, ...]:
    """Return each part's longest run of characters in `_INVARIANT`; () where one part has none."""
    runs = [max(_INVARIANT.findall(part), key=len, default=b"") for part in parts]
    return tuple(dict.fromkeys(runs)) if all(runs) else ()


def _prefilters(values: Sequence[str], needles: Sequence[bytes]) -> tuple[bytes, ...]:
    """Return as few texts as possible of which every needle contains at least one.

    For a secret with special characters, its longest part without any is in all of its escaped forms.
    """
    anchors = [max(_ANCHOR.findall(value), key=len, default="").encode() for value in values]
    parts = sorted({*needles, *(anchor for anchor in anchors if anchor)}, key=len)
    chosen: list[bytes] = []
    for part in parts:
        if not any(one in part for one in chosen) and any(part in needle for needle in needles):
            chosen.append(part)
    # The likely ones first: the secret itself before its encoded forms.
    return tuple(sorted(chosen, key=lambda part: part not in anchors))
