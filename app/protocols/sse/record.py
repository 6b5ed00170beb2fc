"""UTCP's `sse`: server-sent events."""

from app.protocols.record import DirectMode, ProtocolRecord, always_streams
from app.protocols.shared.origins import url_origin
from app.protocols.sse.template import SseTemplate

PROTOCOL = ProtocolRecord(
    name="sse",
    template=SseTemplate,
    adapter="app.protocols.sse.adapter:SseAdapter",
    origin=url_origin,
    streams=always_streams,
    direct=DirectMode(by_default=True),
)
