"""Parameters: merges those of path and operation, reads styles, and excludes those that a client must not
set.

OAS Parameter Object (3.x section 4.8.12), Swagger 2.0 Parameter Object with `collectionFormat`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from app.openapi import media
from app.openapi.dialect import Mode
from app.openapi.document import OpenApiDocument
from app.openapi.model import Json
from app.openapi.refs import ResolvedNode
from app.openapi.report import OperationProblem
from app.openapi.schemas import Fragment
from app.openapi.text import SCHEMA_TEXT, clean

LOCATIONS = ("path", "query", "header", "cookie")
_DEFAULT_STYLE = {"path": "simple", "query": "form", "header": "simple", "cookie": "form"}
_STYLES = {
    "path": {"simple", "label", "matrix"},
    "query": {"form", "spaceDelimited", "pipeDelimited", "deepObject"},
    "header": {"simple"},
    "cookie": {"form"},
}
# Swagger 2.0 `collectionFormat` as a style of 3.x; `tsv` has no equivalent there.
_COLLECTIONS = {"ssv": "spaceDelimited", "pipes": "pipeDelimited", "tsv": "tabDelimited"}
_SCALARS = ("string", "integer", "number", "boolean")
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

    @property
    def key(self) -> tuple[str, str]:
        """The name and location that identify a parameter; header names are case-insensitive (RFC 9110
        section 5.1).
        """
        return (self.name.lower() if self.location == "header" else self.name, self.location)

    def plan(self, alias: str) -> Json:
        """Return the parameter as a member of the call template's `parameters`; `alias` is its input."""
        return {
            "input": alias,
            "name": self.name,
            "in": self.location,
            "style": self.style,
            "explode": self.explode,
            "allow_reserved": self.allow_reserved,
            "content_type": self.content_type,
            "required": self.required,
        }


def merge_parameters(
    document: OpenApiDocument, levels: Sequence[tuple[Any, str]], *, notes: list[str]
) -> list[Parameter]:
    """Return the parameters of an operation, merged from both levels (path first); a later one overrides an
    earlier one.

    Raises OperationProblem for a dangling reference and for a required parameter that cannot be read.
    """
    merged: dict[tuple[str, str], Parameter] = {}
    for listed, at in levels:
        if listed is None:
            continue
        if not isinstance(listed, list):
            notes.append(f"`parameters` at {at} is not a list and was left out")
            continue
        if len(listed) > document.options.limits.parameters:
            raise OperationProblem(
                f"has more than {document.options.limits.parameters} parameters", pointer=at
            )
        seen: set[tuple[str, str]] = set()
        for index, node in enumerate(listed):
            parameter = _read(document, node, f"{at}/{index}", notes)
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
        reason = _reason_to_withhold(parameter, credentials)
        if reason is None:
            retained.append(parameter)
        else:
            notes.append(f"{parameter.location} parameter `{parameter.name}` is not an input: {reason}")
    return retained


def _reason_to_withhold(parameter: Parameter, credentials: frozenset[tuple[str, str]]) -> str | None:
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


def undeclared_path_parameter(name: str) -> Parameter:
    """Return a path parameter for a placeholder that the document does not declare: a required string."""
    schema: Json = {"type": "string"}
    fragment = Fragment(schema, (), (), 20)
    return Parameter(name, "path", True, "simple", False, False, None, fragment, "", {})


def _read(document: OpenApiDocument, node: Any, at: str, notes: list[str]) -> Parameter | None:
    known = document.memo.get(("parameter", id(node)))
    if known is None:
        known = node, _parameter(document, document.references.follow(node, at=at))
        document.memo["parameter", id(node)] = known
    parameter: Parameter | str = known[1]
    if isinstance(parameter, Parameter):
        return parameter
    notes.append(f"the parameter at {at} {parameter} and was left out")
    return None


def _parameter(document: OpenApiDocument, found: ResolvedNode) -> Parameter | str:
    """Return the parameter, or what is wrong with it where it is not required."""
    node, at = found.node, found.pointer
    if not isinstance(node, dict):
        return "is not an object"
    name, location = node.get("name"), node.get("in")
    if isinstance(name, int | float) and not isinstance(name, bool):
        name = str(name)
    problem = _defect(document, name, location)
    if problem is not None or not isinstance(name, str) or not isinstance(location, str):
        if node.get("required") is True:
            raise OperationProblem(f"has a required parameter that {problem}", pointer=at)
        return str(problem)
    parameter = _read_v2(document, node, at) if document.version == "2.0" else _read_v3(document, node, at)
    return replace(parameter, name=name, location=location, required=location == "path" or parameter.required)


def _defect(document: OpenApiDocument, name: Any, location: Any) -> str | None:
    if not isinstance(name, str) or not name:
        return "has no name"
    known = (*LOCATIONS, "body", "formData") if document.version == "2.0" else LOCATIONS
    if location not in known:
        return "has no known location"
    if location in {"header", "cookie"} and not _TOKEN.fullmatch(name):
        return f"has a name that no {location} can carry"
    if len(name) > 1_000:
        return "has too long a name"
    return None


def _read_v3(document: OpenApiDocument, node: Json, at: str) -> Parameter:
    location = str(node.get("in"))
    style = node.get("style")
    if not isinstance(style, str) or style not in _STYLES[location]:
        if style is not None:
            document.warnings.add(f"{at}/style", f"no style of a {location} parameter; the default was taken")
        style = _DEFAULT_STYLE[location]
    explode = node.get("explode")
    if not isinstance(explode, bool) or style == "deepObject":
        explode = style in {"form", "deepObject"}
    schema, content_type, chosen, schema_pointer = node.get("schema", {}), None, None, f"{at}/schema"
    content = node.get("content")
    if isinstance(content, dict) and "schema" not in node:
        chosen = media.preferred(content)
        if chosen is not None:
            of = content[chosen]
            schema = of.get("schema", {}) if isinstance(of, dict) else {}
            schema_pointer = f"{at}/content"
            content_type = media.concrete(chosen)
    fragment = with_description(document.book.fragment(schema, schema_pointer, mode=Mode.INPUT), node)
    if content_type is not None and "*" in str(chosen) and fragment.schema.get("type") in _SCALARS:
        # `*/*` does not mean JSON here: an identifier is sent as it is, not in JSON's quotes.
        content_type = None
    required, reserved = node.get("required") is True, node.get("allowReserved") is True
    return Parameter("", location, required, style, explode, reserved, content_type, fragment, at, node)


def _read_v2(document: OpenApiDocument, node: Json, at: str) -> Parameter:
    location = str(node.get("in"))
    required = node.get("required") is True
    mode = Mode.FILES if location == "formData" else Mode.INPUT
    if location == "body":
        schema = node.get("schema", {})
        style, explode = "form", True
    else:
        schema = {key: value for key, value in node.items() if key not in _PARAMETER_FIELDS}
        collection = str(node.get("collectionFormat", "csv"))
        default = "form" if location in {"query", "formData"} else _DEFAULT_STYLE[location]
        style = _COLLECTIONS.get(collection, default) if node.get("type") == "array" else default
        explode = collection == "multi"
        if "schema" in schema:
            # Not valid in 2.0, but written by people who know 3.x.
            schema = schema["schema"]
    fragment = with_description(document.book.fragment(schema, at, mode=mode), node)
    return Parameter("", location, required, style, explode, False, None, fragment, at, node)


def with_description(fragment: Fragment, node: Json) -> Fragment:
    """Return the fragment with the description, deprecation and example of the node that contains the
    schema.
    """
    extra: Json = {}
    text = clean(node.get("description"), max_length=SCHEMA_TEXT)[0]
    if text:
        extra["description"] = text
    if node.get("deprecated") is True:
        extra["deprecated"] = True
    example = node.get("example")
    if "examples" not in fragment.schema and isinstance(example, str | int | float):
        extra |= {"examples": [example]} if len(str(example)) < 200 else {}
    if not extra:
        return fragment
    return replace(fragment, schema={**fragment.schema, **extra}, size=fragment.size + len(text) + 60)
