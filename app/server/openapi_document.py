"""The OpenAPI document of the gateway: FastAPI's document with the call operation, scopes and links added."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any, Final

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.access.authorise import ANY_KEY, PUBLIC
from app.agents.call.endpoint import CALL_ROUTE, TOOLSET_CALL_ROUTE
from app.agents.call.operation import (
    OPERATION_ID,
    TOOLSET_OPERATION_ID,
    call_components,
    call_operation,
    toolset_call_operation,
)
from app.agents.mcp.endpoint import MCP_ROUTE, TOOLSET_ROUTE
from app.agents.mcp.operation import build_mcp_components, build_mcp_operation
from app.agents.tool_calls import TOOL_CALLS_ROUTE, TOOLSET_TOOL_CALLS_ROUTE
from app.agents.tool_calls.operation import tool_calls_components, tool_calls_operation
from app.agents.ubp import COMMANDS_ROUTE
from app.agents.ubp.operation import OPERATION_ID as COMMAND_OPERATION_ID
from app.agents.ubp.operation import command_components, command_operation
from app.agents.utcp.manual_schema import manual_components
from app.api.authorisation import alternative_scopes, declared_scope, iter_routes
from app.api.providers.request_bodies import request_components
from app.core.schemas import Problem
from app.core.settings import Settings
from app.server.deprecation_headers import describe, get_route_deprecation
from app.server.openapi_examples import add_examples

VERSION = version("utcp-gateway")
DESCRIPTION = (
    "Register APIs once, let agents discover, search and call their tools with central auth. "
    "Errors are problem details (RFC 9457). Lists are pages with an opaque cursor. HEAD is served wherever "
    "GET is, with the same headers and no body."
)
_BODY = "$response.body#/"
# What FastAPI writes.
_UNDESCRIBED = "Successful Response"
_PATH = "$request.path."

_PLAIN_ROUTES: Final = {
    OPERATION_ID: CALL_ROUTE,
    TOOLSET_OPERATION_ID: TOOLSET_CALL_ROUTE,
    COMMAND_OPERATION_ID: COMMANDS_ROUTE,
    "mcp": MCP_ROUTE,
    "toolsetMcp": TOOLSET_ROUTE,
}
# From an operation and status to the operations that can follow; values are runtime expressions (OpenAPI
# 3.1).
LINKS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}


def link(source: tuple[str, str], target: str, **parameters: str) -> None:
    """Declare that the operation `target` can be called with `parameters` from the response of `source`."""
    LINKS.setdefault(source, {})[target] = {"operationId": target, "parameters": parameters}


for _target in ("getProvider", "updateProvider", "deleteProvider", "refreshProvider", "previewRefresh",
                "listCredentials", "listProviderVariables", "putProviderVariable",
                "getProviderManual"):  # fmt: skip
    link(("registerProvider", "201"), _target, name=_BODY + "name")
link(("registerProvider", "201"), "listTools", provider=_BODY + "name")
for _target in ("getToolset", "putToolset", "deleteToolset", "searchToolset", "getToolsetManual"):
    link(("createToolset", "201"), _target, name=_BODY + "name")
for _target in ("getRecording", "updateRecording", "deleteRecording", "exportRecording", "beginRun"):
    link(("createRecording", "201"), _target, name=_BODY + "name")
for _target in ("getSynonyms", "putSynonyms", "deleteSynonyms"):
    link(("createSynonyms", "201"), _target, id=_BODY + "id")
for _target in ("getPin", "putPin", "deletePin"):
    link(("createPin", "201"), _target, id=_BODY + "id")
for _source in (
    "registerProvider",
    "previewProvider",
    "importProviders",
    "refreshProvider",
    "previewRefresh",
):
    link((_source, "202"), "getImport", import_id=_BODY + "id")
link(("refreshProvider", "200"), "approveProvider", name=_PATH + "name")
for _status in ("200", "201"):
    link(("putCredential", _status), "deleteCredential", name=_PATH + "name", slot=_PATH + "slot")
    link(("putVariable", _status), "deleteVariable", variable=_PATH + "variable")
    link(
        ("putProviderVariable", _status),
        "deleteProviderVariable",
        name=_PATH + "name",
        variable=_PATH + "variable",
    )
for _target in ("getTool", "updateTool", "deleteTool", "callTool"):
    link(("createTool", "201"), _target, name=_BODY + "name")
for _target in ("getKey", "updateKey", "rotateKey", "revokeKey"):
    link(("createKey", "201"), _target, key_id=_BODY + "id")
for _target in ("getKey", "updateKey", "revokeKey"):
    link(("rotateKey", "201"), _target, key_id=_BODY + "id")
for _target in ("getCall", "getCallBodies"):
    link(("callTool", "200"), _target, call_id="$response.header.X-Call-Id")


def install(app: FastAPI, settings: Settings) -> None:
    """Make `app.openapi()` return the whole document, which is built once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build(app, settings)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def build(app: FastAPI, settings: Settings) -> dict[str, Any]:
    """Return the OpenAPI document of an application; equal routes and settings give equal documents."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=TAGS
    )
    document["info"] |= settings.build_openapi_info()
    document["servers"] = [{"url": settings.base_url, "description": "This gateway."}]
    document["paths"].setdefault(CALL_ROUTE.path, {})["post"] = call_operation()
    for route in (TOOL_CALLS_ROUTE, TOOLSET_TOOL_CALLS_ROUTE):
        operation = tool_calls_operation(toolset=route is TOOLSET_TOOL_CALLS_ROUTE)
        document["paths"].setdefault(route.path, {})["post"] = operation
    document["paths"].setdefault(TOOLSET_CALL_ROUTE.path, {})["post"] = toolset_call_operation()
    document["paths"].setdefault(COMMANDS_ROUTE.path, {})["post"] = command_operation()
    for route in (MCP_ROUTE, TOOLSET_ROUTE):
        operation = build_mcp_operation(toolset=route is TOOLSET_ROUTE)
        document["paths"].setdefault(route.path, {})["post"] = operation
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    _add_components(schemas, call_components())
    _add_components(schemas, tool_calls_components())
    _add_components(schemas, build_mcp_components())
    _add_components(schemas, command_components())
    _add_components(schemas, request_components())
    _add_components(schemas, manual_components())
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _add_scopes(app, document)
    _add_deprecations(app, document)
    _drop_null_from_parameters(document)
    _describe_keys_by_property_names(schemas)
    _describe_responses(document)
    operations = dict(_list_operations(document))
    for (source, status), links in LINKS.items():
        if source in operations and status in operations[source]["responses"]:
            known = {name: body for name, body in links.items() if name in operations}
            operations[source]["responses"][status]["links"] = known
    add_examples(document)
    document["paths"] = dict(sorted(document["paths"].items()))
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


TAGS = [
    {"name": "providers", "description": "Registered APIs, their credentials and variables."},
    {"name": "tools", "description": "Tools and the records of their calls."},
    {"name": "approvals", "description": "What waits for the decision of another key."},
    {"name": "discovery", "description": "UTCP manuals."},
    {"name": "keys", "description": "API keys of clients."},
    {"name": "toolsets", "description": "Named views of the registry for agents."},
    {"name": "search", "description": "Synonyms and pinned results of searches."},
    {"name": "agent tests", "description": "Tests of models with tools."},
    {
        "name": "recordings",
        "description": "Recorded calls, which keys and toolsets replay in place of the upstreams.",
    },
    {"name": "plugins", "description": "Ready providers, off until they are enabled."},
    {
        "name": "executors",
        "description": "Programs that connect and execute commands, and those that send them (UBP).",
    },
    {"name": "audit", "description": "Events: who changed what, and when."},
    {"name": "reference", "description": "What each problem type and each scope means."},
    {"name": "operation", "description": "Health and metrics."},
]


def _list_operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "operationId" in operation:
                yield operation["operationId"], operation


def _add_components(schemas: dict[str, Any], added: dict[str, Any]) -> None:
    """Add components; raise ValueError where one of the same name is there, and differs."""
    for name, schema in added.items():
        if schemas.setdefault(name, schema) != schema:
            msg = f"two components are named {name}"
            raise ValueError(msg)


def _drop_null_from_parameters(document: dict[str, Any]) -> None:
    """Remove `null` from the schemas of parameters: an optional one is omitted, and no text is null."""
    for _, operation in _list_operations(document):
        for parameter in operation.get("parameters", ()):
            kinds = parameter["schema"].get("anyOf", [])
            present = [kind for kind in kinds if kind != {"type": "null"}]
            if len(present) == 1 < len(kinds):
                del parameter["schema"]["anyOf"]
                parameter["schema"] |= present[0]


def _describe_responses(document: dict[str, Any]) -> None:
    """Describe responses for which a route has no words of its own by the component that is their body."""
    schemas = document["components"]["schemas"]
    for _, operation in _list_operations(document):
        for response in operation["responses"].values():
            if response["description"] != _UNDESCRIBED:
                continue
            bodies = response.get("content", {}).values()
            names = [body.get("schema", {}).get("$ref", "").rpartition("/")[2] for body in bodies]
            description = next((schemas[name].get("description") for name in names if name in schemas), None)
            if not names:
                description = "Done. The response has no body."
            response["description"] = description or _UNDESCRIBED


def _describe_keys_by_property_names(node: Any) -> None:
    """Write objects whose only keys are those of one pattern by `propertyNames`: generators of clients read
    `additionalProperties`, of which they make maps, but not `patternProperties`.
    """
    if isinstance(node, list):
        for member in node:
            _describe_keys_by_property_names(member)
    elif isinstance(node, dict):
        patterns = node.get("patternProperties")
        if isinstance(patterns, dict) and len(patterns) == 1 and node.get("additionalProperties") is False:
            del node["patternProperties"]
            ((pattern, node["additionalProperties"]),) = patterns.items()
            node["propertyNames"] = {**node.get("propertyNames", {}), "type": "string", "pattern": pattern}
        for member in node.values():
            _describe_keys_by_property_names(member)


def _add_scopes(app: FastAPI, document: dict[str, Any]) -> None:
    """Add the scope that each route requires, as `x-required-scopes`: for readers and authorisation tests.

    The list is empty where any valid key is enough; where there are several, a key needs one of them. A
    public route has no security.
    """
    operations = dict(_list_operations(document))
    for route in iter_routes(app.routes):
        operation = operations.get(getattr(route, "operation_id", None) or "")
        scope = declared_scope(route)
        if operation is not None and scope == PUBLIC:
            operation["security"] = []
        elif operation is not None and scope is not None:
            operation["x-required-scopes"] = [] if scope == ANY_KEY else [scope, *alternative_scopes(route)]
    for name, route in _PLAIN_ROUTES.items():
        if name in operations:
            operations[name]["x-required-scopes"] = [declared_scope(route), *alternative_scopes(route)]


def _add_deprecations(app: FastAPI, document: dict[str, Any]) -> None:
    operations = dict(_list_operations(document))
    for route in iter_routes(app.routes):
        plain = next((name for name, one in _PLAIN_ROUTES.items() if route is one), None)
        name = plain or getattr(route, "operation_id", None)
        operation, deprecation = operations.get(name or ""), get_route_deprecation(route)
        if operation is not None and deprecation is not None:
            describe(operation, deprecation)
