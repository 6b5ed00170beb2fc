"""Request bodies: one input `body`, one content type, and the encoding of its fields.

OAS 3.x Request Body, Media Type and Encoding Objects; Swagger 2.0 `body` and `formData` parameters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.core.media_types import is_textual, is_xml, may_be_json, parse_essence
from app.openapi.conversion import media
from app.openapi.conversion.examples import media_type_examples
from app.openapi.conversion.parameters import Parameter, with_description
from app.openapi.conversion.part_headers import part_headers, with_part_headers
from app.openapi.conversion.positional import PositionalForm, read_positional_form
from app.openapi.conversion.sequences import sequence_fragment
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, escape_token
from app.openapi.report import OperationProblem
from app.openapi.schemas.closure import Fragment
from app.openapi.schemas.dialect import Mode
from app.openapi.schemas.files import is_file
from app.openapi.schemas.xml_shapes import has_structure, is_wrapper, read_xml_shape

_STYLES = frozenset({"form", "spaceDelimited", "pipeDelimited", "deepObject", "tabDelimited"})
_MAX_FIELDS = 2_000
_FILE = "application/octet-stream"
_BASE64 = "The bytes, as a base64 string."
_XML_TEXT = "An XML document, as text."
_AS_TEXT: Json = {"type": "string", "description": "Or the XML document itself, as text."}
_ROOT_NAME = "An object with one member: its name is that of the XML document's root element."
_NO_ROOT = "the XML document's root element has no name: the only member of `body` has it"
_LARGE_XML = "the schema of the XML body is too large: the document is given as text"


@dataclass(frozen=True, slots=True)
class RequestBody:
    """The request body of an argument plan, and the schema of the input that contains it.

    `xml` is the shape of an XML body. `single_part` is the name of the only part of a form whose schema is
    that of this part. `other_fields` is the encoding of the fields that a form does not name. `positional`
    are parts without names, of which the value is the list.
    """

    content_type: str
    required: bool
    encoding: Json
    fragment: Fragment
    mode: Mode
    notes: tuple[str, ...] = ()
    xml: Json | None = None
    single_part: str | None = None
    other_fields: Json | None = None
    positional: PositionalForm | None = None

    def plan(self) -> Json:
        """Return the body as the member `body` of a call template."""
        plan: Json = {
            "input": "body",
            "content_type": self.content_type,
            "required": self.required,
            "encoding": self.encoding,
        }
        more: Json = {"xml": self.xml, "single_part": self.single_part, "other_fields": self.other_fields}
        if self.positional is not None:
            more["prefix_encoding"] = self.positional.prefix_encoding or None
            more["item_encoding"] = self.positional.item_encoding
        return plan | {name: one for name, one in more.items() if one is not None}


def read_body(document: OpenApiDocument, node: Any, pointer: str) -> RequestBody:
    """Return the body of a 3.x operation; a reference that leads nowhere is any JSON value, with a note.

    Raises OperationProblem for a body that is not an object.
    """
    key = ("body", id(node))
    if key not in document.memo:
        document.memo[key] = node, _read_body(document, node, pointer)
    body: RequestBody = document.memo[key][1]
    return body


def _read_body(document: OpenApiDocument, node: Any, pointer: str) -> RequestBody:
    try:
        resolved = document.references.follow_described(node, location=pointer)
    except RefProblem as problem:
        document.warnings.add(problem.pointer, f"a request body {problem.reason}; it was taken as any JSON")
        remark = f"the request body {problem.reason}; any JSON value is sent"
        fragment = document.schemas.convert_schema(True, pointer, mode=Mode.INPUT)
        return RequestBody("application/json", False, {}, fragment, Mode.INPUT, (remark,))
    node, pointer = resolved.node, resolved.pointer
    if not isinstance(node, dict):
        raise OperationProblem("has a request body that is not an object", pointer=pointer)
    content = node.get("content")
    chosen = media.preferred(content) if isinstance(content, dict) else None
    if chosen is None or not isinstance(content, dict):
        remark = "the request body has no content type; it is sent as JSON"
        fragment = document.schemas.convert_schema(True, pointer, mode=Mode.INPUT)
        return RequestBody(
            "application/json", node.get("required") is True, {}, fragment, Mode.INPUT, (remark,)
        )
    media_object, remarks = _follow_media_type(
        document, content[chosen], f"{pointer}/content/{escape_token(chosen)}"
    )
    required = node.get("required") is True
    body = _build_body(
        document, chosen, media_object, f"{pointer}/content/{escape_token(chosen)}", required=required
    )
    others = [other for other in content if other != chosen and media.legal(other)]
    if others:
        remarks = (*remarks, f"the body is sent as {body.content_type}")
    body = replace(body, notes=(*body.notes, *remarks))
    is_json = may_be_json(body.content_type)
    examples = media_type_examples(document, media_object, body.fragment.schema) if is_json else []
    described = {"description": node.get("description")}
    return replace(body, fragment=with_description(body.fragment, described, examples=examples))


def _follow_media_type(document: OpenApiDocument, node: Any, pointer: str) -> tuple[Json, tuple[str, ...]]:
    """Return a Media Type Object with notes; {} (any value) where its reference leads nowhere."""
    try:
        node = document.references.follow(node, location=pointer).node
    except RefProblem as problem:
        detail = f"a media type {problem.reason}; its schema was taken as `any value`"
        document.warnings.add(problem.pointer, detail)
        return {}, (detail,)
    return node if isinstance(node, dict) else {}, ()


def _build_body(
    document: OpenApiDocument, chosen: str, media_object: Json, pointer: str, *, required: bool
) -> RequestBody:
    content_type = media.concrete(chosen)
    schema_pointer = f"{pointer}/schema"
    if may_be_json(content_type):
        fragment = document.schemas.convert_schema(
            media_object.get("schema", True), schema_pointer, mode=Mode.INPUT
        )
        return RequestBody(content_type, required, {}, fragment, Mode.INPUT)
    if media.is_form(content_type):
        return _build_form(document, content_type, media_object, schema_pointer, required=required)
    if is_xml(content_type):
        return _build_xml_body(
            document, content_type, media_object.get("schema"), schema_pointer, required=required
        )
    if media.is_sequential(content_type) and "itemSchema" in media_object:
        fragment = sequence_fragment(document, media_object, pointer, mode=Mode.INPUT)
        return RequestBody(content_type, required, {}, fragment, Mode.INPUT)
    if is_textual(content_type):
        fragment = document.schemas.convert_schema(
            media_object.get("schema", {"type": "string"}), schema_pointer, mode=Mode.INPUT
        )
        if fragment.schema.get("type") == "string":
            bare = {key: value for key, value in fragment.schema.items() if key not in _BYTES_ONLY}
            fragment = replace(fragment, schema=bare)
        return RequestBody(content_type, required, {}, fragment, Mode.INPUT)
    schema = {"type": "string", "contentEncoding": "base64", "contentMediaType": parse_essence(content_type)}
    return RequestBody(
        content_type, required, {}, _build_fragment({**schema, "description": _BASE64}), Mode.FILES
    )


_BYTES_ONLY = ("format", "contentEncoding", "contentMediaType")


def _build_xml_body(
    document: OpenApiDocument, content_type: str, schema: Any, schema_pointer: str, *, required: bool
) -> RequestBody:
    """Return a body of XML: a value of the schema that the gateway writes as XML, or the document as text."""
    text = RequestBody(
        content_type, required, {}, _build_fragment({"type": "string", "description": _XML_TEXT}), Mode.INPUT
    )
    if not has_structure(document, schema):
        return text
    shape = read_xml_shape(document, schema)
    if shape is None:
        return replace(text, notes=(_LARGE_XML,))
    notes: tuple[str, ...] = ()
    fragment = document.schemas.convert_schema(schema, schema_pointer, mode=Mode.INPUT)
    described = fragment.schema
    if shape["root"] is None and not is_wrapper(document, schema):
        shape["node"] = {"additional": shape["node"]} if shape["node"] else {}
        described = {
            "type": "object", "description": _ROOT_NAME,
            "minProperties": 1, "maxProperties": 1, "additionalProperties": described,
        }  # fmt: skip
        notes = (_NO_ROOT,)
    fragment = replace(fragment, schema={"anyOf": [described, _AS_TEXT]}, size=fragment.size + _XML_OVERHEAD)
    return RequestBody(content_type, required, {}, fragment, Mode.INPUT, notes, shape)


_XML_OVERHEAD = 250


def _build_fragment(schema: Json) -> Fragment:
    return Fragment(schema, (), (), 120)


def _build_form(
    document: OpenApiDocument, content_type: str, media_object: Json, schema_pointer: str, *, required: bool
) -> RequestBody:
    """Return the body of a form: `application/x-www-form-urlencoded` or `multipart/...`."""
    mode = Mode.FILES if content_type.lower().startswith("multipart/") else Mode.INPUT
    if mode is Mode.FILES:
        parts = read_positional_form(document, content_type, media_object, encode=field_encoding)
        if parts is not None:
            fragment = document.schemas.convert_schema(parts.schema, schema_pointer, mode=mode)
            return RequestBody(content_type, required, {}, fragment, mode, parts.notes, positional=parts)
    schema = media_object.get("schema", {"type": "object"})
    given = media_object.get("encoding")
    given = given if isinstance(given, dict) else {}
    if mode is Mode.FILES and _is_single_part(document, schema):
        fragment = document.schemas.convert_schema(schema, schema_pointer, mode=mode)
        encoding, notes = field_encoding(document, {"properties": {SINGLE_PART: schema}}, given, mode)
        notes = (*notes, f"the form has one part without a name; it is sent as `{SINGLE_PART}`")
        return RequestBody(content_type, required, encoding, fragment, mode, notes, single_part=SINGLE_PART)
    encoding, notes = field_encoding(document, schema, given, mode)
    if mode is Mode.FILES:
        schema = with_part_headers(document, schema, given, files=_list_files(encoding))
    fragment = document.schemas.convert_schema(schema, schema_pointer, mode=mode)
    other = None
    if mode is Mode.FILES:
        root = _resolve(document, schema)
        additional = root.get("additionalProperties") if isinstance(root, dict) else None
        if isinstance(additional, dict) and _is_file(document, additional):
            other = {**_build_entry({}), "content_type": _FILE, "file": True}
    return RequestBody(content_type, required, encoding, fragment, mode, notes, other_fields=other)


SINGLE_PART = "file"
_NAMELESS = frozenset({"string", "array", "integer", "number", "boolean", "file"})


def _is_single_part(document: OpenApiDocument, schema: Any) -> bool:
    """Return whether the schema of a multipart form is that of a part, and not that of its fields."""
    resolved = _resolve(document, schema)
    if not isinstance(resolved, dict) or "properties" in resolved:
        return False
    kinds = resolved.get("type")
    listed = kinds if isinstance(kinds, list) else [kinds]
    return _is_file(document, resolved) or any(isinstance(one, str) and one in _NAMELESS for one in listed)


def field_encoding(
    document: OpenApiDocument, schema: Any, given: Any, mode: Mode
) -> tuple[Json, tuple[str, ...]]:
    """Return the plan's `encoding`: the document's Encoding Objects by field, and which fields are files."""
    given = given if isinstance(given, dict) else {}
    fields = _collect_fields(document, schema)
    encoding: Json = {}
    notes: list[str] = []
    for name in list(dict.fromkeys([*given, *fields]))[:_MAX_FIELDS]:
        declared = given.get(name)
        declared = declared if isinstance(declared, dict) else {}
        entry = _build_entry(declared)
        if mode is Mode.FILES:
            entry |= _encode_part(document, name, fields.get(name), entry)
            entry |= part_headers(document, name, declared, is_file="file" in entry, notes=notes)
        if entry != _build_entry({}):
            encoding[name] = entry
    return encoding, tuple(notes)


def _encode_part(document: OpenApiDocument, name: str, schema: Any, entry: Json) -> Json:
    """Return what the schema of a multipart field says of its parts."""
    if _is_file(document, schema):
        sent = entry["content_type"] or _read_own_type(document, schema) or _FILE
        return {"content_type": sent, "style": None, "explode": None, "file": True}
    sent = (entry["content_type"] or "").split(",")[0].strip()
    if is_xml(sent):
        shape = _shape_xml_part(document, name, schema)
        return {} if shape is None else {"xml": shape}
    if _is_string(document, schema):
        return {"text": True} if media.may_be_text(sent) else {}
    return {"nested_files": True} if _has_nested_file(document, schema) else {}


def _read_own_type(document: OpenApiDocument, schema: Any) -> str | None:
    """Return the media type that the schema of a file has (3.1), the default of its content type."""
    node = _resolve(document, schema)
    if isinstance(node, dict) and "items" in node:
        node = _resolve(document, node["items"])
    declared = node.get("contentMediaType") if isinstance(node, dict) else None
    return declared.strip() if isinstance(declared, str) and media.legal(declared) else None


def _list_files(encoding: Json) -> frozenset[str]:
    return frozenset(name for name, entry in encoding.items() if entry.get("file"))


def _has_nested_file(document: OpenApiDocument, schema: Any) -> bool:
    """Return whether there is a file inside the value of a field, which is sent as JSON."""
    stack, seen = [schema], set[int]()
    while stack and len(seen) < _MAX_FIELDS:
        node = _resolve(document, stack.pop())
        if not isinstance(node, dict) or id(node) in seen:
            continue
        seen.add(id(node))
        if _is_file(document, node):
            return True
        properties = node.get("properties")
        stack.extend(properties.values() if isinstance(properties, dict) else ())
        stack.extend(node[word] for word in ("items", "additionalProperties") if word in node)
        for word in ("allOf", "anyOf", "oneOf"):
            stack.extend(node[word] if isinstance(node.get(word), list) else ())
    return False


def _shape_xml_part(document: OpenApiDocument, name: str, schema: Any) -> Json | None:
    """Return the shape of a part that is XML, or of each where the field is a list; None where it is text."""
    resolved = _resolve(document, schema)
    if isinstance(resolved, dict) and "items" in resolved:
        schema = resolved["items"]
    if not has_structure(document, schema):
        return None
    return read_xml_shape(document, schema, root=name)


def _build_entry(declared: Mapping[str, Any]) -> Json:
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


def _collect_fields(document: OpenApiDocument, schema: Any) -> dict[str, Any]:
    """Return the top-level properties of a form's schema, through references and `allOf`/`anyOf`/`oneOf`."""
    fields: dict[str, Any] = {}
    stack, seen = [schema], set[int]()
    while stack and len(seen) < 100:
        node = _resolve(document, stack.pop())
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


def _is_file(document: OpenApiDocument, node: Any) -> bool:
    """Return whether a field, or each item of a list, was converted to a file."""
    node = _resolve(document, node)
    if isinstance(node, dict) and "items" in node:
        node = _resolve(document, node["items"])
    if not isinstance(node, dict):
        return False
    file_schema = {key: value for key, value in node.items() if key in _FILE_WORDS}
    return is_file(document.schemas.convert_schema(file_schema, "", mode=Mode.FILES).schema)


def _is_string(document: OpenApiDocument, node: Any) -> bool:
    """Return whether a field is declared as a string."""
    node = _resolve(document, node)
    return isinstance(node, dict) and node.get("type") == "string"


_FILE_WORDS = frozenset({"type", "format", "contentEncoding", "contentMediaType"})


def _resolve(document: OpenApiDocument, node: Any) -> Any:
    try:
        return document.references.follow(node, location="").node
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
        body = _build_body(document, chosen, whole.node, whole.pointer, required=whole.required)
        if len(offered) > 1:
            notes.append(f"the body is sent as {body.content_type}")
        return replace(body, fragment=with_description(body.fragment, whole.node))
    if not fields:
        return None
    return _build_form_v2(fields, offered)


def _build_form_v2(fields: Sequence[Parameter], offered: Sequence[Any]) -> RequestBody:
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
    for field in fields:
        if field in files:
            encoding[field.name] = {**_build_entry({}), "content_type": _FILE, "file": True}
        elif field.node.get("type") == "array":
            encoding[field.name] = _build_entry({"style": field.style, "explode": field.explode})
            if field.item_styles:
                encoding[field.name]["item_styles"] = list(field.item_styles)
    refs = tuple(dict.fromkeys(ref for one in fields for ref in one.fragment.refs))
    size = sum(one.fragment.size + len(one.name) + 8 for one in fields)
    remarks = tuple(dict.fromkeys(note for one in fields for note in one.fragment.notes))
    fragment = Fragment(schema, refs, (), size, remarks)
    return RequestBody(media.concrete(chosen), bool(required), encoding, fragment, Mode.FILES)
