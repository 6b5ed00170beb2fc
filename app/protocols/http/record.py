"""UTCP's `http`."""

from app.protocols.http.direct import native
from app.protocols.http.template import HttpTemplate
from app.protocols.record import DirectMode, ProtocolRecord
from app.protocols.shared.origins import url_origin

PROTOCOL = ProtocolRecord(
    name="http",
    template=HttpTemplate,
    adapter="app.protocols.http.adapter:HttpAdapter",
    origin=url_origin,
    direct=DirectMode(by_default=True, native=native),
)
