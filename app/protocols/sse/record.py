"""UTCP's `sse`: server-sent events."""

from app.protocols.record import DirectMode, Fields, ProtocolRecord, always_streams
from app.protocols.shared.origins import url_origin
from app.protocols.sse.template import SseTemplate


def _http_method(fields: Fields) -> str:
    return "POST" if fields.get("body_field") else "GET"


def _request(fields: Fields) -> tuple[str, str]:
    return _http_method(fields), str(fields.get("url", ""))


PROTOCOL = ProtocolRecord(
    name="sse",
    template=SseTemplate,
    adapter="app.protocols.sse.adapter:SseAdapter",
    origin=url_origin,
    streams=always_streams,
    http_method=_http_method,
    request=_request,
    direct=DirectMode(by_default=True),
)
