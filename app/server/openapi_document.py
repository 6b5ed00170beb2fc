"""The OpenAPI document of the gateway: FastAPI's document with the call operation, scopes and links added."""

from collections.abc import Iterator
from importlib.metadata import version
from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi

from app.access.authorise import PUBLIC, declared_scope, iter_routes
from app.call_api.endpoint import CALL_ROUTE
from app.call_api.operation import OPERATION_ID, call_operation
from app.schemas import Problem

VERSION = version("utcp-gateway")
DESCRIPTION = (
    "Register APIs once, let agents discover, search and call their tools with central auth. "
    "Errors are problem details (RFC 9457). Lists are pages with an opaque cursor."
)
_BODY = "$response.body#/"

# From an operation and status to the operations that can follow; values are runtime expressions (OpenAPI
# 3.1).
LINKS: dict[tuple[str, str], dict[str, dict[str, Any]]] = {}


def link(source: tuple[str, str], target: str, **parameters: str) -> None:
    """Declare that the operation `target` can be called with `parameters` from the response of `source`."""
    LINKS.setdefault(source, {})[target] = {"operationId": target, "parameters": parameters}


for _target in ("getProvider", "updateProvider", "deleteProvider", "refreshProvider", "listCredentials",
                "putProviderVariable", "getProviderManual"):  # fmt: skip
    link(("registerProvider", "201"), _target, name=_BODY + "name")
for _target in ("getTool", "updateTool", "deleteTool", "callTool"):
    link(("createTool", "201"), _target, name=_BODY + "name")
for _target in ("getKey", "revokeKey"):
    link(("createKey", "201"), _target, key_id=_BODY + "id")


def install(app: FastAPI) -> None:
    """Make `app.openapi()` return the whole document, which is built once."""

    def openapi() -> dict[str, Any]:
        if app.openapi_schema is None:
            app.openapi_schema = build(app)
        return app.openapi_schema

    app.openapi = openapi  # type: ignore[method-assign]


def build(app: FastAPI) -> dict[str, Any]:
    """Return the OpenAPI document; it is deterministic for given routes."""
    document = get_openapi(
        title=app.title, version=app.version, description=app.description, routes=app.routes, tags=TAGS
    )
    if app.root_path:
        document["servers"] = [{"url": app.root_path}]
    document["paths"].setdefault(CALL_ROUTE.path, {})["post"] = call_operation()
    schemas = document.setdefault("components", {}).setdefault("schemas", {})
    problem = Problem.model_json_schema(ref_template="#/components/schemas/{model}")
    schemas |= problem.pop("$defs", {})
    schemas["Problem"] = problem
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    _add_scopes(app, document)
    _drop_null_from_parameters(document)
    operations = dict(_operations(document))
    for (source, status), links in LINKS.items():
        if source in operations and status in operations[source]["responses"]:
            known = {name: body for name, body in links.items() if name in operations}
            operations[source]["responses"][status]["links"] = known
    document["paths"] = dict(sorted(document["paths"].items()))
    document["components"]["schemas"] = dict(sorted(schemas.items()))
    return document


TAGS = [
    {"name": "providers", "description": "Registered APIs, their credentials and variables."},
    {"name": "tools", "description": "What can be called: list, search, call."},
    {"name": "discovery", "description": "UTCP manuals."},
    {"name": "access", "description": "API keys and who changed what."},
    {"name": "operation", "description": "Health and metrics."},
]


def _operations(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for item in document["paths"].values():
        for operation in item.values():
            if isinstance(operation, dict) and "operationId" in operation:
                yield operation["operationId"], operation


def _drop_null_from_parameters(document: dict[str, Any]) -> None:
    """Remove `null` from the schemas of parameters: an optional one is omitted, and no text is null."""
    for _, operation in _operations(document):
        for parameter in operation.get("parameters", ()):
            kinds = parameter["schema"].get("anyOf", [])
            present = [kind for kind in kinds if kind != {"type": "null"}]
            if len(present) == 1 < len(kinds):
                del parameter["schema"]["anyOf"]
                parameter["schema"] |= present[0]


def _add_scopes(app: FastAPI, document: dict[str, Any]) -> None:
    """Add the scope that each route requires, as `x-required-scopes`: for readers and authorisation tests."""
    operations = dict(_operations(document))
    for route in iter_routes(app.routes):
        operation = operations.get(getattr(route, "operation_id", None) or "")
        scope = declared_scope(route)
        if operation is not None and scope not in (None, PUBLIC):
            operation["x-required-scopes"] = [scope]
    call = operations.get(OPERATION_ID)
    if call is not None:
        call["x-required-scopes"] = [declared_scope(CALL_ROUTE)]
