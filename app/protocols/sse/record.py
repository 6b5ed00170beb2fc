"""UTCP's `sse`: server-sent events."""

from app.protocols.record import DirectMode, Fields, ProtocolRecord, always_streams
from app.protocols.shared.origins import url_origin
from app.protocols.sse.template import SseTemplate


def _http_method(fields: Fields) -> str:
    return "POST" if fields.get("body_field") else "GET"


PROTOCOL = ProtocolRecord(
    name="sse",
    template=SseTemplate,
    adapter="app.protocols.sse.adapter:SseAdapter",
    origin=url_origin,
    streams=always_streams,
    http_method=_http_method,
    direct=DirectMode(by_default=True),
)
