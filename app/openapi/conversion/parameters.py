"""Parameters: merges those of path and operation, reads styles, and excludes those that a client must not
set.

OAS Parameter Object (3.x section 4.8.12), Swagger 2.0 Parameter Object with `collectionFormat`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from app.openapi.conversion import media
from app.openapi.conversion.examples import list_declared_examples
from app.openapi.conversion.text import SCHEMA_TEXT, clean
from app.openapi.model import Json
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import RefProblem, ResolvedNode, escape_token
from app.openapi.report import OperationProblem
from app.openapi.schemas.closure import Fragment
from app.openapi.schemas.dialect import Mode

LOCATIONS = ("path", "query", "querystring", "header", "cookie")
_V2_LOCATIONS = ("path", "query", "header", "cookie", "body", "formData")
_DEFAULT_STYLE = {
    "path": "simple",
    "query": "form",
    "querystring": "form",
    "header": "simple",
    "cookie": "form",
}
_STYLES = {
    "path": {"simple", "label", "matrix"},
    "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
    "querystring": set[str](),
    "header": {"simple"},
    "cookie": {"form", "cookie"},
}
# Swagger 2.0 `collectionFormat` as a style of 3.x; `tsv` has no equivalent there.
_COLLECTIONS = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}
_SCALARS = ("string", "integer", "number", "boolean")
_FORM = "application/x-www-form-urlencoded"
_WITHIN_SEGMENT = "the path parameter stays within its segment: `/`, `?` and `#` are percent-encoded"
_MAX_NESTING = 8
_PARAMETER_FIELDS = frozenset(
    {"name", "in", "required", "description", "collectionFormat", "allowEmptyValue", "style", "explode"}
)
# RFC 9110 section 5.6.2: `token`; cookie names are tokens, too (RFC 6265 section 4.1.1).
_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]{1,256}")
# OAS: header parameters of these names "SHALL be ignored"; they are described elsewhere.
_IGNORED_HEADERS = frozenset({"accept", "content-type", "authorization"})
# Headers that a client must never set: the framing of the message, and the identity of the client.
_FRAMING = frozenset(
    {"host", "content-length", "transfer-encoding", "te", "connection", "upgrade", "keep-alive", "trailer"}
    | {"expect", "cookie", "forwarded", "x-real-ip"}
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """One parameter of an argument plan; `location` may also be Swagger 2.0's `body` or `formData`."""

    name: str
    location: str
    required: bool
    style: str
    explode: bool
    allow_reserved: bool
    content_type: str | None
    fragment: Fragment
    pointer: str
    node: Json
    encoding: Json = field(default_factory=dict)
    item_styles: tuple[str, ...] = ()

    @property
    def key(self) -> tuple[str, str]:
        """The name and location that identify a parameter; header names are case-insensitive (RFC 9110
        section 5.1).
        """
        return (self.name.lower() if self.location == "header" else self.name, self.location)

    def plan(self, alias: str) -> Json:
        """Return the parameter as a member of the call template's `parameters`; `alias` is its input."""
        plan: Json = {
            "input": alias,
            "name": self.name,
            "in": self.location,
            "style": self.style,
            "explode": self.explode,
            "allow_reserved": self.allow_reserved,
            "content_type": self.content_type,
            "required": self.required,
        }
        if self.encoding:
            plan["encoding"] = self.encoding
        if self.item_styles:
            plan["item_styles"] = list(self.item_styles)
        return plan


def merge_parameters(
    document: OpenApiDocument, levels: Sequence[tuple[Any, str]], *, notes: list[str]
) -> list[Parameter]:
    """Return the parameters of an operation, merged from both levels (path first); a later one overrides an
    earlier one.

    A dangling reference is left out with a note; a placeholder of the path then declares its parameter.
    Raises OperationProblem for a required parameter that cannot be read.
    """
    merged: dict[tuple[str, str], Parameter] = {}
    for listed, pointer in levels:
        if listed is None:
            continue
        if not isinstance(listed, list):
            notes.append(f"`parameters` at {pointer} is not a list and was left out")
            continue
        if len(listed) > document.options.limits.parameters:
            raise OperationProblem(
                f"has more than {document.options.limits.parameters} parameters", pointer=pointer
            )
        seen: set[tuple[str, str]] = set()
        for index, node in enumerate(listed):
            parameter = _read(document, node, f"{pointer}/{index}", notes)
            if parameter is None:
                continue
            if parameter.key in seen:
                notes.append(f"{parameter.location} parameter `{parameter.name[:100]}` is listed twice")
            seen.add(parameter.key)
            merged[parameter.key] = parameter
    return list(merged.values())


def offered(
    parameters: Sequence[Parameter], *, credentials: frozenset[tuple[str, str]], notes: list[str]
) -> list[Parameter]:
    """Return the parameters that are inputs: not ignored or framing headers, nor those that a credential
    sets.

    `credentials` contains (name, location) of the API keys that the operation requires.
    """
    retained: list[Parameter] = []
    for parameter in parameters:
        reason = _explain_withholding(parameter, credentials)
        if reason is None:
            retained.append(parameter)
        else:
            notes.append(f"{parameter.location} parameter `{parameter.name}` is not an input: {reason}")
    return retained


def _explain_withholding(parameter: Parameter, credentials: frozenset[tuple[str, str]]) -> str | None:
    name, location = parameter.key
    if (name, location) in credentials:
        return "the stored credential sets it"
    if location != "header":
        return None
    if name in _IGNORED_HEADERS:
        return "OpenAPI says that it is ignored"
    if name in _FRAMING or name.startswith(("proxy-", "x-forwarded-")):
        return "clients may not set it"
    return None


def build_undeclared_parameter(name: str) -> Parameter:
    """Return a path parameter for a placeholder that the document does not declare: a required string."""
    schema: Json = {"type": "string"}
    fragment = Fragment(schema, (), (), 20)
    return Parameter(name, "path", True, "simple", False, False, None, fragment, "", {})


def _read(document: OpenApiDocument, node: Any, pointer: str, notes: list[str]) -> Parameter | None:
    known = document.memo.get(("parameter", id(node)))
    if known is None:
        try:
            known = (
                node,
                _read_parameter(document, document.references.follow_described(node, location=pointer)),
            )
        except RefProblem as problem:
            document.warnings.add(problem.pointer, f"a parameter {problem.reason}; it was left out")
            known = node, str(problem.reason)
        document.memo["parameter", id(node)] = known
    parameter: Parameter | str = known[1]
    if isinstance(parameter, Parameter):
        return parameter
    notes.append(f"the parameter at {pointer} {parameter} and was left out")
    return None


def _read_parameter(document: OpenApiDocument, resolved: ResolvedNode) -> Parameter | str:
    """Return the parameter, or what is wrong with it where it is not required."""
    node, pointer = resolved.node, resolved.pointer
    if not isinstance(node, dict):
        return "is not an object"
    name, location = node.get("name"), node.get("in")
    if isinstance(name, int | float) and not isinstance(name, bool):
        name = str(name)
    problem = _find_defect(document, name, location)
    if problem is not None or not isinstance(name, str) or not isinstance(location, str):
        if node.get("required") is True:
            raise OperationProblem(f"has a required parameter that {problem}", pointer=pointer)
        return str(problem)
    read = _read_v2 if document.version == "2.0" else _read_v3
    return read(document, node, pointer, name=name, location=location)


def _find_defect(document: OpenApiDocument, name: Any, location: Any) -> str | None:
    if not isinstance(name, str) or not name:
        return "has no name"
    if location not in (_V2_LOCATIONS if document.version == "2.0" else LOCATIONS):
        return "has no known location"
    if location in {"header", "cookie"} and not _TOKEN.fullmatch(name):
        return f"has a name that no {location} can carry"
    if len(name) > 1_000:
        return "has too long a name"
    return None


def _read_v3(document: OpenApiDocument, node: Json, pointer: str, *, name: str, location: str) -> Parameter:
    style = node.get("style")
    if not isinstance(style, str) or style not in _STYLES[location]:
        if style is not None:
            document.warnings.add(
                f"{pointer}/style", f"no style of a {location} parameter; the default was taken"
            )
        style = _DEFAULT_STYLE[location]
    explode = node.get("explode")
    if not isinstance(explode, bool) or style == "deepObject":
        explode = style in {"form", "deepObject", "cookie"}
    schema, content_type, chosen, schema_pointer = node.get("schema", {}), None, None, f"{pointer}/schema"
    of = read_parameter_content(document, node, pointer)
    if of is not None:
        chosen, media_object, schema_pointer = of
        schema = media_object.get("schema", {})
        content_type = media.concrete(chosen)
    elif location == "querystring":
        document.warnings.add(pointer, f"a querystring parameter without `content`; it is sent as {_FORM}")
        content_type = _FORM
    fragment = document.schemas.convert_schema(schema, schema_pointer, mode=Mode.INPUT)
    if node.get("allowEmptyValue") is True and location == "query" and style == "form":
        fragment = _allow_empty(fragment)
    holders = (node,) if of is None else (node, of[1])
    fragment = with_description(
        fragment, node, examples=list_declared_examples(document, holders, fragment.schema)
    )
    if content_type is not None and "*" in str(chosen) and fragment.schema.get("type") in _SCALARS:
        # `*/*` does not mean JSON here: an identifier is sent as it is, not in JSON's quotes.
        content_type = None
    required, reserved = _is_required(node, location), node.get("allowReserved") is True
    if reserved and location == "path":
        document.warnings.add(f"{pointer}/allowReserved", _WITHIN_SEGMENT)
    return Parameter(
        name, location, required, style, explode, reserved, content_type, fragment, pointer, node
    )


def read_parameter_content(
    document: OpenApiDocument, node: Json, pointer: str
) -> tuple[str, Json, str] | None:
    """Return the media type that a parameter's `content` is sent in, its Media Type Object, and the pointer
    of its schema; None where the parameter has no content.
    """
    content = node.get("content")
    if not isinstance(content, dict) or "schema" in node:
        return None
    chosen = media.preferred(content)
    if chosen is None:
        return None
    resolved = document.references.follow(
        content[chosen], location=f"{pointer}/content/{escape_token(chosen)}"
    )
    return chosen, resolved.node if isinstance(resolved.node, dict) else {}, f"{resolved.pointer}/schema"


def _allow_empty(fragment: Fragment) -> Fragment:
    """Return the fragment of a parameter with `allowEmptyValue`, which allows "" beside its values.

    Texts with other restrictions than an enumeration stay as they are: their schema says what is allowed.
    """
    schema = fragment.schema
    types = schema.get("type")
    if types not in ("boolean", "integer", "number") and not ("enum" in schema and "pattern" not in schema):
        return fragment
    if "" in schema.get("enum", ()):
        return fragment
    outside: Json = {word: schema[word] for word in ("title", "description", "default") if word in schema}
    inside = {word: value for word, value in schema.items() if word not in outside}
    either: Json = {"anyOf": [inside, {"const": ""}], **outside}
    return Fragment(either, fragment.refs, fragment.in_place, fragment.size + 30, fragment.notes)


def _is_required(node: Json, location: str) -> bool:
    return location == "path" or node.get("required") is True


def _read_v2(document: OpenApiDocument, node: Json, pointer: str, *, name: str, location: str) -> Parameter:
    mode = Mode.FILES if location == "formData" else Mode.INPUT
    item_styles: tuple[str, ...] = ()
    where = pointer
    if location == "body":
        schema, where = node.get("schema", {}), f"{pointer}/schema"
        style, explode = "form", True
    else:
        schema = {key: value for key, value in node.items() if key not in _PARAMETER_FIELDS}
        collection = str(node.get("collectionFormat", "csv"))
        default = "form" if location in {"query", "formData"} else _DEFAULT_STYLE[location]
        style = _COLLECTIONS.get(collection, default) if node.get("type") == "array" else default
        explode = collection == "multi"
        item_styles = _read_item_styles(document, node, pointer)
        if item_styles:
            schema["items"] = _without_collection_formats(schema["items"], len(item_styles))
        if "schema" in schema:
            # Not valid in 2.0, but written by people who know 3.x.
            schema = schema["schema"]
    fragment = document.schemas.convert_schema(schema, where, mode=mode)
    if node.get("allowEmptyValue") is True and location in {"query", "formData"}:
        fragment = _allow_empty(fragment)
    examples = [] if location == "body" else list_declared_examples(document, (node,), fragment.schema)
    fragment = with_description(fragment, node, examples=examples)
    required = _is_required(node, location)
    return Parameter(
        name,
        location,
        required,
        style,
        explode,
        False,
        None,
        fragment,
        pointer,
        node,
        item_styles=item_styles,
    )


def _read_item_styles(document: OpenApiDocument, node: Json, pointer: str) -> tuple[str, ...]:
    """Return the styles of the lists within a list, by the `collectionFormat` of each Items Object."""
    styles: list[str] = []
    here = f"{pointer}/items"
    items = node.get("items") if node.get("type") == "array" else None
    while isinstance(items, dict) and items.get("type") == "array" and len(styles) < _MAX_NESTING:
        collection = items.get("collectionFormat", "csv")
        if collection not in ("csv", *_COLLECTIONS):
            document.warnings.add(
                f"{here}/collectionFormat", "no `collectionFormat` of a list within a list; csv was taken"
            )
        styles.append(_COLLECTIONS.get(str(collection), "simple"))
        items, here = items.get("items"), f"{here}/items"
    return tuple(styles)


def _without_collection_formats(items: Json, depth: int) -> Json:
    """Return the Items Object of a list of lists as a schema, which has no `collectionFormat`."""
    schema = {key: value for key, value in items.items() if key != "collectionFormat"}
    if depth > 1:
        schema["items"] = _without_collection_formats(schema["items"], depth - 1)
    return schema


def with_description(fragment: Fragment, node: Json, *, examples: Sequence[Any] = ()) -> Fragment:
    """Return the fragment with the description and deprecation of the node that contains the schema, and with
    examples.
    """
    extra: Json = {}
    text = clean(node.get("description"), max_length=SCHEMA_TEXT)[0]
    if text:
        extra["description"] = text
    if node.get("deprecated") is True:
        extra["deprecated"] = True
    if examples:
        extra["examples"] = list(examples)
    if not extra:
        return fragment
    # Not `replace`, which takes ten times as long: most parameters have a description.
    schema, size = {**fragment.schema, **extra}, fragment.size + len(text) + 60 + 200 * len(examples)
    return Fragment(schema, fragment.refs, fragment.in_place, size, fragment.notes)
