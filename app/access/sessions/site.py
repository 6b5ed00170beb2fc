"""How the browser of a request reaches the gateway: under which origin, and by which cookie its session.

    https                             __Host-utcp-session, which has the attribute Secure
    http on loopback                  utcp-session-<port>, since cookies do not tell ports apart
    http, behind a proxy with TLS     as https, where PUBLIC_BASE_URL begins with https://
    http otherwise                    rejected: the key and the cookie could be read on the way

The server sets the scheme by X-Forwarded-Proto of trusted proxies only (FORWARDED_ALLOW_IPS). A browser sends
Host and Origin itself, no page can choose them; a proxy may replace Host, and never Origin.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from app.core.errors import CrossSiteRequest, HttpsRequired
from app.core.loopback import is_loopback
from app.core.settings import Settings

SECURE_COOKIE: Final = "__Host-utcp-session"

_LOOPBACK_COOKIE: Final = "utcp-session"
_HTTP_PORT: Final = 80
_HOST: Final = re.compile(r"(?:[a-z0-9.-]{1,253}|\[[0-9a-f:.]{2,45}\])(?::[0-9]{1,5})?")
_PROXY_FIELDS: Final = frozenset(
    {b"forwarded", b"via", b"x-forwarded-for", b"x-forwarded-host", b"x-forwarded-proto", b"x-real-ip"}
)
_CHECKED_FIELDS: Final = _PROXY_FIELDS | {b"host", b"origin", b"sec-fetch-site"}


@dataclass(frozen=True, slots=True)
class Site:
    """The origins of the gateway as the browser of a request may show them (RFC 6454, in lower case), the
    name of the session's cookie, and whether that is sent over HTTPS only.
    """

    origins: frozenset[str]
    cookie_name: str
    is_secure: bool


def site_of(scope: Mapping[str, Any], settings: Settings) -> Site:
    """Return the site of a request (its ASGI scope); raise HttpsRequired for one over plain HTTP that is not
    on loopback, and CrossSiteRequest where Host or Origin occurs more than once.
    """
    head = _head(scope["headers"])
    public = public_origin(settings)
    host, origin = head.get(b"host", ""), head.get(b"origin")
    if scope.get("scheme") == "https":
        return _secure_site(host, public)
    own = f"http://{host}"
    if _loopback_port(host) is not None and not head.keys() & _PROXY_FIELDS:
        # With Docker or an SSH tunnel the client's address is not loopback, and the browser's Origin is.
        is_direct = _is_loopback_client(scope) if origin is None else origin == own
        if is_direct:
            return Site(frozenset({own}), loopback_cookie(host), is_secure=False)
    if public.startswith("https://"):
        return _secure_site("", public)
    raise HttpsRequired(
        "The browser reaches the gateway over plain HTTP at another address than loopback: the key and the "
        "session could be read on the way."
    )


def check_same_origin(scope: Mapping[str, Any], settings: Settings) -> None:
    """Check that a page of the gateway has sent a request: for each one that changes something by the rights
    of a cookie, and for each that signs in. One with an API key in its head needs no check: no other page can
    send that.

    Raise CrossSiteRequest for a request of another site, another origin of the same site, a page without an
    origin (`null`: a sandboxed frame, a file), and one that says neither; HttpsRequired as `site_of` does.
    """
    head = _head(scope["headers"])
    origin, fetch_site = head.get(b"origin"), head.get(b"sec-fetch-site")
    if fetch_site not in (None, "same-origin", "none"):
        raise CrossSiteRequest(
            "Another web page has sent the request: its Sec-Fetch-Site is not `same-origin`."
        )
    try:
        origins = site_of(scope, settings).origins
    except HttpsRequired:
        if origin is None or origin == f"http://{head.get(b'host', '')}":
            raise
        origins = frozenset()
    if origin is not None:
        if origin not in origins:
            raise CrossSiteRequest("The request's Origin is not that of the gateway.")
    elif fetch_site != "same-origin":
        raise CrossSiteRequest(
            "The request has neither Origin nor Sec-Fetch-Site, so which page has sent it is not known."
        )


def site_url(scope: Mapping[str, Any], settings: Settings) -> str:
    """Return the gateway's URL for the browser of a request's client, without a slash at its end:
    PUBLIC_BASE_URL; without it the address of the request, which the client chooses.

    Raise HttpsRequired for a URL at which a browser could not sign in.
    """
    host, scheme = host_of(scope), scope.get("scheme", "http")
    root = scope.get("root_path", "").rstrip("/")
    base = settings.public_base_url or (f"{scheme}://{host}{root}" if _HOST.fullmatch(host) else "")
    is_proxied = any(name in _PROXY_FIELDS for name, _ in scope["headers"])
    if base.startswith("https://") or (is_loopback(base) and not is_proxied):
        return base
    raise HttpsRequired("The gateway's address for browsers is one of plain HTTP.")


def public_origin(settings: Settings) -> str:
    """Return the origin of PUBLIC_BASE_URL; "" where that is not set."""
    if settings.public_base_url is None:
        return ""
    parts = urlsplit(settings.public_base_url.lower())
    default = ":443" if parts.scheme == "https" else ":80"
    return f"{parts.scheme}://{parts.netloc.removesuffix(default)}"


def loopback_cookie(host: str) -> str:
    """Return the name of the cookie over plain HTTP for a Host header, which names loopback."""
    return f"{_LOOPBACK_COOKIE}-{_loopback_port(host)}"


def host_of(scope: Mapping[str, Any]) -> str:
    """Return the Host header of a request in lower case; "" without one."""
    return next((v.decode("latin-1").lower() for name, v in scope["headers"] if name == b"host"), "")


def is_loopback_host(host: str) -> bool:
    """Return whether a Host header names loopback."""
    return _loopback_port(host) is not None


def _secure_site(host: str, public: str) -> Site:
    origins = {f"https://{host.removesuffix(':443')}", public} if host else {public}
    return Site(frozenset(origins - {""}), SECURE_COOKIE, is_secure=True)


def _head(headers: Iterable[tuple[bytes, bytes]]) -> dict[bytes, str]:
    head: dict[bytes, str] = {}
    for name, value in headers:
        if name not in _CHECKED_FIELDS:
            continue
        if name in head and name not in _PROXY_FIELDS:
            raise CrossSiteRequest("A header of the request occurs more than once.")
        head[name] = value.decode("latin-1").strip(" \t").lower()
    return head


def _is_loopback_client(scope: Mapping[str, Any]) -> bool:
    client = scope.get("client")
    host = client[0] if client else ""
    return is_loopback(f"http://[{host}]" if ":" in host else f"http://{host}")


def _loopback_port(host: str) -> int | None:
    """Return the port of a Host header that names loopback; None for any other."""
    try:
        parts = urlsplit(f"//{host}")
        port = parts.port
    except ValueError:
        return None
    if parts.netloc != host or "@" in host or not is_loopback(f"http://{host}"):
        return None
    return _HTTP_PORT if port is None else port
