"""The headers of parts: `headers` of OAS Encoding Objects, for multipart forms.

A file part takes them as the member `headers` of its object. Another part is its value alone: its headers
have the value that their schema fixes or suggests (`const`, a single `enum`, `default`), or cannot be sent.
"""

from collections.abc import Collection
from typing import Any

from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.identifiers import Tokens
from app.openapi.reading.refs import RefProblem
from app.openapi.schemas.dialect import Mode
from app.openapi.schemas.files import PART_HEADERS

_MAX_HEADERS = 50
# Framing of the part itself: OAS says that Content-Type here SHALL be ignored; RFC 7578 deprecates the last.
_OWN = frozenset({"content-type", "content-disposition", "content-transfer-encoding", "content-length"})
_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")


def part_headers(
    document: OpenApiDocument, name: str, declared: Json, *, is_file: bool, notes: list[str]
) -> Json:
    """Return the member `headers` of a field's encoding, {} where it has none.

    Each header has its value where the document gives it one, and whether it is required.
    """
    headers: Json = {}
    for header, node in _list_declared(document, declared).items():
        value = _find_fixed_value(_read_schema(document, node))
        required = node.get("required") is True
        if value is None and not is_file:
            notes.append(f"part `{name[:100]}` is sent without its header {header}: it has no value")
        else:
            headers[header] = {"value": value, "required": required}
    return {"headers": headers} if headers else {}


def with_part_headers(document: OpenApiDocument, schema: Any, given: Json, *, files: Collection[str]) -> Any:
    """Return the schema of a form in which the file parts with headers have the schemas of these.

    Only the form's own properties can have them; those of its `allOf` have the values of the document.
    """
    wanted = {
        name: _list_declared(document, given[name])
        for name in files
        if isinstance(given.get(name), dict) and isinstance(given[name].get("headers"), dict)
    }
    try:
        form = document.references.follow(schema, location="").node
    except RefProblem:
        return schema
    properties = form.get("properties") if isinstance(form, dict) else None
    if not wanted or not isinstance(properties, dict):
        return schema
    key = ("part headers", id(given))
    if key not in document.memo:
        with_headers = {
            name: _with_headers(document, one, wanted[name]) if wanted.get(name) else one
            for name, one in properties.items()
        }
        document.memo[key] = given, {**form, "properties": with_headers}
    return document.memo[key][1]


def _with_headers(document: OpenApiDocument, node: Any, headers: Json) -> Any:
    try:
        node = document.references.follow(node, location="").node
    except RefProblem:
        return node
    if not isinstance(node, dict):
        return node
    if "items" in node:
        return {**node, "items": _with_headers(document, node["items"], headers)}
    schemas = {
        header: _convert_schema(document, _read_schema(document, one)) for header, one in headers.items()
    }
    return {**node, PART_HEADERS: schemas}


def _list_declared(document: OpenApiDocument, declared: Json) -> Json:
    """Return the Header Objects of an Encoding Object that can be sent, by name."""
    given = declared.get("headers")
    headers: Json = {}
    for header, node in list(given.items() if isinstance(given, dict) else ())[:_MAX_HEADERS]:
        try:
            resolved = document.references.follow(node, location="").node
        except RefProblem:
            continue
        if isinstance(resolved, dict) and header and _TOKEN.issuperset(header) and header.lower() not in _OWN:
            headers[header] = resolved
    return headers


def _read_schema(document: OpenApiDocument, header: Json) -> Json:
    try:
        schema = document.references.follow(header.get("schema", header), location="").node
    except RefProblem:
        return {}
    return schema if isinstance(schema, dict) else {}


def _find_fixed_value(schema: Json) -> Any:
    """Return the scalar that a schema fixes or suggests, None where it has none."""
    listed = schema.get("enum")
    single = listed[0] if isinstance(listed, list) and len(listed) == 1 else None
    for value in (schema.get("const"), single, schema.get("default")):
        if isinstance(value, str | int | float):
            return value
    return None


def _convert_schema(document: OpenApiDocument, schema: Json) -> Json:
    """Return the converted schema of a header; one that refers to others is any text."""
    refs: tuple[Tokens, ...] = ()
    try:
        fragment = document.schemas.convert_schema(schema, "", mode=Mode.INPUT)
        refs = fragment.refs
    except RefProblem:
        return {"type": "string"}
    return {"type": "string"} if refs else fragment.schema
