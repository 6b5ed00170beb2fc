"""UTCP's `streamable_http` (0.x: `http_stream`): a response in chunks."""

from app.protocols.record import (
    DESTRUCTIVE_HTTP_METHODS,
    DirectMode,
    ProtocolRecord,
    always_streams,
    http_method,
    http_request,
)
from app.protocols.shared.origins import url_origin
from app.protocols.streamable_http.template import StreamableHttpTemplate

PROTOCOL = ProtocolRecord(
    name="streamable_http",
    aliases=("http_stream", "streamablehttp"),
    template=StreamableHttpTemplate,
    adapter="app.protocols.streamable_http.adapter:StreamableHttpAdapter",
    origin=url_origin,
    streams=always_streams,
    http_method=http_method,
    request=http_request,
    destructive=DESTRUCTIVE_HTTP_METHODS,
    direct=DirectMode(by_default=True, name_v0="http_stream"),
)
