"""The freshness of a response: how long it may be reused (RFC 9111, HTTP caching).

To an upstream, all clients of the gateway are one user agent with one credential, and responses are shared
only by calls that would send the same request with the same credential. So the cache is a private cache in
the sense of the RFC, which also obeys `s-maxage`, and stores responses marked `private` for each client
separately. The headers of a response can only shorten the times that the registrar allows (`limits.cache`).
"""

import re
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Final

from app.catalog.cache_rule import CacheRule

_DIRECTIVE: Final = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+)(?:=(?:\"((?:[^\"\\]|\\.)*)\"|([^\s,;]*)))?")
# The headers that determine the freshness of a response; a later 304 may change each of these.
_RELEVANT: Final = frozenset(
    {"cache-control", "pragma", "expires", "date", "age", "vary", "etag", "last-modified"}
)
_MAX_SECONDS: Final = 10 * 365 * 86_400


@dataclass(frozen=True, slots=True)
class Freshness:
    """The freshness of a response, by its headers and the rule of its provider; times are in seconds."""

    lifetime: float
    """The age until which the response may be reused without a request to the upstream."""
    age: float
    """The age of the response when it arrived."""
    private: bool
    stale_if_error: float
    """How long after `lifetime` it may be reused while the upstream fails (RFC 5861)."""
    etag: str
    last_modified: str
    headers: Mapping[str, str] = field(repr=False)
    """The headers, of `select_relevant_headers`, that this was determined from."""

    def conditions(self) -> tuple[tuple[str, str], ...]:
        """Return the headers of a conditional request (RFC 9110 section 13.1); () without a validator."""
        headers = []
        if self.etag:
            headers.append(("If-None-Match", self.etag))
        if self.last_modified:
            headers.append(("If-Modified-Since", self.last_modified))
        return tuple(headers)

    def confirms(self, headers: Mapping[str, str]) -> bool:
        """Return whether a 304 with these headers is about this response: the same ETag, or none."""
        etag = select_relevant_headers(headers).get("etag", "")
        return not etag or not self.etag or _read_opaque_tag(etag) == _read_opaque_tag(self.etag)


def select_relevant_headers(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the headers that determine freshness, by lower-case name; repeated ones are joined by commas
    (RFC 9110 section 5.3).
    """
    relevant: dict[str, str] = {}
    for name, value in headers.items():
        lowered = name.lower()
        if lowered in _RELEVANT:
            relevant[lowered] = f"{relevant[lowered]}, {value}" if lowered in relevant else value
    return relevant


def assess_freshness(headers: Mapping[str, str], rule: CacheRule) -> Freshness | None:
    """Return the freshness of a response with these headers, which `select_relevant_headers` has returned;
    None where it must not be cached.
    """
    directives = parse_cache_control(headers.get("cache-control", ""))
    if "no-store" in directives or "*" in headers.get("vary", ""):
        return None
    private = "private" in directives
    lifetime = min(
        _read_lifetime(headers, directives, shared=not private, default_seconds=rule.default_seconds),
        rule.seconds,
    )
    stale_if_error = min(
        rule.stale_if_error, _parse_seconds(directives.get("stale-if-error"), default=rule.stale_if_error)
    )
    strict = (
        {"must-revalidate", "no-cache"} if private else {"must-revalidate", "no-cache", "proxy-revalidate"}
    )
    if not strict.isdisjoint(directives):
        stale_if_error = 0.0
    freshness = Freshness(
        lifetime=lifetime,
        age=_measure_age(headers),
        private=private,
        stale_if_error=stale_if_error,
        etag=_keep_if_sendable(headers.get("etag", "")),
        last_modified=_keep_if_sendable(headers.get("last-modified", "")),
        headers=headers,
    )
    if freshness.lifetime + freshness.stale_if_error <= freshness.age and not freshness.conditions():
        return None
    return freshness


def parse_cache_control(text: str) -> dict[str, str | None]:
    """Return the directives of a Cache-Control header by name in lower case, with their values or None.

    Of a directive that occurs twice, the smaller number is used (RFC 9111 section 4.2.1 leaves this open).
    """
    directives: dict[str, str | None] = {}
    for match in _DIRECTIVE.finditer(text):
        name = match[1].lower()
        value = match[3] if match[2] is None else match[2]
        if name in directives and _parse_seconds(directives[name], default=0) <= _parse_seconds(
            value, default=0
        ):
            continue
        directives[name] = value
    return directives


def read_max_age(directives: Mapping[str, str | None]) -> float:
    """Return the maximum age, in seconds, of a cached response for a request with these directives."""
    if "no-cache" in directives:
        return 0.0
    return _parse_seconds(directives["max-age"], default=0) if "max-age" in directives else _MAX_SECONDS


def _read_lifetime(
    headers: Mapping[str, str], directives: Mapping[str, str | None], *, shared: bool, default_seconds: float
) -> float:
    """Return the freshness lifetime (RFC 9111 section 4.2.1); `default_seconds` in place of heuristics."""
    if "no-cache" in directives:
        return 0.0
    for name in ("s-maxage", "max-age") if shared else ("max-age",):
        if name in directives:
            return _parse_seconds(directives[name], default=0)
    if "expires" in headers:
        expires = _parse_date(headers["expires"])
        return (
            0.0 if expires is None else max(expires - (_parse_date(headers.get("date")) or time.time()), 0.0)
        )
    if "no-cache" in headers.get("pragma", "").lower():
        return 0.0
    return default_seconds


def _measure_age(headers: Mapping[str, str]) -> float:
    """Return the age on arrival (RFC 9111 section 4.2.3), without the response delay."""
    date = _parse_date(headers.get("date"))
    apparent = 0.0 if date is None else max(time.time() - date, 0.0)
    # A date has whole seconds: a response that was just generated would seem up to one second old.
    apparent = max(apparent - 1.0, 0.0)
    return max(apparent, _parse_seconds(headers.get("age", "").partition(",")[0].strip() or None, default=0))


def _parse_seconds(value: str | None, *, default: float) -> float:
    """Return a number of seconds (RFC 9111 section 1.2.2); `default` for None and other texts."""
    if value is None or not (value.isascii() and value.isdigit()):
        return default
    return float(min(int(value[:12]), _MAX_SECONDS))


def _parse_date(value: str | None) -> float | None:
    if value is None:
        return None
    try:
        return parsedate_to_datetime(value).timestamp()
    except (ValueError, OverflowError):
        return None


def _keep_if_sendable(value: str) -> str:
    """Return a validator, or "" for one with characters that a request of ours cannot send."""
    return value if value.isascii() and value.isprintable() else ""


def _read_opaque_tag(etag: str) -> str:
    """Return the opaque tag of an ETag, for the weak comparison of RFC 9110 section 8.8.3.2."""
    return etag.strip().removeprefix("W/")
