"""`filesystem`: files below one folder of the gateway's machine, which its operator allows."""

import posixpath

from app.protocols.filesystem.template import FilesystemTemplate
from app.protocols.record import DirectMode, Fields, ProtocolRecord, not_direct_here


def _origin(fields: Fields) -> str:
    return f"filesystem://{posixpath.normpath(str(fields.get('root', '')))}"


def _http_method(fields: Fields) -> str:
    return "GET" if fields.get("operation") == "read" else "PUT"


def _operations(fields: Fields) -> tuple[str, ...]:
    return (str(fields.get("operation")),)


PROTOCOL = ProtocolRecord(
    name="filesystem",
    template=FilesystemTemplate,
    adapter="app.protocols.filesystem.adapter:FilesystemAdapter",
    origin=_origin,
    may_be_local=True,
    http_method=_http_method,
    operations=_operations,
    destructive={"operation": ("write",)},
    direct=DirectMode(versions=frozenset(), native=not_direct_here),
)
