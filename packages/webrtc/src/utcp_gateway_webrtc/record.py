"""UTCP 0.x's `webrtc`: messages on a data channel."""

from app.protocols.extension import (
    HTTP_SCHEMES,
    WEBSOCKET_SCHEMES,
    DirectMode,
    Fields,
    ProtocolRecord,
    compile_url,
)

from utcp_gateway_webrtc.template import WebrtcTemplate


def origin_of(fields: Fields) -> str:
    """Return the origin of the signalling server, by HTTP or WebSocket; raise InvalidInput where none is
    fixed and legal.
    """
    url = _address(fields)
    schemes = WEBSOCKET_SCHEMES if url.strip().lower().startswith("ws") else HTTP_SCHEMES
    return compile_url(url, at="/signaling_server", schemes=schemes).origin


def _address(fields: Fields) -> str:
    return str(fields.get("signaling_server", ""))


PROTOCOL = ProtocolRecord(
    name="webrtc",
    template=WebrtcTemplate,
    adapter="utcp_gateway_webrtc.adapter:WebrtcAdapter",
    origin=origin_of,
    address=_address,
    inherits_template=True,
    direct=DirectMode(versions=frozenset({0})),
)
