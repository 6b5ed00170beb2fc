"""Request bodies: one input `body`, one content type, and the encoding of its fields.

OAS 3.x Request Body, Media Type and Encoding Objects; Swagger 2.0 `body` and `formData` parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.openapi import media
from app.openapi.dialect import Mode
from app.openapi.document import OpenApiDocument
from app.openapi.model import Json
from app.openapi.parameters import Parameter, with_description
from app.openapi.refs import RefProblem, escape
from app.openapi.report import OperationProblem
from app.openapi.schemas import Fragment

_STYLES = frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject", "tabDelimited"})
_MAX_FIELDS = 2_000
_FILE = "application/octet-stream"
_BASE64 = "The bytes, as a base64 string."
_XML = "An XML document, as text."


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The request body of an argument plan, and the schema of the input that contains it."""

    content_type: str
    required: bool
    encoding: Json
    fragment: Fragment
    mode: Mode
    notes: tuple[str, ...] = ()

    def plan(self) -> Json:
        """Return the body as the member `body` of a call template."""
        return {
            "input": "body",
            "content_type": self.content_type,
            "required": self.required,
            "encoding": self.encoding,
        }


def read_body(document: OpenApiDocument, node: Any, at: str) -> RequestBody:
    """Return the body of a 3.x operation.

    Raises OperationProblem for a dangling reference, and for a body that is not an object.
    """
    key = ("body", id(node))
    if key not in document.memo:
        document.memo[key] = node, _body(document, node, at)
    body: RequestBody = document.memo[key][1]
    return body


def _body(document: OpenApiDocument, node: Any, at: str) -> RequestBody:
    found = document.references.follow(node, at=at)
    node, at = found.node, found.pointer
    if not isinstance(node, dict):
        raise OperationProblem("has a request body that is not an object", pointer=at)
    content = node.get("content")
    chosen = media.preferred(content) if isinstance(content, dict) else None
    if chosen is None or not isinstance(content, dict):
        remark = "the request body has no content type; it is sent as JSON"
        fragment = document.book.fragment(True, at, mode=Mode.INPUT)
        return RequestBody(
            "application/json", node.get("required") is True, {}, fragment, Mode.INPUT, (remark,)
        )
    one = content[chosen]
    one = document.references.follow(one, at=f"{at}/content/{escape(chosen)}").node
    one = one if isinstance(one, dict) else {}
    required = node.get("required") is True
    body = _typed(document, chosen, one, f"{at}/content/{escape(chosen)}", required=required)
    others = [other for other in content if other != chosen and media.legal(other)]
    if others:
        body = replace(body, notes=(*body.notes, f"the body is sent as {body.content_type}"))
    return replace(body, fragment=with_description(body.fragment, {"description": node.get("description")}))


def _typed(document: OpenApiDocument, chosen: str, one: Json, at: str, *, required: bool) -> RequestBody:
    content_type = media.concrete(chosen)
    schema_pointer = f"{at}/schema"
    if media.is_json(content_type):
        fragment = document.book.fragment(one.get("schema", True), schema_pointer, mode=Mode.INPUT)
        return RequestBody(content_type, required, {}, fragment, Mode.INPUT)
    if media.is_form(content_type):
        schema = one.get("schema", {"type": "object"})
        mode = Mode.FILES if content_type.lower().startswith("multipart/") else Mode.INPUT
        fragment = document.book.fragment(schema, schema_pointer, mode=mode)
        encoding, notes = _encoding(document, schema, one.get("encoding"), mode)
        return RequestBody(content_type, required, encoding, fragment, mode, notes)
    if media.is_xml(content_type):
        return RequestBody(
            content_type, required, {}, _fragment_of({"type": "string", "description": _XML}), Mode.INPUT
        )
    if media.is_textual(content_type):
        fragment = document.book.fragment(
            one.get("schema", {"type": "string"}), schema_pointer, mode=Mode.INPUT
        )
        if fragment.schema.get("type") == "string":
            bare = {key: value for key, value in fragment.schema.items() if key not in _BYTES_ONLY}
            fragment = replace(fragment, schema=bare)
        return RequestBody(content_type, required, {}, fragment, Mode.INPUT)
    schema = {"type": "string", "contentEncoding": "base64", "contentMediaType": media.base(content_type)}
    return RequestBody(
        content_type, required, {}, _fragment_of({**schema, "description": _BASE64}), Mode.FILES
    )


_BYTES_ONLY = ("format", "contentEncoding", "contentMediaType")


def _fragment_of(schema: Json) -> Fragment:
    return Fragment(schema, (), (), 120)


def _encoding(document: OpenApiDocument, schema: Any, given: Any, mode: Mode) -> tuple[Json, tuple[str, ...]]:
    """Return the plan's `encoding`: the document's Encoding Objects by field, and which fields are files."""
    given = given if isinstance(given, dict) else {}
    fields = _fields(document, schema)
    encoding: Json = {}
    notes: list[str] = []
    for name in list(dict.fromkeys([*given, *fields]))[:_MAX_FIELDS]:
        declared = given.get(name)
        entry = _entry(declared if isinstance(declared, dict) else {})
        if mode is Mode.FILES and _is_file(document, fields.get(name), mode):
            first = (entry["content_type"] or _FILE).split(",")[0].strip()
            if media.is_textual(first) or media.is_json(first):
                notes.append(f"file part `{name[:100]}` is sent as {_FILE}")
                first = _FILE
            encoding[name] = {**entry, "content_type": first, "style": None, "explode": None}
        elif entry != _entry({}):
            sent = (entry["content_type"] or "").split(",")[0]
            as_text = (
                mode is Mode.FILES and _is_string(document, fields.get(name)) and media.may_be_text(sent)
            )
            encoding[name] = {**entry, "text": True} if as_text else entry
    return encoding, tuple(notes)


def _entry(declared: Mapping[str, Any]) -> Json:
    """Return one Encoding Object for the plan. A null style means: determined by content type or kind of
    value.
    """
    style, explode = declared.get("style"), declared.get("explode")
    style = style if isinstance(style, str) and style in _STYLES else None
    reserved = declared.get("allowReserved") is True
    if style is None and (isinstance(explode, bool) or reserved):
        style = "form"
    if style is not None and (not isinstance(explode, bool) or style == "deepObject"):
        explode = style in {"form", "deepObject"}
    content_type = declared.get("contentType")
    first = content_type.split(",")[0] if isinstance(content_type, str) else None
    return {
        "content_type": content_type if media.legal(first) else None,
        "style": style,
        "explode": explode if style is not None else None,
        "allow_reserved": reserved,
    }


def _fields(document: OpenApiDocument, schema: Any) -> dict[str, Any]:
    """Return the top-level properties of a form's schema, through references and `allOf`/`anyOf`/`oneOf`."""
    fields: dict[str, Any] = {}
    stack, seen = [schema], set[int]()
    while stack and len(seen) < 100:
        node = _resolved(document, stack.pop())
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        properties = node.get("properties")
        if isinstance(properties, dict):
            fields = {**properties, **fields}
        for word in ("allOf", "anyOf", "oneOf"):
            if isinstance(node.get(word), list):
                stack.extend(reversed(node[word]))
    return fields


def _is_file(document: OpenApiDocument, node: Any, mode: Mode) -> bool:
    """Return whether a field, or each item of a list, was converted to the base64 of a file."""
    node = _resolved(document, node)
    if isinstance(node, dict) and "items" in node:
        node = _resolved(document, node["items"])
    if not isinstance(node, dict):
        return False
    own = {key: value for key, value in node.items() if key in _FILE_WORDS}
    return document.book.fragment(own, "", mode=mode).schema.get("contentEncoding") == "base64"


def _is_string(document: OpenApiDocument, node: Any) -> bool:
    """Return whether a field is declared as a string."""
    node = _resolved(document, node)
    return isinstance(node, dict) and node.get("type") == "string"


_FILE_WORDS = frozenset({"type", "format", "contentEncoding", "contentMediaType"})


def _resolved(document: OpenApiDocument, node: Any) -> Any:
    try:
        return document.references.follow(node, at="").node
    except RefProblem:
        return None


def read_body_v2(
    document: OpenApiDocument, parameters: Sequence[Parameter], operation: Json, *, notes: list[str]
) -> RequestBody | None:
    """Return the body that Swagger 2.0 declares as a `body` parameter or as `formData` parameters."""
    consumes = operation.get("consumes", document.raw.get("consumes"))
    offered = consumes if isinstance(consumes, list) else []
    fields = [parameter for parameter in parameters if parameter.location == "formData"]
    whole = next((parameter for parameter in parameters if parameter.location == "body"), None)
    if whole is not None:
        if fields:
            notes.append("form fields beside a `body` parameter were left out")
        chosen = media.preferred(one for one in offered if not media.is_form(str(one))) or "application/json"
        body = _typed(document, chosen, whole.node, whole.pointer, required=whole.required)
        if len(offered) > 1:
            notes.append(f"the body is sent as {body.content_type}")
        return replace(body, fragment=with_description(body.fragment, whole.node))
    if not fields:
        return None
    return _form_of_v2(fields, offered)


def _form_of_v2(fields: Sequence[Parameter], offered: Sequence[Any]) -> RequestBody:
    files = [one for one in fields if one.node.get("type") == "file"]
    forms = [one for one in offered if media.legal(one) and media.is_form(one)]
    chosen = media.preferred(forms) or "application/x-www-form-urlencoded"
    if files and not chosen.lower().startswith("multipart/"):
        chosen = "multipart/form-data"
    schema: Json = {"type": "object", "properties": {one.name: one.fragment.schema for one in fields}}
    required = [one.name for one in fields if one.required]
    if required:
        schema["required"] = required
    encoding: Json = {}
    for one in fields:
        if one in files:
            encoding[one.name] = {**_entry({}), "content_type": _FILE}
        elif one.node.get("type") == "array":
            encoding[one.name] = _entry({"style": one.style, "explode": one.explode})
    refs = tuple(dict.fromkeys(ref for one in fields for ref in one.fragment.refs))
    size = sum(one.fragment.size + len(one.name) + 8 for one in fields)
    mode = Mode.FILES
    return RequestBody(
        media.concrete(chosen), bool(required), encoding, Fragment(schema, refs, (), size), mode
    )
