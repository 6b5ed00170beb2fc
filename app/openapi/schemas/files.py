"""File parts of multipart forms in the input schema: base64, or an object that also has a name and a type.

A file is what OAS 3.0 writes as `format: binary`, 3.1 as `contentMediaType` without encoding (section
4.8.14.3), and 2.0 as `type: file`. A part that is itself to be sent as base64 text (`format: byte`,
`contentEncoding`) is the plain string that it is.
"""

from collections.abc import Mapping
from typing import Any

from app.openapi.model import Json

PART_HEADERS = "x-utcp-gateway-part-headers"
"""A member that `bodies.py` adds to the schema of a file part: the schemas of the headers of the part."""

_BASE64: Json = {"type": "string", "contentEncoding": "base64"}
_MEMBERS: Json = {
    "data": _BASE64,
    "text": {"type": "string"},
    "filename": {"type": "string"},
    "content_type": {"type": "string"},
}
_ONE_CONTENT = [{"required": ["data"]}, {"required": ["text"]}]
_ANNOTATIONS = ("title", "description", "default", "examples", "deprecated")


def convert_file(node: Mapping[str, Any], out: Json) -> None:
    """Convert the schema `out` of a form's field, made from the document's `node`, where it is a file."""
    kinds = out.get("type", "string")
    if kinds not in ("string", ["string", "null"], ["null", "string"]):
        return
    if node.get("type") != "file":
        encoded = out.pop("contentEncoding", None)
        media = out.get("contentMediaType", "")
        binary = media and not media.startswith("text/") and "json" not in media and "xml" not in media
        if out.get("format") != "binary" and not (encoded is None and binary):
            return
    out.pop("format", None)
    notes = {word: out.pop(word) for word in _ANNOTATIONS if word in out}
    string = {**out, **_BASE64}
    out.clear()
    out["anyOf"] = [string, _build_file_object(node.get(PART_HEADERS))]
    if kinds != "string":
        out["anyOf"].append({"type": "null"})
    out.update(notes)


def is_file(schema: Any) -> bool:
    """Return whether a converted schema is that of a file."""
    alternatives = schema.get("anyOf") if isinstance(schema, dict) else None
    return (
        isinstance(alternatives, list)
        and len(alternatives) > 1
        and alternatives[0].get("contentEncoding") == "base64"
        and alternatives[1].get("oneOf") == _ONE_CONTENT
    )


def _build_file_object(headers: Any) -> Json:
    properties = dict(_MEMBERS)
    if isinstance(headers, dict):
        properties["headers"] = {
            "type": "object",
            "properties": headers,
            "additionalProperties": False,
        }
    return {
        "type": "object",
        "properties": properties,
        "oneOf": _ONE_CONTENT,
        "additionalProperties": False,
    }
