"""UTCP's `http`."""

from app.outbound.framing import EVENT_MEDIA_TYPES
from app.protocols.http.direct import native, without_unsendable
from app.protocols.http.template import HttpTemplate
from app.protocols.record import (
    DESTRUCTIVE_HTTP_METHODS,
    DirectMode,
    Fields,
    ProtocolRecord,
    http_method,
    http_request,
)
from app.protocols.shared.origins import url_origin


def _streams(fields: Fields) -> bool:
    """Return whether the tool accepts a response that consists of events."""
    headers = {name.lower(): value for name, value in (fields.get("headers") or {}).items()}
    ranges = str(headers.get("accept") or fields.get("accept") or "").lower().split(",")
    return any(one.partition(";")[0].strip() in EVENT_MEDIA_TYPES for one in ranges)


PROTOCOL = ProtocolRecord(
    name="http",
    template=HttpTemplate,
    adapter="app.protocols.http.adapter:HttpAdapter",
    origin=url_origin,
    streams=_streams,
    http_method=http_method,
    request=http_request,
    destructive=DESTRUCTIVE_HTTP_METHODS,
    direct=DirectMode(by_default=True, without_unsendable=without_unsendable, native=native),
)
