"""Which kind of document this is: those that are converted, and others that are only named."""

import re
from collections.abc import Mapping
from typing import Any, Final, Literal

Format = Literal["openapi", "postman", "discovery"]

_POSTMAN_SCHEMA: Final = re.compile(
    r"schema\.(?:get)?postman\.com/(?:json/)?collection/v2\.[01]", re.IGNORECASE
)
# Of a document that is too large to be parsed for this: in its first or last part.
_SNIFF: Final = re.compile(
    rb"schema\.(?:get)?postman\.com/(?:json/)?collection/v2\.[01]|discovery#restDescription|\"discoveryVersion\""
)
_HTTP_ONLY: Final = "Its operations are not HTTP requests."
_GRAPHQL: Final = "Register its endpoint by a call template of type graphql."
_EXPORT: Final = "Export the API as OpenAPI, which most tools that write it can do."
# By a member that only such documents have.
_MEMBERS: Final[Mapping[str, tuple[str, str]]] = {
    "asyncapi": ("an AsyncAPI document", "It describes messages of a broker, not HTTP operations."),
    "arazzo": ("an Arazzo document", "Register the OpenAPI documents that its workflows name."),
    "overlay": ("an OpenAPI Overlay", "Give it as `overlay` beside the document that it changes."),
    "openrpc": ("an OpenRPC document", _HTTP_ONLY),
    "swaggerVersion": ("a Swagger 1.x document", "Convert it to Swagger 2.0 or OpenAPI 3.x first."),
    "__schema": ("the introspection of a GraphQL schema", _GRAPHQL),
    "__export_format": ("an Insomnia export", _EXPORT),
    "_postman_variable_scope": ("a Postman environment", "Register the collection that it belongs to."),
    "http_interactions": ("a VCR cassette", _EXPORT),
    "apiBlueprintVersion": ("an API Blueprint", _EXPORT),
}  # fmt: skip
_TEXTS: Final = (
    (re.compile(rb"\A\s*#%RAML\b"), "a RAML document", _EXPORT),
    (re.compile(rb"\A(?:\s*\w{1,40}:[^\n]{0,80}\n)?\s*FORMAT:\s*1A\b"), "an API Blueprint", _EXPORT),
    (re.compile(rb"<(?:\w{1,20}:)?(?:definitions|description)\b[^>]{0,4000}wsdl"), "a WSDL document",
     "It describes SOAP messages, not HTTP operations."),
    (re.compile(rb"<(?:\w{1,20}:)?application\b[^>]{0,4000}wadl"), "a WADL document", _EXPORT),
    (re.compile(rb"<(?:\w{1,20}:)?Edmx\b"), "an OData metadata document", "Convert it to OpenAPI first."),
    (re.compile(rb"\A\s*syntax\s*=\s*[\"']proto[23]"), "a Protocol Buffers file",
     "Register its server by a call template of type grpc."),
    (re.compile(rb"(?:^|\n)\s*(?:extend\s+)?type\s+(?:Query|Mutation)\b[^\n{]{0,200}\{"), "a GraphQL schema",
     _GRAPHQL),
)  # fmt: skip
_TEXT_BYTES: Final = 16 << 10


def detect_format(raw: Any) -> Format | None:
    """Return which kind of convertible document a parsed value is; None for any other value."""
    if not isinstance(raw, Mapping):
        return None
    if any(isinstance(raw.get(key), str | float | int) and str(raw[key]).strip()[:1].isdigit()
           for key in ("openapi", "swagger")):  # fmt: skip
        return "openapi"
    if _find_collection(raw) is not None:
        return "postman"
    is_discovery = raw.get("kind") == "discovery#restDescription" or "discoveryVersion" in raw
    return "discovery" if is_discovery and ({"resources", "methods"} & raw.keys()) else None


def get_collection(raw: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the Postman collection, without the member around it in responses of Postman's API."""
    return _find_collection(raw) or raw


def sniff_others(part: bytes) -> bool:
    """Return whether a part of unparsed bytes is of a Postman collection or of a Discovery document."""
    return _SNIFF.search(part) is not None


def describe_other_format(raw: Any) -> str | None:
    """Return the sentence that names the kind of a parsed value which is not converted; None if unknown."""
    if not isinstance(raw, Mapping):
        return None
    for member, (name, advice) in _MEMBERS.items():
        if member in raw:
            return _write_sentence(name, advice)
    log = raw.get("log")
    if isinstance(log, Mapping) and isinstance(log.get("entries"), list):
        return _write_sentence("an HTTP archive (HAR)", _EXPORT)
    data = raw.get("data")
    if isinstance(data, Mapping) and "__schema" in data:
        return _write_sentence(*_MEMBERS["__schema"])
    kind = raw.get("type")
    if isinstance(kind, str) and "insomnia.rest" in kind:
        return _write_sentence(*_MEMBERS["__export_format"])
    if isinstance(raw.get("requests"), list) and isinstance(raw.get("order"), list):
        return _write_sentence(
            "a Postman collection of version 1", "Export it as a collection of version 2.1."
        )
    schema = raw.get("$schema")
    if isinstance(schema, str) and "json-schema.org" in schema:
        return _write_sentence("a JSON Schema", "It describes values, not operations.")
    return None


def describe_other_text(document: bytes) -> str | None:
    """Return the sentence that names the kind of a text which is not converted; None if it is unknown."""
    head = document[:_TEXT_BYTES]
    for pattern, name, advice in _TEXTS:
        if pattern.search(head):
            return _write_sentence(name, advice)
    return None


def _write_sentence(name: str, advice: str) -> str:
    return f"This is {name}, which is not converted. {advice}"


def _find_collection(raw: Mapping[str, Any]) -> Mapping[str, Any] | None:
    inner = raw.get("collection")
    candidates = (raw, inner) if isinstance(inner, Mapping) else (raw,)
    for candidate in candidates:
        info = candidate.get("info")
        if not isinstance(info, Mapping) or not isinstance(candidate.get("item"), list):
            continue
        schema = info.get("schema")
        if "_postman_id" in info or (isinstance(schema, str) and _POSTMAN_SCHEMA.search(schema)):
            return candidate
    return None
