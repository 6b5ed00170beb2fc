"""Origins (RFC 6454): `scheme://host[:port]` in lower case, without the port that the scheme implies."""

import ipaddress
from collections.abc import Iterable
from urllib.parse import urlsplit

from app.errors import InvalidInput
from app.utcp.paths import compile_url


def origin_of(url: str) -> str | None:
    """The origin of an absolute http(s) URL (or template), or None where it has none that is fixed and legal.

    It is the very origin that a compiled call has, so that what is allowed here is what is compared there.
    """
    try:
        return compile_url(url).origin
    except InvalidInput:
        return None


def is_origin(text: str) -> bool:
    """Whether the text is an origin and nothing more (one trailing slash is tolerated)."""
    rest = text.strip().partition("://")[2].removesuffix("/")
    return origin_of(text) is not None and not any(mark in rest for mark in "/?#@{")


def origins_of(urls: Iterable[str]) -> tuple[str, ...]:
    """The distinct origins of the URLs that have one, in order of first appearance."""
    found = (origin_of(url) for url in urls)
    return tuple(dict.fromkeys(origin for origin in found if origin is not None))


def is_loopback(url: str) -> bool:
    """Whether the URL's host is `localhost` or a loopback address."""
    try:
        host = urlsplit(url).hostname or ""
    except ValueError:
        return False
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
