"""Whether the address guard blocks the origin of a tool or a source at present, and why."""

from typing import Final
from urllib.parse import urlsplit

from app.outbound.egress import EgressSettings
from app.outbound.guard import DeniedAddress
from app.outbound.network import Address, Network

_PORTS: Final = {"http": 80, "ws": 80, "https": 443, "wss": 443}


async def denied_destination(
    origin: str, network: Network, egress: EgressSettings | None
) -> DeniedAddress | None:
    """Return the address that the guard denies for an origin; None where it denies none, the name cannot be
    resolved, or a proxy resolves it in its own network.
    """
    if egress is not None and egress.proxy_url is not None and egress.proxy_resolves:
        return None
    try:
        parts = urlsplit(origin)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return None
    if not parts.hostname or port is None:
        return None
    path = None if egress is None else egress.socket_path(parts.hostname)
    if path is not None:
        return network.denied_socket(path)
    return await network.denied(Address(parts.hostname, port))
