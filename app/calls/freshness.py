"""How long a response may be reused: RFC 9111 (HTTP caching), as the one client that the gateway is.

For the upstream all clients are one user agent with one credential, and responses are only shared among calls
that would be the same request with the same credential. So the cache is a private one in the sense of the
RFC, that obeys `s-maxage` too, and keeps what is marked `private` for each client apart. An upstream's word
can only shorten what the registrar allows (`limits.cache`).
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from app.catalog.cache_rule import CacheRule

_DIRECTIVE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,;]*)))?")
# What decides about the freshness of a response; a later 304 may change each of these.
_RELEVANT: Final = frozenset(
    {"cache-control", "pragma", "expires", "date", "age", "vary", "etag", "last-modified"}
)
_FOREVER: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Freshness:
    """What a response's own headers say about its reuse; times in seconds."""

    lifetime: float
    """Until this age it may be used without a request to the upstream."""
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
        """Return the headers of a conditional request (RFC 9110 section 13.1), where it can be made."""
        found = []
        if self.etag:
            found.append(("If-None-Match", self.etag))
        if self.last_modified:
            found.append(("If-Modified-Since", self.last_modified))
        return tuple(found)

    def confirms(self, headers: Mapping[str, str]) -> bool:
        """Whether a 304 with these headers confirms this very response."""
        etag = relevant_headers(headers).get("etag", "")
        return not etag or not self.etag or _opaque_tag(etag) == _opaque_tag(self.etag)


def relevant_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that decide, by lower-case name; repeated ones as one (RFC 9110 section 5.3)."""
    found: dict[str, str] = {}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in _RELEVANT:
            found[lowered] = f"{found[lowered]}, {value}" if lowered in found else value
    return found


def freshness_of(headers: Mapping[str, str], rule: CacheRule) -> Freshness | None:
    """Return the freshness of a response with these `relevant_headers`; None where it must not be cached."""
    directives = parse_cache_control(headers.get("cache-control", ""))
    if "no-store" in directives or "*" in headers.get("vary", ""):
        return None
    private = "private" in directives
    lifetime = min(
        _lifetime(headers, directives, shared=not private, default_seconds=rule.default_seconds), rule.seconds
    )
    grace = min(
        rule.stale_if_error, _seconds(directives.get("stale-if-error"), otherwise=rule.stale_if_error)
    )
    strict = (
        {"must-revalidate", "no-cache"} if private else {"must-revalidate", "no-cache", "proxy-revalidate"}
    )
    if not strict.isdisjoint(directives):
        grace = 0.0
    found = Freshness(
        lifetime=lifetime,
        age=_age(headers),
        private=private,
        stale_if_error=grace,
        etag=_sendable(headers.get("etag", "")),
        last_modified=_sendable(headers.get("last-modified", "")),
        headers=headers,
    )
    if found.lifetime + found.stale_if_error <= found.age and not found.conditions():
        return None
    return found


def parse_cache_control(text: str) -> dict[str, str | None]:
    """Return the directives of a Cache-Control header, names in lower case. Of one that is given twice with
    numbers, the smaller counts (RFC 9111 section 4.2.1 leaves it to us)."""
    found: dict[str, str | None] = {}
    for match in _DIRECTIVE.finditer(text):
        name = match[1].lower()
        value = match[3] if match[2] is None else match[2]
        if name in found and _seconds(found[name], otherwise=0) <= _seconds(value, otherwise=0):
            continue
        found[name] = value
    return found


def max_age(directives: Mapping[str, str | None]) -> float:
    """Return how old, in seconds, a response a client takes that sent these directives."""
    if "no-cache" in directives:
        return 0.0
    return _seconds(directives["max-age"], otherwise=0) if "max-age" in directives else _FOREVER


def _lifetime(
    headers: Mapping[str, str], directives: Mapping[str, str | None], *, shared: bool, default_seconds: float
) -> float:
    """Section 4.2.1, but for heuristics, in whose place the registrar's word stands."""
    if "no-cache" in directives:
        return 0.0
    for name in ("s-maxage", "max-age") if shared else ("max-age",):
        if name in directives:
            return _seconds(directives[name], otherwise=0)
    if "expires" in headers:
        expires = _parse_date(headers["expires"])
        return (
            0.0 if expires is None else max(expires - (_parse_date(headers.get("date")) or time.time()), 0.0)
        )
    if "no-cache" in headers.get("pragma", "").lower():
        return 0.0
    return default_seconds


def _age(headers: Mapping[str, str]) -> float:
    """Section 4.2.3; the time of the transfer is left out, which is at most the call's."""
    date = _parse_date(headers.get("date"))
    apparent = 0.0 if date is None else max(time.time() - date, 0.0)
    # A date has whole seconds: what has just been made would look up to one second old.
    apparent = max(apparent - 1.0, 0.0)
    return max(apparent, _seconds(headers.get("age", "").partition(",")[0].strip() or None, otherwise=0))


def _seconds(value: str | None, *, otherwise: float) -> float:
    """A number of seconds (section 1.2.2); `otherwise` for none and for what is no number."""
    if value is None or not (value.isascii() and value.isdigit()):
        return otherwise
    return float(min(int(value[:12]), _FOREVER))


def _parse_date(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None


def _sendable(value: str) -> str:
    """The value, "" for one that a request of ours could not repeat: what asks with it would always fail."""
    return value if value.isascii() and value.isprintable() else ""


def _opaque_tag(etag: str) -> str:
    """For the weak comparison of RFC 9110 section 8.8.3.2."""
    return etag.strip().removeprefix("W/")
