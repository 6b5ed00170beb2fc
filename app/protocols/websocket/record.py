"""UTCP's `websocket`."""

import re

from app.formats.utcp.paths import compile_url
from app.protocols.record import Fields, ProtocolRecord
from app.protocols.shared.origins import WEBSOCKET_SCHEMES
from app.protocols.websocket.template import WebsocketTemplate


def origin_of(fields: Fields) -> str:
    """Return `wss://host[:port]` of the URL; raise InvalidInput where none is fixed and legal."""
    return compile_url(str(fields.get("url", "")), schemes=WEBSOCKET_SCHEMES).origin


def _request(fields: Fields) -> tuple[str, str]:
    """Return the request of the opening handshake (RFC 6455, section 4.1)."""
    return "GET", re.sub("^ws", "http", str(fields.get("url", "")), flags=re.IGNORECASE)


PROTOCOL = ProtocolRecord(
    name="websocket",
    aliases=("ws",),
    template=WebsocketTemplate,
    adapter="app.protocols.websocket.adapter:WebsocketAdapter",
    extra="websocket",
    libraries=("websockets",),
    origin=origin_of,
    request=_request,
    socket_schemes=WEBSOCKET_SCHEMES,
    tls_schemes=("wss",),
    inherits_template=True,
)
