"""Multipart bodies whose parts have no names (OAS 3.2, Encoding By Position): a list of the parts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from app.core.media_types import is_textual, may_be_json, parse_essence
from app.openapi.conversion.part_headers import with_part_headers
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem
from app.openapi.schemas.dialect import Mode

_FORM_DATA = "multipart/form-data"
_POSITIONAL = ("itemSchema", "prefixEncoding", "itemEncoding")
_PART = "part"
_MAX_PARTS = 200
_MAX_NESTING = 4
# A schema with one of these says what the value of its part is; one without is that of bytes.
_DESCRIBING = frozenset(
    {"type", "properties", "items", "prefixItems", "additionalProperties", "enum", "const", "format"}
    | {"allOf", "anyOf", "oneOf", "contentMediaType", "contentEncoding", "contentSchema"}
)

FieldEncoding = Callable[[OpenApiDocument, Any, Any, Mode], tuple[Json, tuple[str, ...]]]
"""`bodies.field_encoding`: (document, schema of a form, its `encoding`, mode) -> entries by field, notes."""


@dataclass(frozen=True, slots=True)
class PositionalForm:
    """The unconverted schema of the list, and the encoding of its parts as members of the plan."""

    schema: Json
    prefix_encoding: list[Json]
    item_encoding: Json | None
    notes: tuple[str, ...] = ()


def read_positional_form(
    document: OpenApiDocument, content_type: str, media_object: Json, *, encode: FieldEncoding
) -> PositionalForm | None:
    """Return the list of parts of a multipart body; None where its parts have names."""
    schema = _resolve(document, media_object.get("schema"))
    listed = _is_list(schema) and parse_essence(content_type) != _FORM_DATA
    if not listed and not any(key in media_object for key in _POSITIONAL):
        return None
    if "itemSchema" in media_object:
        schema = {**schema, "items": media_object["itemSchema"]}
    return _read_form(document, schema, media_object, encode, _MAX_NESTING)


def _read_form(
    document: OpenApiDocument, schema: Json, holder: Json, encode: FieldEncoding, depth: int
) -> PositionalForm:
    """Return the parts of a list; `holder` is the Media Type or Encoding Object with their encoding."""
    prefix = _list(schema.get("prefixItems"))[:_MAX_PARTS]
    encodings = _list(holder.get("prefixEncoding"))[:_MAX_PARTS]
    rest, rest_encoding = schema.get("items", {}), _as_mapping(holder.get("itemEncoding"))
    parts: list[tuple[Any, Json]] = []
    notes: list[str] = []
    for index in range(max(len(prefix), len(encodings))):
        part_schema = prefix[index] if index < len(prefix) else rest
        encoding = _as_mapping(encodings[index]) if index < len(encodings) else rest_encoding
        parts.append(_read_part(document, part_schema, encoding, encode, depth, notes))
    item = None if rest is False else _read_part(document, rest, rest_encoding, encode, depth, notes)
    list_schema = {key: value for key, value in schema.items() if key not in ("prefixItems", "items")}
    list_schema["type"] = "array"
    if parts:
        list_schema["prefixItems"] = [one for one, _ in parts]
    list_schema["items"] = False if item is None else item[0]
    return PositionalForm(
        list_schema,
        [encoding for _, encoding in parts],
        None if item is None else item[1],
        tuple(dict.fromkeys(notes)),
    )


def _read_part(
    document: OpenApiDocument,
    schema: Any,
    encoding: Json,
    encode: FieldEncoding,
    depth: int,
    notes: list[str],
) -> tuple[Any, Json]:
    """Return the unconverted schema of a part, and its entry in the plan."""
    resolved = _resolve(document, schema)
    content_type = str(encoding.get("contentType") or "").split(",")[0].strip()
    if depth and (content_type.lower().startswith("multipart/") or _has_positions(encoding)):
        nested = _read_form(document, resolved, encoding, encode, depth - 1)
        notes.extend(nested.notes)
        entry: Json = {
            "content_type": content_type or "multipart/mixed",
            "prefix_encoding": nested.prefix_encoding,
            "item_encoding": nested.item_encoding,
        }
        return nested.schema, entry
    textual = is_textual(content_type) or (content_type != "" and may_be_json(content_type))
    if not textual and not _DESCRIBING & resolved.keys():
        # OAS 3.2, Encoding Object: without a type, the default is application/octet-stream.
        schema = {**resolved, "type": "string", "format": "binary"}
    entries, remarks = encode(document, {"properties": {_PART: schema}}, {_PART: encoding}, Mode.FILES)
    notes.extend(remarks)
    entry = entries.get(_PART, {})
    files = {_PART} if entry.get("file") else set[str]()
    form = with_part_headers(document, {"properties": {_PART: schema}}, {_PART: encoding}, files=files)
    return form["properties"][_PART], entry


def _has_positions(encoding: Json) -> bool:
    return "prefixEncoding" in encoding or "itemEncoding" in encoding


def _is_list(schema: Json) -> bool:
    return "prefixItems" in schema or schema.get("type") == "array"


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _as_mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}


def _resolve(document: OpenApiDocument, schema: Any) -> Json:
    try:
        return _as_mapping(document.references.follow(schema, location="").node)
    except RefProblem:
        return {}
