"""The cookie of a session: reading it from a request, and the header fields that set and delete it.

`__Host-` has browsers accept it only with Secure, with Path=/ and without Domain, so that no other host can
set it (RFC 6265bis section 4.1.3.2).
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any

from app.access.sessions.model import NewSession
from app.access.sessions.site import (
    SECURE_COOKIE,
    Site,
    host_of,
    is_loopback_host,
    loopback_cookie,
)
from app.storage.models import now


def read_cookie(scope: Mapping[str, Any]) -> str | None:
    """Return the text of a request's session (its ASGI scope), not verified; None without one, and where one
    of its names occurs more than once: another host, or another path, may have set one of these.
    """
    values = _cookies(scope["headers"])
    for name in _names(scope):
        found = values.get(name, [])
        if found:
            return found[0] if len(found) == 1 else None
    return None


def set_cookie(site: Site, session: NewSession, *, at: datetime | None = None) -> str:
    """Return the value of `Set-Cookie` for a new session, which the browser retains until its expiry."""
    seconds = max(0, int((session.expires_at - (at or now())).total_seconds()))
    return _field(site.cookie_name, session.text.reveal(), seconds, is_secure=site.is_secure)


def delete_cookies(scope: Mapping[str, Any]) -> list[str]:
    """Return the values of `Set-Cookie` that delete the cookies of a request's session; none without one."""
    values = _cookies(scope["headers"])
    return [_field(name, "", 0, is_secure=name == SECURE_COOKIE) for name in _names(scope) if name in values]


def _field(name: str, value: str, seconds: int, *, is_secure: bool) -> str:
    secure = "; Secure" if is_secure else ""
    return f"{name}={value}; Path=/; Max-Age={seconds}; HttpOnly; SameSite=Strict{secure}"


def _names(scope: Mapping[str, Any]) -> list[str]:
    """Return the names of the cookie that a request may have, the first one before the second."""
    host = host_of(scope)
    is_plain = scope.get("scheme") != "https" and is_loopback_host(host)
    return [loopback_cookie(host), SECURE_COOKIE] if is_plain else [SECURE_COOKIE]


def _cookies(headers: Iterable[tuple[bytes, bytes]]) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for field, value in headers:
        if field == b"cookie":
            for pair in value.decode("latin-1").split(";"):
                name, equals, text = pair.strip().partition("=")
                if equals:
                    found.setdefault(name, []).append(text)
    return found
