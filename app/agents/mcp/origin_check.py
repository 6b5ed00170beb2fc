"""The checks of Host and Origin, against DNS rebinding: a web page must not reach a gateway on loopback."""

import ipaddress
from collections.abc import Mapping
from typing import Final
from urllib.parse import urlsplit

from app.core.errors import Forbidden
from app.core.settings import Settings

_LOCALHOST: Final = "localhost"
_SCHEMES: Final = ("http", "https")


class OriginCheck:
    """Admits requests by their headers Host and Origin.

    An Origin is admitted if it is one of CORS_ORIGINS, that of the gateway's public URL, or on loopback.
    Where the gateway listens on loopback, Host must name loopback or the host of its public URL;
    ALLOWED_HOSTS, which applies to every route, replaces this.
    """

    def __init__(self, settings: Settings) -> None:
        base = urlsplit(settings.base_url)
        self._own_host = base.hostname or ""
        self._origins = frozenset(origin.rstrip("/").lower() for origin in settings.cors_origins)
        self._own_origin = f"{base.scheme}://{base.netloc}".lower()
        self._checks_host = settings.allowed_hosts == ("*",) and is_loopback(settings.host)
        self._admitted: set[tuple[bytes | None, bytes | None]] = set()

    def check(self, head: Mapping[bytes, bytes]) -> None:
        """Raise Forbidden for a Host or an Origin that is not admitted."""
        key = head.get(b"host"), head.get(b"origin")
        if key in self._admitted:
            return
        host, origin = ((value or b"").decode("latin-1").strip(" \t").lower() for value in key)
        if self._checks_host and not self._admits_host(host):
            raise Forbidden(
                "The Host header names no host that is served here.",
                hint="Set PUBLIC_BASE_URL to the URL of the gateway, or ALLOWED_HOSTS to its host names.",
            )
        if key[1] is not None and not self._admits_origin(origin):
            raise Forbidden(
                "Web pages of this Origin may not use the gateway.",
                hint="Add the origin to the setting CORS_ORIGINS.",
            )
        # Bounded: clients choose these values, but only those of few hosts and origins are admitted.
        if len(self._admitted) < 1_000:
            self._admitted.add(key)

    def _admits_host(self, host: str) -> bool:
        name = _read_host_name(f"//{host}")
        return name is not None and (name == self._own_host or is_loopback(name))

    def _admits_origin(self, origin: str) -> bool:
        if "*" in self._origins or origin in self._origins or origin == self._own_origin:
            return True
        return is_loopback_origin(origin)


def is_loopback_origin(origin: str) -> bool:
    """Return whether an Origin is that of pages of this machine alone."""
    scheme = origin.partition("://")[0]
    name = _read_host_name(origin) if scheme in _SCHEMES else None
    return name is not None and is_loopback(name)


def is_loopback(host: str) -> bool:
    """Return whether a host name or address is that of this machine alone."""
    if host == _LOCALHOST:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _read_host_name(url: str) -> str | None:
    """Return the host of an URL that has at most a port besides; None for any other."""
    try:
        parts = urlsplit(url)
        _ = parts.port
    except ValueError:
        return None
    if parts.path or parts.query or parts.fragment or "@" in parts.netloc:
        return None
    return parts.hostname
