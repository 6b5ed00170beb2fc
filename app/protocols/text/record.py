"""UTCP's `text`: a document or the response of a tool, in the template itself."""

import hashlib

from app.protocols.record import DirectMode, Fields, ProtocolRecord, reads_only
from app.protocols.text.template import TextTemplate


def _origin(fields: Fields) -> str:  # noqa: ARG001 - there is only one.
    return "text://"


def _operations(fields: Fields) -> tuple[str, ...]:
    return (hashlib.sha256(str(fields.get("content")).encode(errors="replace")).hexdigest(),)


def _reassign(fields: Fields) -> tuple[str, str] | None:
    if "file_path" in fields and fields.get("content") is None:
        return "file", "text with file_path is called file since UTCP 1.1."
    return None


PROTOCOL = ProtocolRecord(
    name="text",
    template=TextTemplate,
    adapter="app.protocols.text.adapter:TextAdapter",
    origin=_origin,
    is_content=True,
    reassign=_reassign,
    http_method=reads_only,
    operations=_operations,
    direct=DirectMode(versions=frozenset({1})),
)
