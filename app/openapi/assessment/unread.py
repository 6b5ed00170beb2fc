"""Which fields of a document have no effect on its tools, with the reason: nothing is ignored silently.

The tables below list every field of every object of OpenAPI 2.0 and 3.0 to 3.2, less those of Schema Objects,
of which `dialect.py` tells the same. Extensions (`x-...`) are not listed.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.openapi.model import METHODS
from app.openapi.reading.document import OpenApiDocument
from app.openapi.reading.refs import escape_token
from app.openapi.report import UnreadFields

_PEOPLE: Final = "documentation for people, for which tools have no place"
_EXAMPLE: Final = "an example of a whole message; examples in its schema are read"
_HEADERS: Final = "the output of a tool is the body of the response"
_LINKS: Final = "tools are called one by one"
_SENT_BY_API: Final = "requests that the API sends are not tools"
_SCOPES: Final = "the scopes that operations require are read"
_SERIALISED: Final = "an argument is not serialised; `dataValue` and `value` are read"
_STATUS: Final = "the output of a tool is that of a success status (2xx)"
_DIALECT: Final = "every schema is read as JSON Schema 2020-12"
_NESTED_FORM: Final = "a part cannot be a form whose fields have names"
_NOT_RESPONSE: Final = "only requests are encoded"
_PLAIN_HEADER: Final = "the header of a part is a text"
_UNKNOWN: Final = "OpenAPI has no such field in this object"
_SUCCESS: Final = re.compile(r"2(?:[0-9][0-9]|[xX][xX])")


@dataclass(frozen=True, slots=True)
class _Unread:
    """A field that has no effect, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class _Inside:
    """A field that contains objects of a kind: one, or several in a list or map."""

    kind: str
    several: bool = False


_Field = _Unread | _Inside | None
"""How a field is treated; None for one that is read and contains no objects that are listed here."""


def _map_read(names: str) -> dict[str, _Field]:
    return dict.fromkeys(names.split())


def _map_unread(reason: str, names: str) -> dict[str, _Field]:
    return dict.fromkeys(names.split(), _Unread(reason))


def _map_many(**fields: str) -> dict[str, _Field]:
    return {name: _Inside(kind, several=True) for name, kind in fields.items()}


def _map_one(**fields: str) -> dict[str, _Field]:
    return {name: _Inside(kind) for name, kind in fields.items()}


_METHOD_FIELDS: Final = _map_one(**dict.fromkeys(METHODS, "Operation"))
_COMMON: Final[dict[str, dict[str, _Field]]] = {
    "Info": {
        **_map_read("title summary description version"),
        **_map_unread(_PEOPLE, "termsOfService contact license"),
    },
    "Tag": {**_map_read("name parent"), **_map_unread(_PEOPLE, "summary description externalDocs kind")},
    "Reference": {
        **_map_read("$ref"),
        **_map_unread("the object that is referred to has its own", "summary description"),
    },
    "Reference of a described object": _map_read("$ref summary description"),
}
# Objects with a description that tools have, which one beside a reference replaces (OAS 3.1).
_DESCRIBED: Final = frozenset({"Parameter", "Request Body", "Security Scheme"})
_V3: Final[dict[str, dict[str, _Field]]] = _COMMON | {
    "OpenAPI": {
        **_map_read("openapi $self paths security"),
        **_map_one(info="Info", components="Components"),
        **_map_many(servers="Server", tags="Tag"),
        **_map_unread(_DIALECT, "jsonSchemaDialect"),
        **_map_unread(_SENT_BY_API, "webhooks"),
        **_map_unread(_PEOPLE, "externalDocs"),
    },
    "Server": {**_map_read("url description name"), **_map_many(variables="Server Variable")},
    "Server Variable": _map_read("enum default description"),
    "Components": {
        **_map_read("schemas"),
        **_map_many(
            responses="Response", parameters="Parameter", examples="Example", requestBodies="Request Body"
        ),
        **_map_many(headers="Header", securitySchemes="Security Scheme", pathItems="Path Item"),
        **_map_many(mediaTypes="Media Type"),
        **_map_unread(_LINKS, "links"),
        **_map_unread(_SENT_BY_API, "callbacks"),
    },
    "Path Item": {
        **_map_read("$ref summary description"),
        **_METHOD_FIELDS,
        **_map_one(query="Operation"),
        **_map_many(additionalOperations="Operation", servers="Server", parameters="Parameter"),
    },
    "Operation": {
        **_map_read("tags summary description operationId deprecated security"),
        **_map_one(requestBody="Request Body", responses="Responses"),
        **_map_many(parameters="Parameter", servers="Server"),
        **_map_unread(_PEOPLE, "externalDocs"),
        **_map_unread(_SENT_BY_API, "callbacks"),
    },
    "Parameter": {
        **_map_read(
            "name in description required deprecated allowEmptyValue style explode allowReserved schema"
        ),
        **_map_read("example"),
        **_map_many(examples="Example", content="Media Type of a parameter"),
    },
    "Request Body": {**_map_read("description required"), **_map_many(content="Media Type")},
    "Media Type": {
        **_map_read("schema itemSchema"),
        **_map_one(itemEncoding="Encoding"),
        **_map_many(encoding="Encoding", prefixEncoding="Encoding"),
        **_map_unread(_EXAMPLE, "example examples"),
    },
    "Media Type of a parameter": {
        **_map_read("schema example"),
        **_map_many(encoding="Encoding", examples="Example"),
        **_map_unread("a parameter is not a sequence", "itemSchema prefixEncoding itemEncoding"),
    },
    "Media Type of a response": {
        **_map_read("schema itemSchema"),
        **_map_unread(_EXAMPLE, "example examples"),
        **_map_unread(_NOT_RESPONSE, "encoding prefixEncoding itemEncoding"),
    },
    "Encoding": {
        **_map_read("contentType style explode allowReserved"),
        **_map_one(itemEncoding="Encoding"),
        **_map_many(headers="Header", prefixEncoding="Encoding"),
        **_map_unread(_NESTED_FORM, "encoding"),
    },
    "Header": {
        **_map_read("required schema"),
        **_map_unread(_PEOPLE, "description deprecated example examples"),
        **_map_unread(_PLAIN_HEADER, "style explode content"),
    },
    "Response": {
        **_map_many(content="Media Type of a response"),
        **_map_unread(_PEOPLE, "summary description"),
        **_map_unread(_HEADERS, "headers"),
        **_map_unread(_LINKS, "links"),
    },
    "Example": {
        **_map_read("dataValue value"),
        **_map_unread(_PEOPLE, "summary description"),
        **_map_unread(_SERIALISED, "serializedValue externalValue"),
    },
    "Security Scheme": {
        **_map_read(
            "type description name in scheme bearerFormat openIdConnectUrl oauth2MetadataUrl deprecated"
        ),
        **_map_one(flows="OAuth Flows"),
    },
    "OAuth Flows": {
        **_map_one(implicit="OAuth Flow", password="OAuth Flow", clientCredentials="OAuth Flow"),
        **_map_one(authorizationCode="OAuth Flow", deviceAuthorization="OAuth Flow"),
    },
    "OAuth Flow": {
        **_map_read("authorizationUrl deviceAuthorizationUrl tokenUrl refreshUrl"),
        **_map_unread(_SCOPES, "scopes"),
    },
}
_SCHEMA_LIKE: Final = (
    "type format items collectionFormat default maximum exclusiveMaximum minimum exclusiveMinimum maxLength"
    " minLength pattern maxItems minItems uniqueItems enum multipleOf"
)
_V2: Final[dict[str, dict[str, _Field]]] = _COMMON | {
    "Swagger": {
        **_map_read("swagger host basePath schemes consumes produces paths definitions security"),
        **_map_one(info="Info"),
        **_map_many(parameters="Parameter", responses="Response", tags="Tag"),
        **_map_many(securityDefinitions="Security Scheme"),
        **_map_unread(_PEOPLE, "externalDocs"),
    },
    "Path Item": {
        **_map_read("$ref summary description"),
        **_METHOD_FIELDS,
        **_map_many(parameters="Parameter"),
    },
    "Operation": {
        **_map_read("tags summary description operationId consumes produces schemes deprecated security"),
        **_map_one(responses="Responses"),
        **_map_many(parameters="Parameter"),
        **_map_unread(_PEOPLE, "externalDocs"),
    },
    "Parameter": _map_read(
        f"name in description required schema allowEmptyValue example examples deprecated {_SCHEMA_LIKE}"
    ),
    "Response": {
        **_map_read("schema"),
        **_map_unread(_PEOPLE, "description"),
        **_map_unread(_HEADERS, "headers"),
        **_map_unread(_EXAMPLE, "examples"),
    },
    "Security Scheme": {
        **_map_read("type description name in flow authorizationUrl tokenUrl"),
        **_map_unread(_SCOPES, "scopes"),
    },
}


def find_unread(document: OpenApiDocument, unread: UnreadFields) -> None:
    """Add the fields of a document that have no effect on its tools, except fields of Schema Objects."""
    v2 = document.version == "2.0"
    described = _DESCRIBED if document.version in ("3.1", "3.2") else frozenset[str]()
    walk = _Walk(_V2 if v2 else _V3, unread, described)
    walk.visit_object(document.raw, "Swagger" if v2 else "OpenAPI", "")
    paths = document.get_mapping("paths")
    for path, item in paths.items():
        if not path.lower().startswith("x-"):
            walk.visit_object(item, "Path Item", f"/paths/{escape_token(path)}")


class _Walk:
    """Visits the objects of a document once each, where they are written: references are not followed."""

    def __init__(
        self, kinds: Mapping[str, Mapping[str, _Field]], unread: UnreadFields, described: frozenset[str]
    ) -> None:
        self._kinds = kinds
        self._unread = unread
        self._described = described

    def visit_object(self, node: Any, kind: str, location: str) -> None:
        """Visit an object; what is not an object is reported elsewhere."""
        if not isinstance(node, dict):
            return
        if kind == "Responses":
            self._visit_responses(node, location)
            return
        if "$ref" in node and kind != "Path Item":
            kind = "Reference of a described object" if kind in self._described else "Reference"
        fields = self._kinds[kind]
        for name, value in node.items():
            field = fields.get(name, _MISSING)
            if field is None or name.startswith(("x-", "X-")):
                continue
            if field is _MISSING:
                field = fields.get(name.lower()) if kind == "Path Item" else None
                field = field or _Unread(_UNKNOWN)
            if isinstance(field, _Unread):
                self._unread.add(_get_title(kind), name, f"{location}/{escape_token(name)}", field.reason)
            elif isinstance(field, _Inside):
                self._visit_members(value, field, f"{location}/{escape_token(name)}")

    def _visit_members(self, value: Any, field: _Inside, location: str) -> None:
        if not field.several:
            self.visit_object(value, field.kind, location)
            return
        for key, member in _list_members(value):
            if not key.lower().startswith("x-") or field.kind == "Header":
                self.visit_object(member, field.kind, f"{location}/{escape_token(key)}")

    def _visit_responses(self, node: Any, location: str) -> None:
        for status, response in node.items():
            if _SUCCESS.fullmatch(status):
                self.visit_object(response, "Response", f"{location}/{status}")
            elif not status.lower().startswith("x-"):
                name = "default" if status == "default" else "status other than 2xx"
                self._unread.add("Responses Object", name, f"{location}/{escape_token(status)}", _STATUS)


_MISSING: Final = _Unread("")


def _get_title(kind: str) -> str:
    return f"{kind.partition(' of a ')[0]} Object"


def _list_members(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict):
        yield from value.items()
    elif isinstance(value, list):
        yield from ((str(index), member) for index, member in enumerate(value))
