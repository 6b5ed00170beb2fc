"""The secrets of one call, replaced in what its upstream says: bodies, streams, headers, problem bodies.

A `ResponseMasker` is made once for a set of credentials and used for each response. What it looks for, its
needles, are the forms of `secret_forms`, as bytes:

- a form of at least `MIN_NEEDLE` bytes wherever it stands;
- a shorter one only as a whole: a JSON string, a header value, a whole text.

Nothing is copied where nothing is found: the very object comes back. Measured for 200 B, 10 kB and 1 MB: see
docs/decisions/0040.
"""

import codecs
import contextlib
import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final, Self, TypeVar

import orjson

from app.errors import Fault, GatewayError, UpstreamError
from app.security.masking import MASK, MIN_SECRET, secret_forms

MIN_NEEDLE: Final = 12
"""Bytes from which a form is looked for within longer text."""
_MASK: Final = MASK.encode()
_PREFIX: Final = 8
_ANCHOR: Final = re.compile(r"[A-Za-z0-9_.~-]{8,}")
# A mask that keeps JSON what it is, where the secret may have been a number of it.
_NUMBER: Final = re.compile(r"[0-9.eE+-]*")
# After `\u00`: letters, digits and marks, which no encoder of JSON has to escape.
_ODD: Final = re.compile(rb"[2-7][0-9a-fA-F]")
# Without a byte order, text may have either.
_BYTE_ORDERS: Final = {"utf-16": ("utf-16-le", "utf-16-be"), "utf-32": ("utf-32-le", "utf-32-be")}
# Possessive: what has been read is not read again, so the time is linear also without a closing quote.
_STRING: Final = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"?', re.DOTALL)
# Characters that a JSON string can hold only as they are or as `_ESCAPE`, or (the slash) as `\/`.
_INVARIANT: Final = re.compile(rb"[\x20\x21\x23-\x5b\x5d-\x7f]{4,}")
# Such escapes among others: a backslash that is escaped begins none.
_ESCAPE: Final = re.compile(rb"\\(?:\\|u00[2-7][0-9a-fA-F])")
_MAX_CACHED: Final = 8
_Key = TypeVar("_Key")


class ResponseMasker:
    """Masks these values. Immutable, and holds them in the open: keep it no longer than the values.

    `values` that are empty or have less than `MIN_SECRET` characters are not looked for.
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
        """What it masks."""
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
        for looked_for in self._needles:
            if len(looked_for) > _PREFIX:
                by_prefix.setdefault(looked_for[:_PREFIX], []).append(looked_for)
        self._prefixes = tuple((prefix, tuple(found)) for prefix, found in by_prefix.items())
        self._short_prefixes = frozenset(
            needle[:size] for needle in self._needles for size in range(1, min(_PREFIX, len(needle)))
        )
        self._regex: re.Pattern[bytes] | None = None
        self._charsets: dict[str, ResponseMasker] = {}
        self._combined: dict[ResponseMasker, ResponseMasker] = {}

    @classmethod
    def of(cls, values: Iterable[str]) -> Self | None:
        """Return a masker, or None where there is nothing to be masked."""
        known = [value for value in values if len(value) >= MIN_SECRET]
        return cls(known) if known else None

    def joined(self, other: "ResponseMasker | None") -> "ResponseMasker":
        """One for the values of both. `other` holds it for the next call, so it lives no longer than that."""
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
        """Whether all of the values are ASCII, which most charsets write in the same way."""
        return all(value.isascii() for value in self.values)

    def __repr__(self) -> str:
        return f"<ResponseMasker of {len(self.values)} values>"

    def is_clean(self, text: bytes) -> bool:
        """Return whether UTF-8 text holds no secret for certain, in whatever it is divided.

        False also where it takes a closer look: at short secrets, escapes, and text with a NUL.
        """
        if self._whole_values or b"\\" in text or b"\x00" in text:
            return False
        for needle in self._prefilters:  # noqa: SIM110 - a generator costs as much as three needles.
            if needle in text:
                return False
        return True

    def mask(self, body: bytes) -> bytes:
        """Return the body without the secrets; the same object where it holds none."""
        for needle in self._prefilters:
            if needle in body:
                return self.mask_part(body)
        if self._whole_values and len(body) <= 2 * self._max and body.strip() in self._whole_values:
            return _MASK
        return body

    def mask_json(self, body: bytes) -> bytes:
        """Return the same for one or more JSON values, whose strings may have any escapes."""
        masked = self.mask(body)
        if masked is not body and masked == _MASK and _is_json(body):
            # A number, or a string, that was the whole body.
            return b'"' + _MASK + b'"'
        # One byte is found ten times as fast as four.
        if b"\\" in masked and b"\\u00" in masked and self._may_be_escaped(masked):
            return self.mask_strings(masked)
        return masked

    def mask_strings(self, body: bytes) -> bytes:
        """JSON of which each string was decoded for it; the same object where none holds a secret."""
        masked = _STRING.sub(self._in_string, body)
        return body if masked == body else masked

    def _may_be_escaped(self, body: bytes) -> bool:
        """Return whether a string of the JSON may hold a secret with odd escapes in it; False is certain.

        Of every needle, there is a part whose characters have no other escapes than these: it is looked for
        in the body without them. All steps are single passes in C, whatever the number of escapes.
        """
        # An escaped backslash begins no other escape, and is in no such part.
        plain = body.replace(b"\\\\", b"\x00") if b"\\\\" in body else body
        codes = [code for code in {rest[:2] for rest in plain.split(b"\\u00")[1:]} if _ODD.fullmatch(code)]
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
        """Return a text of its own, such as a header value; the same object where it holds no secret."""
        raw = text.encode("utf-8", "surrogatepass")
        masked = self.mask(raw)
        return text if masked is raw else masked.decode("utf-8", "surrogatepass")

    def mask_headers(self, headers: list[tuple[str, str]]) -> list[tuple[str, str]]:
        """Headers with their values masked; the same list where they hold no secret.

        One whose name holds a secret is left out.
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
        """Return a JSON value with its strings and keys masked; what holds no secret stays the same
        object.
        """
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
            # A secret of digits may have become a number.
            text = repr(value)
            return MASK if text in self.values else value
        return value

    def finds(self, body: bytes) -> bool:
        """Return whether the body holds a secret."""
        return self.mask(body) is not body

    def stream(self) -> "MaskedStream":
        """For a body that comes in pieces."""
        return MaskedStream(self)

    def in_charset(self, charset: str) -> "ResponseMasker":
        """Return the same for text that is in this charset, as it is declared, or in UTF-8 all the same.

        Itself for a charset that Python does not know.
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
        """Return a JSON string with an escaped secret in it, without its escapes and the secret."""
        if b"\\" not in found[0]:
            return found[0]
        try:
            text = orjson.loads(found[0])
        except orjson.JSONDecodeError:
            # Cut off, or not in UTF-8: there is no JSON that could be broken.
            plain = _ESCAPE.sub(_character, found[0])
            masked_part = self.mask_part(plain)
            return found[0] if masked_part is plain else masked_part
        masked = self.mask_text(text)
        return found[0] if masked is text else orjson.dumps(masked)

    def mask_part(self, body: bytes) -> bytes:
        """Return the same as `mask` for a part of a body, which is no whole text."""
        masked = self._pattern().sub(self._mask_of, body)
        # The quick look may have found a part of a needle only.
        return body if masked == body else masked

    def advance(self, piece: bytes) -> tuple[bytes, bytes, bool]:
        """Of a beginning of a body: what of it is masked for good, what has to wait for more, and whether
        something was masked.
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
                # It may turn out to be the beginning of a longer one.
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
        """Return all needles, the longest first."""
        if self._regex is None:
            self._regex = re.compile(b"|".join(re.escape(needle) for needle in self._needles))
        return self._regex

    def _pending_size(self, piece: bytes) -> int:
        """Bytes at the end of a piece that may be the beginning of a needle: of the longest such end."""
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


class MaskedStream:
    """A body in pieces, masked as one. At most one byte less than the longest needle is held back, and only
    where the end of a piece may be the beginning of a secret.
    """

    __slots__ = ("_held", "_masker", "found")

    def __init__(self, masker: ResponseMasker) -> None:
        self._masker = masker
        self._held = b""
        self.found = False
        """Whether something was masked."""

    def feed(self, piece: bytes) -> bytes:
        """What may be passed on now; b"" where the whole piece has to wait for the next."""
        if self._held:
            piece = self._held + piece
        passed, self._held, found = self._masker.advance(piece)
        self.found = self.found or found
        return passed

    def end(self) -> bytes:
        """What was held back; nothing is fed after that."""
        held, self._held = self._held, b""
        masked = self._masker.mask_part(held) if held else held
        self.found = self.found or masked is not held
        return masked


def mask_error(error: GatewayError, masker: ResponseMasker) -> None:
    """Mask in place what an error says: its own texts, and the upstream's body and headers."""
    error.detail = masker.mask_text(error.detail)
    error.args = (error.detail,)
    error.headers = {name: masker.mask_text(value) for name, value in error.headers.items()}
    error.extra = masker.mask_value(error.extra)
    error.errors = tuple(
        Fault(
            masker.mask_text(fault.pointer), masker.mask_text(fault.detail), masker.mask_value(fault.expected)
        )
        for fault in error.errors
    )
    if isinstance(error, UpstreamError) and error.answer is not None:
        headers = {name: masker.mask_text(value) for name, value in error.answer.headers.items()}
        error.answer = replace(error.answer, body=masker.mask_value(error.answer.body), headers=headers)


def _mask_of(form: str) -> str:
    """`***`; nines for what could be a number of JSON, which would be none with asterisks."""
    if _NUMBER.fullmatch(form) is None:
        return MASK
    return ("8" if set(form) == {"9"} else "9") * len(form)


def _put_bounded(cache: dict[_Key, ResponseMasker], key: _Key, masker: ResponseMasker) -> None:
    """Into a small cache, whose oldest entry leaves."""
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
    """Of each part the longest run that JSON escapes in no other way; () where one of them has none."""
    runs = [max(_INVARIANT.findall(part), key=len, default=b"") for part in parts]
    return tuple(dict.fromkeys(runs)) if all(runs) else ()


def _prefilters(values: Sequence[str], needles: Sequence[bytes]) -> tuple[bytes, ...]:
    """As few texts as possible of which every needle holds at least one.

    Of a secret with special characters, the longest part without any is in all of its escaped forms.
    """
    anchors = [max(_ANCHOR.findall(value), key=len, default="").encode() for value in values]
    parts = sorted({*needles, *(anchor for anchor in anchors if anchor)}, key=len)
    chosen: list[bytes] = []
    for part in parts:
        if not any(one in part for one in chosen) and any(part in needle for needle in needles):
            chosen.append(part)
    # The likely ones first: the secret itself comes before its coded forms.
    return tuple(sorted(chosen, key=lambda part: part not in anchors))
