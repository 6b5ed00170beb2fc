"""Google Discovery documents (`discovery#restDescription`) as OpenAPI documents.

https://developers.google.com/discovery/v1/reference/apis: schemas are JSON Schema draft 3, in which a
property says itself that it is required; a method may be called with any one of its scopes.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from app.openapi.formats.translation import OPENAPI, UNREADABLE, UNREADABLE_PART, Translation, Warn
from app.openapi.model import METHODS, Json
from app.openapi.reading.refs import escape_token

# Parameters of every method that are set by credentials, or that make no sense for a tool.
_LEFT_OUT: Final = frozenset(
    {"key", "access_token", "oauth_token", "alt", "callback", "prettyPrint", "uploadType", "upload_protocol"}
    | {"$.xgafv", "bearer_token", "pp"}
)
_COPIED: Final = (
    "title", "format", "pattern", "minimum", "maximum", "minLength", "maxLength", "minItems", "maxItems",
    "enum", "readOnly", "deprecated",
)  # fmt: skip
_FORMATS: Final = {"google-datetime": "date-time"}
_RESERVED: Final = re.compile(r"\{\+([^{}]+)\}")
_PLACEHOLDER: Final = re.compile(r"\{\+?([^{}/]+)\}")
_NOT_A_NAME: Final = re.compile(r"[^A-Za-z0-9_-]+")
_MAX_DESCRIPTION: Final = 3_000
_AUTHORIZATION_URL: Final = "https://accounts.google.com/o/oauth2/v2/auth"
_TOKEN_URL: Final = "https://oauth2.googleapis.com/token"
_OAUTH2: Final = "oauth2"
_API_KEY: Final = "api_key"


def translate_discovery(raw: Json, *, warn: Warn) -> Translation:
    """Return the OpenAPI document of a Discovery document; what is left out is reported to `warn`."""
    return _DiscoveryTranslator(raw, warn).translate()


@dataclass(slots=True)
class _DiscoveryTranslator:
    raw: Json
    warn: Warn
    paths: dict[str, Json] = field(default_factory=dict)
    notes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    pointers: dict[str, str] = field(default_factory=dict)

    def translate(self) -> Translation:
        for method, pointer, tag in _list_methods(self.raw):
            try:
                self._add_method(method, pointer, tag)
            except UNREADABLE:
                self.warn(pointer, UNREADABLE_PART)
        schemas = _ensure_mapping(self.raw.get("schemas"))
        for name in schemas:
            self.pointers[f"/components/schemas/{escape_token(name)}"] = f"/schemas/{escape_token(name)}"
        shared = _ensure_mapping(self.raw.get("parameters"))
        left_out = [name for name in shared if name in _LEFT_OUT]
        if left_out:
            names = ", ".join(left_out)
            self.warn("/parameters", f"these parameters of all methods are not inputs: {names}")
        document: Json = {
            "openapi": OPENAPI,
            "info": {
                "title": self.raw.get("title") or self.raw.get("name"),
                "version": self.raw.get("version"),
                "description": self.raw.get("description"),
            },
            "servers": [{"url": self._read_base_url()}],
            "paths": self.paths,
            "components": {
                "schemas": {name: _convert_schema(node) for name, node in schemas.items()},
                "parameters": {name: _build_parameter(name, node) for name, node in shared.items()},
                "securitySchemes": self._build_security_schemes(),
            },
        }
        return Translation(document, self.notes, self.pointers)

    def _read_base_url(self) -> str:
        root, service = self.raw.get("rootUrl"), self.raw.get("servicePath")
        if isinstance(root, str) and root:
            return root.rstrip("/") + "/" + (service.strip("/") if isinstance(service, str) else "")
        base = self.raw.get("baseUrl") or self.raw.get("basePath")
        return base if isinstance(base, str) else "/"

    def _build_security_schemes(self) -> Json:
        schemes: Json = {}
        scopes = _ensure_mapping(
            _ensure_mapping(_ensure_mapping(self.raw.get("auth")).get("oauth2")).get("scopes")
        )
        if scopes:
            texts = {name: _ensure_mapping(one).get("description", "") for name, one in scopes.items()}
            flow = {"authorizationUrl": _AUTHORIZATION_URL, "tokenUrl": _TOKEN_URL, "scopes": texts}
            schemes[_OAUTH2] = {"type": "oauth2", "flows": {"authorizationCode": flow}}
        if "key" in _ensure_mapping(self.raw.get("parameters")):
            schemes[_API_KEY] = {"type": "apiKey", "in": "query", "name": "key"}
        return schemes

    def _add_method(self, method: Any, source_pointer: str, tag: str) -> None:
        if not isinstance(method, dict):
            self.warn(source_pointer, "a method that is not an object was left out")
            return
        verb = str(method.get("httpMethod", "")).lower()
        path = _read_path(method)
        if verb not in METHODS or path is None:
            self.warn(source_pointer, "a method without an HTTP method and a path was left out")
            return
        name = str(method.get("id") or source_pointer.rpartition("/")[2])
        if verb in self.paths.get(path, {}):
            # Methods of several resources may share one URL; a fragment is never sent.
            path = f"{path}#{name}"
        operation, notes = self._build_operation(method, name, path, tag)
        self.paths.setdefault(path, {})[verb] = operation
        pointer = f"/paths/{escape_token(path)}/{verb}"
        self.pointers[pointer] = source_pointer
        self.notes[pointer] = tuple(notes)

    def _build_operation(self, method: Json, name: str, path: str, tag: str) -> tuple[Json, list[str]]:
        notes: list[str] = []
        api_name = str(self.raw.get("name") or "")
        short = name.removeprefix(f"{api_name}.") if api_name else name
        operation: Json = {
            "operationId": _NOT_A_NAME.sub("_", short),
            "description": method.get("description"),
            "tags": [tag] if tag else [],
            "deprecated": method.get("deprecated") is True,
            "parameters": self._build_parameters(method, path, notes),
            "security": self._build_security(method.get("scopes")),
            "responses": {"200": _build_response(method)},
        }
        reference = _ensure_mapping(method.get("request")).get("$ref")
        if isinstance(reference, str):
            schema = self._request_schema(reference, name)
            operation["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        if method.get("supportsMediaUpload") is True or "mediaUpload" in method:
            notes.append("its media upload is left out: only the metadata is sent")
        return operation, notes

    def _request_schema(self, reference: str, name: str) -> Json:
        """Return the schema of a request, with the properties that this method requires."""
        schema: Json = {"$ref": _refer_to_component(reference)}
        properties = _ensure_mapping(
            _ensure_mapping(_ensure_mapping(self.raw.get("schemas")).get(reference)).get("properties")
        )
        required = [
            key for key, node in properties.items()
            if name in (_ensure_mapping(_ensure_mapping(node).get("annotations")).get("required") or ())
        ]  # fmt: skip
        return {"allOf": [schema, {"required": required}]} if required else schema

    def _build_parameters(self, method: Json, path: str, notes: list[str]) -> list[Json]:
        declared = _ensure_mapping(method.get("parameters"))
        placeholders = dict.fromkeys(_PLACEHOLDER.findall(path.partition("#")[0]))
        order = method.get("parameterOrder")
        names = dict.fromkeys([*(order if isinstance(order, list) else ()), *declared])
        parts = [name for name in placeholders if name not in declared]
        whole = next(iter(_RESERVED.findall(str(method.get("path", "")))), None)
        parameters: list[Json] = []
        for name in names:
            node = declared.get(name)
            if not isinstance(node, dict):
                continue
            if node.get("location") == "path" and name not in placeholders:
                if parts:
                    notes.append(f"`{name}` is given by its parts: {', '.join(parts)}")
                continue
            parameters.append(_build_parameter(name, node))
        about = str(_ensure_mapping(declared.get(whole)).get("description") or "") if whole else ""
        for name in parts:
            text = f"Part of `{whole}`: {about}" if whole else ""
            parameters.append({"name": name, "in": "path", "required": True, "description": text,
                         "schema": {"type": "string"}})  # fmt: skip
        taken = {one["name"] for one in parameters}
        if method.get("supportsMediaDownload") is True and "alt" not in taken:
            text = "`media` returns the content itself, `json` its metadata."
            schema = {"type": "string", "enum": ["json", "media"]}
            parameters.append({"name": "alt", "in": "query", "description": text, "schema": schema})
        shared = _ensure_mapping(self.raw.get("parameters"))
        parameters += (
            {"$ref": f"#/components/parameters/{escape_token(name)}"}
            for name in shared
            if name not in _LEFT_OUT and name not in taken
        )
        return parameters

    def _build_security(self, scopes: Any) -> list[Json]:
        has_key = "key" in _ensure_mapping(self.raw.get("parameters"))
        listed = [one for one in scopes if isinstance(one, str)] if isinstance(scopes, list) else []
        if listed:
            # Any one of the scopes suffices; public data needs a key only.
            return [*({_OAUTH2: [scope]} for scope in listed), *([{_API_KEY: []}] if has_key else [])]
        return [{_API_KEY: []}, {}] if has_key else []


def _list_methods(raw: Json) -> Iterator[tuple[Any, str, str]]:
    """Yield each method with its pointer and the name of its resource (`projects.locations`)."""
    stack: list[tuple[Any, str, str]] = [(raw, "", "")]
    while stack:
        node, pointer, tag = stack.pop()
        for key, method in _ensure_mapping(_ensure_mapping(node).get("methods")).items():
            yield method, f"{pointer}/methods/{escape_token(key)}", tag
        inner = [
            (one, f"{pointer}/resources/{escape_token(key)}", f"{tag}.{key}" if tag else key)
            for key, one in _ensure_mapping(_ensure_mapping(node).get("resources")).items()
        ]
        stack.extend(reversed(inner))


def _read_path(method: Json) -> str | None:
    """Return the path of a method: `flatPath` where `path` has a part of several segments (`{+name}`)."""
    path, flat = method.get("path"), method.get("flatPath")
    if isinstance(flat, str) and flat and (not isinstance(path, str) or "{+" in path):
        path = flat
    if not isinstance(path, str):
        return None
    return "/" + _RESERVED.sub(r"{\1}", path).lstrip("/")


def _build_response(method: Json) -> Json:
    response: Json = {"description": "The result."}
    reference = _ensure_mapping(method.get("response")).get("$ref")
    if isinstance(reference, str):
        response["content"] = {"application/json": {"schema": {"$ref": _refer_to_component(reference)}}}
    if method.get("supportsMediaDownload") is True:
        response.setdefault("content", {})["*/*"] = {}
    return response


def _build_parameter(name: str, node: Any) -> Json:
    node = _ensure_mapping(node)
    schema = _convert_schema(
        {key: value for key, value in node.items() if key not in ("required", "description")}
    )
    location = "path" if node.get("location") == "path" else "query"
    return {
        "name": name,
        "in": location,
        "required": location == "path" or node.get("required") is True,
        "description": _describe(node),
        "deprecated": node.get("deprecated") is True,
        "schema": schema,
    }


def _convert_schema(node: Any) -> Json:
    """Return a schema of draft 3 as one of JSON Schema 2020-12."""
    node = _ensure_mapping(node)
    converted: Json = {key: node[key] for key in _COPIED if key in node}
    if converted.get("format") in _FORMATS:
        converted["format"] = _FORMATS[converted["format"]]
    if isinstance(node.get("$ref"), str):
        converted["$ref"] = _refer_to_component(node["$ref"])
    kind = node.get("type")
    if isinstance(kind, str) and kind != "any":
        converted["type"] = kind
    described = _describe(node)
    if described:
        converted["description"] = described
    if "default" in node:
        converted["default"] = _convert_type(node["default"], kind)
    for key in ("items", "additionalProperties"):
        if key in node:
            converted[key] = node[key] if isinstance(node[key], bool) else _convert_schema(node[key])
    properties = node.get("properties")
    if isinstance(properties, dict):
        converted["properties"] = {name: _convert_schema(one) for name, one in properties.items()}
        required = [name for name, one in properties.items() if _ensure_mapping(one).get("required") is True]
        if required:
            converted["required"] = required
    if node.get("repeated") is True:
        whole: Json = {key: converted.pop(key) for key in ("description", "deprecated") if key in converted}
        return {"type": "array", "items": converted, **whole}
    return converted


def _describe(node: Mapping[str, Any]) -> str:
    """Return the description of a schema, with those of its values."""
    text = node.get("description")
    text = text if isinstance(text, str) else ""
    values, texts = node.get("enum"), node.get("enumDescriptions")
    if not isinstance(values, list) or not isinstance(texts, list):
        return text
    pairs = zip(values, texts, strict=False)
    lines = [f"`{value}`: {about}" for value, about in pairs if isinstance(about, str) and about]
    whole = "\n".join([text, *lines]).strip()
    return whole if len(whole) <= _MAX_DESCRIPTION else text


def _convert_type(value: Any, kind: Any) -> Any:
    """Return a default in its type: Discovery writes all of them as texts."""
    if not isinstance(value, str):
        return value
    try:
        match kind:
            case "integer":
                return int(value)
            case "number":
                return float(value)
            case "boolean":
                return {"true": True, "false": False}.get(value.lower(), value)
    except ValueError:
        return value
    return value


def _refer_to_component(name: str) -> str:
    return f"#/components/schemas/{escape_token(name)}"


def _ensure_mapping(value: Any) -> Json:
    return value if isinstance(value, dict) else {}
