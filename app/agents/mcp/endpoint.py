"""The routes `/mcp` and `/toolsets/{name}/mcp`: plain Starlette, served ahead of the framework.

Each is also served with a slash at its end, which clients add to URLs that people give them.

A request is checked in the order of the specification (2026-07-28, "Streamable HTTP"): its Host and Origin,
its key, its method and its body as HTTP, whose errors are problems as on every route; then its message, whose
errors are those of JSON-RPC.
"""

from collections.abc import Mapping
from typing import Final

from starlette.requests import Request
from starlette.routing import Route

from app.access import authorise
from app.agents.http_messages import BytesResponse, read_body, read_head
from app.agents.mcp.cross_origin import (
    CrossOriginResponse,
    preflight_response,
    response_headers,
    with_headers,
)
from app.agents.mcp.exchange import Exchange, Response
from app.agents.mcp.jsonrpc import INTERNAL_ERROR, RpcError
from app.agents.mcp.messages import Message, read_message
from app.agents.mcp.methods import dispatch
from app.agents.mcp.server import McpServer
from app.core.errors import GatewayError, MethodNotAllowed, UnsupportedMediaType
from app.core.telemetry.unexpected import log_unexpected_error
from app.services import Services
from app.toolsets.collection import ListMode


async def serve_registry(request: Request) -> Response:
    """Serve the tools of the registry: those themselves, or the meta-tools where there are many."""
    return await _serve(request, "auto")


async def serve_all(request: Request) -> Response:
    """Serve the tools of the registry, listed themselves however many there are."""
    return await _serve(request, "all")


async def serve_search(request: Request) -> Response:
    """Serve the tools of the registry, of which the list has the meta-tools alone."""
    return await _serve(request, "search")


async def serve_toolset(request: Request) -> Response:
    """Serve the tools of a toolset, in its own mode."""
    return await _serve(request, "auto", request.scope["path_params"]["name"])


async def _serve(request: Request, mode: ListMode, toolset: str | None = None) -> Response:
    scope = request.scope
    server: McpServer = scope["state"]["mcp"]
    head = read_head(scope["headers"])
    server.origins.check(head)
    origin = head.get(b"origin")
    if origin is None:
        return await _respond(request, head, mode, toolset)
    if scope["method"] == "OPTIONS" and b"access-control-request-method" in head:
        return preflight_response(origin, head)
    headers = response_headers(origin)
    # A stream writes its head before there is a response. Starlette has no public name for this.
    request._send = with_headers(request._send, headers)  # noqa: SLF001
    try:
        return CrossOriginResponse(await _respond(request, head, mode, toolset), headers)
    except GatewayError as error:
        error.headers |= {name.decode(): value.decode("latin-1") for name, value in headers}
        raise


async def _respond(
    request: Request, head: Mapping[bytes, bytes], mode: ListMode, toolset: str | None
) -> Response:
    scope = request.scope
    services: Services = scope["state"]["services"]
    server: McpServer = scope["state"]["mcp"]
    raw = scope["headers"]
    if scope["method"] == "OPTIONS":
        raise _create_method_error()
    principal = await authorise(request, "tools:call", "tools:read")
    if scope["method"] != "POST":
        raise _create_method_error()
    kind = head.get(b"content-type", b"")
    if kind != b"application/json" and not kind.strip(b" \t").lower().startswith(b"application/json"):
        raise UnsupportedMediaType("Send a JSON-RPC message as application/json.")
    settings = services.settings
    body = await read_body(request, head, limit=settings.max_request_bytes, streams=services.streams)
    collection = await services.collections.at(toolset, principal)
    message = Message()
    try:
        rpc = read_message(body, head, raw, message, max_values=settings.max_argument_values)
        if rpc is None:
            return BytesResponse(b"", [], status_code=202)
        return await dispatch(
            Exchange(
                request,
                head,
                services,
                server,
                collection,
                rpc,
                scope["route"].path.removesuffix("/"),
                mode,
                toolset,
            )
        )
    except RpcError as error:
        return error.response(message.id, is_modern=message.is_modern)
    except GatewayError:
        raise
    except Exception as error:  # noqa: BLE001 - the client gets an error of JSON-RPC, without its text.
        known = log_unexpected_error(error)
        return RpcError(INTERNAL_ERROR, known.detail, data=known.extra).response(
            message.id, is_modern=message.is_modern
        )


def _create_method_error() -> MethodNotAllowed:
    return MethodNotAllowed("Only POST is served here.", headers={"Allow": "POST"})


for _endpoint in (serve_registry, serve_all, serve_search, serve_toolset):
    _endpoint.scope = "tools:call"  # type: ignore[attr-defined]
    _endpoint.alternative_scopes = ("tools:read",)  # type: ignore[attr-defined]

_METHODS: Final = ("POST", "OPTIONS")
MCP_ROUTE = Route("/mcp", endpoint=serve_registry, methods=_METHODS, name="mcp")
TOOLSET_ROUTE = Route("/toolsets/{name}/mcp", endpoint=serve_toolset, methods=_METHODS, name="toolsetMcp")
FAST_ROUTES = (
    MCP_ROUTE,
    Route("/mcp/all", endpoint=serve_all, methods=_METHODS, name="mcpAll"),
    Route("/mcp/search", endpoint=serve_search, methods=_METHODS, name="mcpSearch"),
    TOOLSET_ROUTE,
)
ROUTES = (
    *FAST_ROUTES,
    *(Route(f"{one.path}/", endpoint=one.endpoint, methods=_METHODS) for one in FAST_ROUTES),
)
