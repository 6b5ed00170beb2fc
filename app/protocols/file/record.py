"""UTCP's `file`: a document or the response of a tool, in a file of the gateway's own machine."""

import posixpath

from app.protocols.file.template import FileTemplate
from app.protocols.record import DirectMode, Fields, ProtocolRecord, not_direct_here, reads_only


def _origin(fields: Fields) -> str:
    return f"file://{posixpath.normpath(str(fields.get('file_path', '')))}"


PROTOCOL = ProtocolRecord(
    name="file",
    template=FileTemplate,
    adapter="app.protocols.file.adapter:FileAdapter",
    origin=_origin,
    may_be_local=True,
    is_content=True,
    http_method=reads_only,
    direct=DirectMode(native=not_direct_here),
)
