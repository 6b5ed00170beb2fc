"""UTCP 0.x's `webrtc`: messages on a data channel."""

from app.formats.utcp.paths import HTTP_SCHEMES, compile_url
from app.protocols.record import DirectMode, Fields, ProtocolRecord
from app.protocols.shared.origins import WEBSOCKET_SCHEMES
from app.protocols.webrtc.template import WebrtcTemplate


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
    adapter="app.protocols.webrtc.adapter:WebrtcAdapter",
    extra="webrtc",
    libraries=("aiortc", "websockets"),
    origin=origin_of,
    address=_address,
    inherits_template=True,
    direct=DirectMode(versions=frozenset({0})),
)
