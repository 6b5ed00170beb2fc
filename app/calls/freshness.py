"""How long an answer may be used again: RFC 9111 (HTTP caching), as the one client that the gateway is.

For the upstream all callers are one user agent with one credential, and answers are only shared among calls
that would be the same request with the same credential. So the cache is a private one in the sense of the
RFC, that obeys `s-maxage` too, and keeps what is marked `private` for each caller apart. An upstream's word
can only shorten what the registrar allows (`limits.cache`).
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from app.catalog.rules import CacheRule

_DIRECTIVE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,;]*)))?")
# What decides about an answer's life; a later 304 may change each of these.
_DECISIVE: Final = frozenset(
    {"cache-control", "pragma", "expires", "date", "age", "vary", "etag", "last-modified"}
)
_FOREVER: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Life:
    """What an answer's own headers say about its use; times in seconds."""

    fresh: float
    """Until this age it may be used without asking."""
    age: float
    """Its age when it arrived."""
    private: bool
    stale_if_error: float
    """How much older it may be while the upstream fails."""
    etag: str
    last_modified: str
    headers: Mapping[str, str] = field(repr=False)
    """The headers that this came from, by lower-case name."""

    def conditions(self) -> tuple[tuple[str, str], ...]:
        """The headers that ask whether it is still so (RFC 9110 section 13.1); none where it cannot be
        asked."""
        found = []
        if self.etag:
            found.append(("If-None-Match", self.etag))
        if self.last_modified:
            found.append(("If-Modified-Since", self.last_modified))
        return tuple(found)

    def confirms(self, headers: Mapping[str, str]) -> bool:
        """Whether a 304 with these headers speaks of this very answer."""
        etag = decisive(headers).get("etag", "")
        return not etag or not self.etag or _opaque(etag) == _opaque(self.etag)


def decisive(headers: Mapping[str, str]) -> dict[str, str]:
    """Those headers that decide, by lower-case name; repeated ones as one (RFC 9110 section 5.3)."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in _DECISIVE:
            found[lowered] = f"{found[lowered]}, {value}" if lowered in found else value
    return found


def life_of(headers: Mapping[str, str], rule: CacheRule) -> Life | None:
    """The life of an answer with these headers (`decisive` ones); None where it must not be kept at all."""
    said = directives(headers.get("cache-control", ""))
    if "no-store" in said or "*" in headers.get("vary", ""):
        return None
    private = "private" in said
    fresh = min(_freshness(headers, said, shared=not private, assumed=rule.assumed), rule.seconds)
    grace = min(rule.stale_if_error, _seconds(said.get("stale-if-error"), otherwise=rule.stale_if_error))
    if "must-revalidate" in said or "no-cache" in said or ("proxy-revalidate" in said and not private):
        grace = 0.0
    life = Life(
        fresh=fresh,
        age=_age(headers),
        private=private,
        stale_if_error=grace,
        etag=_sendable(headers.get("etag", "")),
        last_modified=_sendable(headers.get("last-modified", "")),
        headers=headers,
    )
    if life.fresh + life.stale_if_error <= life.age and not life.conditions():
        return None
    return life


def directives(text: str) -> dict[str, str | None]:
    """The members of a Cache-Control header, names in lower case. Of one that is said twice with numbers, the
    smaller counts (RFC 9111 section 4.2.1 leaves it to us)."""
    found: dict[str, str | None] = {}
    for match in _DIRECTIVE.finditer(text):
        name = match[1].lower()
        value = match[3] if match[2] is None else match[2]
        if name in found and _seconds(found[name], otherwise=0) <= _seconds(value, otherwise=0):
            continue
        found[name] = value
    return found


def longest_age(said: Mapping[str, str | None]) -> float:
    """How old an answer a caller takes that sent these directives."""
    if "no-cache" in said:
        return 0.0
    return _seconds(said["max-age"], otherwise=0) if "max-age" in said else _FOREVER


def _freshness(
    headers: Mapping[str, str], said: Mapping[str, str | None], *, shared: bool, assumed: float
) -> float:
    """Section 4.2.1, but for heuristics, in whose place the registrar's word stands."""
    if "no-cache" in said:
        return 0.0
    for name in ("s-maxage", "max-age") if shared else ("max-age",):
        if name in said:
            return _seconds(said[name], otherwise=0)
    if "expires" in headers:
        expires = _moment(headers["expires"])
        return 0.0 if expires is None else max(expires - (_moment(headers.get("date")) or time.time()), 0.0)
    if "no-cache" in headers.get("pragma", "").lower():
        return 0.0
    return assumed


def _age(headers: Mapping[str, str]) -> float:
    """Section 4.2.3; the time of the transfer is left out, which is at most the call's."""
    date = _moment(headers.get("date"))
    apparent = 0.0 if date is None else max(time.time() - date, 0.0)
    # A date has whole seconds: what has just been made would look up to one second old.
    apparent = max(apparent - 1.0, 0.0)
    return max(apparent, _seconds(headers.get("age", "").partition(",")[0].strip() or None, otherwise=0))


def _seconds(value: str | None, *, otherwise: float) -> float:
    """A number of seconds (section 1.2.2); `otherwise` for none and for what is no number."""
    if value is None or not (value.isascii() and value.isdigit()):
        return otherwise
    return float(min(int(value[:12]), _FOREVER))


def _moment(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None


def _sendable(value: str) -> str:
    """The value, "" for one that a request of ours could not repeat: what asks with it would always fail."""
    return value if value.isascii() and value.isprintable() else ""


def _opaque(etag: str) -> str:
    """For the weak comparison of RFC 9110 section 8.8.3.2."""
    return etag.strip().removeprefix("W/")
