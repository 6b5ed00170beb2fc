"""Routes ahead of the framework's layers, which cost as much as the gateway's own work for a call.

A request passes ten wrappers on its way through FastAPI: errors twice, telemetry, two body limits, metrics,
an exit stack, the router, and the route's own errors. The routes by which tools are called need what they do
(errors become problems, bodies are bounded, requests are counted), but without a wrapper for each:
`FastRoutes` does all of it, and passes every other request to the app. The routes stay registered with the
app, too, which handles them where any other middleware is installed (CORS, allowed hosts).
"""

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.core.errors import ClientTimeout, ResponseTruncated
from app.core.telemetry.metrics import Metrics
from app.server.admission import Admission
from app.server.key_expiry import with_expiry
from app.server.middleware import limit_body, record_request


class StatusResponse(Protocol):
    """An ASGI response with a status, as the endpoint and the conversion of errors return it."""

    status_code: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""


class FastRoute:
    """A plain Starlette route that is served ahead of the framework.

    Its endpoint returns a StatusResponse, and its path has no parameter but whole segments. `methods` are
    those that the endpoint responds to, by default those of the route: an endpoint may reject other methods
    itself. With `takes_slash`, a request with a slash at the end of its path is for it, too.
    """

    __slots__ = ("endpoint", "methods", "path", "route", "takes_slash")

    def __init__(self, route: Route, methods: Iterable[str] = (), *, takes_slash: bool = False) -> None:
        self.route = route
        self.path = route.path
        self.methods = frozenset(methods or route.methods or ())
        self.endpoint: Callable[[Request], Any] = route.endpoint
        self.takes_slash = takes_slash


class FastRoutes:
    """Serves requests for `routes` with the responses of their endpoints.

    `respond` converts an error to a response, `log_truncated` logs one raised after the response has begun.
    `replaces` are the middlewares whose work is done here. `overloaded` is the response to a request that is
    not admitted.
    """

    def __init__(
        self,
        routes: Sequence[FastRoute],
        *,
        metrics: Metrics,
        body_bytes: int,
        overloaded: StatusResponse,
        respond: Callable[[HTTPConnection, Exception], StatusResponse],
        log_truncated: Callable[[Exception], None],
        replaces: frozenset[Any],
    ) -> None:
        self.replaces = replaces
        self._overloaded = overloaded
        # By the last segment of the template, and then by the number of segments.
        self._routes: dict[tuple[str, int], tuple[FastRoute, tuple[str, ...]]] = {}
        for route in routes:
            segments = tuple(route.path.split("/"))
            key = segments[-1], len(segments)
            if key in self._routes or key[0].startswith("{"):
                raise ValueError(f"{route.path} cannot be a fast route: its last segment tells too little.")
            self._routes[key] = (route, segments)
        self._metrics = metrics
        self._body_bytes = body_bytes
        self._respond = respond
        self._log_truncated = log_truncated

    def match(self, scope: Scope) -> FastRoute | None:
        """Return the route that a request is for, and set what a router would in its scope."""
        if scope["type"] != "http":
            return None
        path: str = scope["path"]
        root = scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        has_slash = path.endswith("/")
        if has_slash:
            path = path[:-1]
        route = self._routes.get((path[path.rfind("/") + 1 :], path.count("/") + 1))
        if route is None or scope["method"] not in route[0].methods:
            return None
        if has_slash and not route[0].takes_slash:
            return None
        parameters: dict[str, str] = {}
        for template, segment in zip(route[1], path.split("/"), strict=True):
            if template != segment:
                if not segment or template[:1] != "{":
                    return None
                parameters[template[1:-1]] = segment
        scope["route"] = route[0].route
        scope["path_params"] = parameters
        return route[0]

    async def reject(self, route: FastRoute, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a request under overload. It is counted, but not read, authenticated or recorded."""
        began = time.perf_counter()
        await self._overloaded(scope, receive, send)
        # Not logged: that would cost more than the rejection itself.
        seconds = time.perf_counter() - began
        self._metrics.observe_request(route.path, scope["method"], self._overloaded.status_code, seconds)

    async def serve(self, route: FastRoute, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request as the app's own layers would: send a response or a problem, and count it."""
        began = time.perf_counter()
        status = 500
        limited = limit_body(scope, receive, self._body_bytes)
        request = Request(scope, limited, send)
        try:
            try:
                response: StatusResponse = await route.endpoint(request)
            except Exception as error:  # noqa: BLE001  (the last place that can respond)
                response = self._respond(request, error)
            status = response.status_code
            try:
                await response(scope, limited, with_expiry(scope, send))
            except Exception as error:  # noqa: BLE001
                self._log_truncated(error)
                if isinstance(error, ClientTimeout):
                    abort_connection(send)
                # Only an error makes the server close the connection, so that the response is not taken as
                # complete.
                raise ResponseTruncated from None
        finally:
            record_request(self._metrics, route.path, scope["method"], status, began)


def abort_connection(send: Send) -> None:
    """Close the connection of the ASGI callable `send` at once, and discard what is not sent yet.

    Otherwise the server would first wait until the client has read everything, which may be never.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()


class GatewayApp(FastAPI):
    """FastAPI with fast routes, which are not used where a middleware is installed that they do not
    replace.
    """

    fast_routes: FastRoutes | None = None
    admission: Admission
    uses_fast_routes = True
    start_failure: str | None = None
    """A sentence that says why the application could not start: logged in place of a traceback."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware stack; disable the fast routes where they do not replace every middleware."""
        fast = self.fast_routes
        if fast is not None and any(layer.cls not in fast.replaces for layer in self.user_middleware):
            self.uses_fast_routes = False
        return super().build_middleware_stack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. The lifespan, which comes first, builds the middleware stack."""
        fast = self.fast_routes
        if fast is None or self.middleware_stack is None:
            await super().__call__(scope, receive, self._build_lifespan_send(send))
            return
        if self.root_path:
            scope["root_path"] = self.root_path
        route = fast.match(scope)
        if route is None:
            await super().__call__(scope, receive, send)
            return
        admission = self.admission
        is_calm = admission.running < admission.max_running and not admission.pressure
        if not is_calm and admission.rejects():
            await fast.reject(route, scope, receive, send)
            return
        admission.running += 1
        scope["admission"] = admission
        try:
            if self.uses_fast_routes:
                scope["app"] = self
                await fast.serve(route, scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            admission.running -= 1

    def _build_lifespan_send(self, send: Send) -> Send:
        """Return `send` for the lifespan, with `start_failure` as the message of a failed start."""

        async def send_with_reason(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed" and self.start_failure is not None:
                message = {**message, "message": self.start_failure}
            await send(message)

        return send_with_reason
