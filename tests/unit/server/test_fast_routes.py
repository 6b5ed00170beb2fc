"""Which requests the fast routes take, and what they find in the scope."""

from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from app.agents.http_messages import BytesResponse
from app.core.telemetry.metrics import Metrics
from app.server.call_route import FastRoute, FastRoutes
from tests.harness.cases import for_each


async def _endpoint(request: Request) -> BytesResponse:
    return BytesResponse(request.scope["path"].encode(), [])


def _route(path: str, *methods: str) -> FastRoute:
    return FastRoute(Route(path, endpoint=_endpoint, methods=["POST"]), methods)


def _routes(*routes: FastRoute) -> FastRoutes:
    return FastRoutes(
        routes,
        metrics=Metrics(),
        body_bytes=1000,
        overloaded=Response(status_code=503),
        respond=lambda _request, _error: Response(status_code=500),
        log_truncated=lambda _error: None,
        replaces=frozenset(),
    )


ROUTES = _routes(
    _route("/tools/{name}/call"),
    _route("/mcp", "POST", "GET"),
    _route("/toolsets/{name}/mcp"),
    _route("/toolsets/{name}/tools/{tool}/call"),
)


@for_each(
    ("method", "path", "template", "parameters"),
    [
        ("POST", "/tools/a.b/call", "/tools/{name}/call", {"name": "a.b"}),
        ("POST", "/gw/tools/a.b/call", "/tools/{name}/call", {"name": "a.b"}),
        ("POST", "/mcp", "/mcp", {}),
        ("GET", "/mcp", "/mcp", {}),
        ("POST", "/toolsets/s/mcp", "/toolsets/{name}/mcp", {"name": "s"}),
        (
            "POST", "/toolsets/s/tools/t/call",
            "/toolsets/{name}/tools/{tool}/call", {"name": "s", "tool": "t"},
        ),
    ],
)  # fmt: skip
def test_a_request_is_matched_with_its_parameters(
    method: str, path: str, template: str, parameters: dict[str, str]
) -> None:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path, "root_path": "/gw"}
    found = ROUTES.match(scope)
    assert found is not None
    assert found.path == template
    assert scope["route"] is found.route
    assert scope["path_params"] == parameters


@for_each(
    ("method", "path"),
    [
        ("GET", "/tools/a/call"),
        ("GET", "/toolsets/s/mcp"),
        ("POST", "/tools//call"),
        ("POST", "/tool/a/call"),
        ("POST", "/tools/a/b/call"),
        ("POST", "/mcp/"),
        ("POST", "mcp"),
        ("POST", "/x/mcp"),
        ("POST", "/"),
        ("POST", "/toolsets/s/tool/t/call"),
    ],
)
def test_other_requests_are_left_to_the_application(method: str, path: str) -> None:
    scope: dict[str, Any] = {"type": "http", "method": method, "path": path}
    assert ROUTES.match(scope) is None
    assert "route" not in scope


def test_a_web_socket_is_left_to_the_application() -> None:
    assert ROUTES.match({"type": "websocket", "path": "/mcp"}) is None


@pytest.mark.parametrize(
    "paths",
    [("/a/{name}",), ("/a/{name}/call", "/b/{name}/call")],
    ids=["a parameter at the end", "the same last segment"],
)
def test_a_path_that_is_not_distinct_is_an_error(paths: tuple[str, ...]) -> None:
    with pytest.raises(ValueError, match="cannot be a fast route"):
        _routes(*map(_route, paths))
