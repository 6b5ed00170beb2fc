"""Plain ASGI middleware: the limit of request bodies, allowed hosts, and the metrics of each request.

Each wraps `receive` or `send`: Starlette's BaseHTTPMiddleware costs a task per request and hides disconnects
from the route.
"""

import time
from collections.abc import Sequence
from typing import Any

import structlog
from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from starlette.websockets import WebSocket

from app.core import exact_json
from app.core.errors import BadRequest, TooLarge
from app.core.telemetry.metrics import Metrics

log = structlog.get_logger("request")


class BodyLimit:
    """Rejects a request body that is larger than allowed, before or while it is read.

    `large` are path prefixes that take documents (`large_bytes`); everything else may have `small_bytes`.
    """

    def __init__(self, app: ASGIApp, *, small_bytes: int, large_bytes: int, large: Sequence[str]) -> None:
        self.app = app
        self.small_bytes = small_bytes
        self.large_bytes = large_bytes
        self.large = tuple(large)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject the body by its `Content-Length`, or count a body without one while it is read."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        limit = self.large_bytes if scope["path"].startswith(self.large) else self.small_bytes
        await self.app(scope, limit_body(scope, receive, limit), send)


def limit_body(scope: Scope, receive: Receive, limit: int) -> Receive:
    """Return `receive` for a body of at most `limit` bytes, which raises TooLarge for a larger one."""
    scope["body_limit"] = limit
    length = None
    chunked = False
    for name, value in scope["headers"]:
        if name == b"content-length":
            length = value
            break
        if name == b"transfer-encoding":
            chunked = True
    if length is not None:
        if not length.isdigit():
            return _build_rejecting_receive(BadRequest("Content-Length is not a number."))
        if int(length) > limit:
            return _build_rejecting_receive(build_too_large(limit))
    elif chunked:
        return _build_counting_receive(receive, limit)
    return receive


def build_too_large(limit: int) -> TooLarge:
    """Return the error for a body over `limit` bytes."""
    return TooLarge(f"The request body may have at most {limit} bytes here.", extra={"limit": limit})


def _build_rejecting_receive(error: Exception) -> Receive:
    async def reject() -> Message:
        raise error

    return reject


def _build_counting_receive(receive: Receive, limit: int) -> Receive:
    seen = 0

    async def receive_counted() -> Message:
        nonlocal seen
        message = await receive()
        if message["type"] == "http.request":
            seen += len(message.get("body", b""))
            if seen > limit:
                raise build_too_large(limit)
        return message

    return receive_counted


class AllowedHosts:
    """Rejects other Host headers than those of the settings, against DNS rebinding.

    Starlette's TrustedHostMiddleware does the same, but responds in plain text. `patterns` are host names, or
    `*.example.com` for all subdomains.
    """

    def __init__(self, app: ASGIApp, *, patterns: Sequence[str]) -> None:
        self.app = app
        self.names = frozenset(pattern.lower() for pattern in patterns)
        self.suffixes = tuple(name[1:] for name in self.names if name.startswith("*."))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on; raise BadRequest for a host that is not allowed, which denies a WebSocket."""
        kind = scope["type"]
        if kind in ("http", "websocket") and not self.allows(Headers(scope=scope).get("host", "")):
            error = BadRequest("The Host header names no host that is served here.")
            if kind == "http":
                raise error
            body = exact_json.dumps(error.as_problem())
            denial = Response(body, error.status, media_type="application/problem+json")
            await WebSocket(scope, receive, send).send_denial_response(denial)
            return
        await self.app(scope, receive, send)

    def allows(self, host: str) -> bool:
        """Return whether a Host header, with or without a port, matches a pattern."""
        name = (host if host.endswith("]") else host.rpartition(":")[0] or host).lower()
        return name in self.names or (bool(self.suffixes) and name.endswith(self.suffixes))


class RequestMetrics:
    """Counts and times each request under its route's template (never its path, which clients choose)."""

    def __init__(self, app: ASGIApp, *, metrics: Metrics) -> None:
        self.app = app
        self.metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on, and count it with the status of its response."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        began = time.perf_counter()
        status = 500

        async def send_watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            await self.app(scope, receive, send_watched)
        finally:
            record_request(self.metrics, get_route_template(scope), scope["method"], status, began)


def record_request(metrics: Metrics, route: str, method: str, status: int, began: float) -> None:
    """Count a request that began at `began` (`time.perf_counter()`), and log a failed one."""
    metrics.observe_request(route, method, status, time.perf_counter() - began)
    if status >= 500:
        log.warning("request failed", method=method, route=route, status=status)


def get_route_template(scope: Scope) -> str:
    """Return the template of the route that matched, e.g. `/tools/{name}`; `(none)` where none did."""
    route: Any = scope.get("route")
    return getattr(route, "path", None) or "(none)"
