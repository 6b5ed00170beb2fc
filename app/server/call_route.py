"""`POST /tools/{name}/call` ahead of the framework's layers, which cost as much as the gateway's own work.

A request passes ten wrappers on its way through FastAPI: errors twice, telemetry, two body limits, metrics,
an exit stack, the router, and the route's own errors. The call route needs what they do (errors become
problems, bodies are bounded, requests are counted), but without a wrapper for each:
`CallShortcut` does all of it, and passes every other request to the app. The route stays registered with the
app, too, which handles it where any other middleware is installed (CORS, allowed hosts).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.errors import ClientTimeout, ResponseTruncated
from app.server.admission import Admission
from app.server.key_expiry import with_expiry
from app.server.middleware import limit_body, record_request
from app.telemetry.metrics import Metrics


class StatusResponse(Protocol):
    """An ASGI response with a status, as the endpoint and the conversion of errors return it."""

    status_code: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""


class CallShortcut:
    """Serves `route` with the response of `endpoint`.

    `respond` converts an error to a response, `log_truncated` logs one raised after the response has begun.
    `replaces` are the middlewares whose work is done here. `overloaded` is the response to a call that is not
    admitted.
    """

    def __init__(
        self,
        route: Route,
        *,
        endpoint: Callable[[Request], Awaitable[StatusResponse]],
        metrics: Metrics,
        body_bytes: int,
        overloaded: StatusResponse,
        respond: Callable[[HTTPConnection, Exception], StatusResponse],
        log_truncated: Callable[[Exception], None],
        replaces: frozenset[Any],
    ) -> None:
        self.route = route
        self.endpoint = endpoint
        self.replaces = replaces
        self._overloaded = overloaded
        self._head, _, self._tail = route.path.replace("{", "}").split("}")
        self._metrics = metrics
        self._body_bytes = body_bytes
        self._respond = respond
        self._log_truncated = log_truncated

    def matches(self, scope: Scope) -> bool:
        """Return whether the request is for this route; if so, set what a router would in its scope."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith(self._tail):
            return False
        name = self._name(scope)
        if not name:
            return False
        scope["route"] = self.route
        scope["path_params"] = {"name": name}
        return True

    def _name(self, scope: Scope) -> str:
        """Return the value of `{name}` in the path, "" where the path is not of this route."""
        path: str = scope["path"]
        root = scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        if not path.startswith(self._head):
            return ""
        name = path[len(self._head) : -len(self._tail)]
        return "" if "/" in name else name

    async def reject(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Reject a call under overload. It is counted, but not read, authenticated or recorded."""
        began = time.perf_counter()
        await self._overloaded(scope, receive, send)
        # Not logged: that would cost more than the rejection itself.
        seconds = time.perf_counter() - began
        self._metrics.observe_request(self.route.path, scope["method"], self._overloaded.status_code, seconds)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a call as the app's own layers would: send a response or a problem, and count the request."""
        began = time.perf_counter()
        status = 500
        request = Request(scope, limit_body(scope, receive, self._body_bytes), send)
        try:
            try:
                response: StatusResponse = await self.endpoint(request)
            except Exception as error:  # noqa: BLE001  (the last place that can respond)
                response = self._respond(request, error)
            status = response.status_code
            try:
                await response(scope, request.receive, with_expiry(scope, send))
            except Exception as error:  # noqa: BLE001
                self._log_truncated(error)
                if isinstance(error, ClientTimeout):
                    abort_connection(send)
                # Only an error makes the server close the connection, so that the response is not taken as
                # complete.
                raise ResponseTruncated from None
        finally:
            record_request(self._metrics, self.route.path, scope["method"], status, began)


def abort_connection(send: Send) -> None:
    """Close the connection of the ASGI callable `send` at once, and discard what is not sent yet.

    Otherwise the server would first wait until the client has read everything, which may be never.
    """
    transport = getattr(getattr(send, "__self__", None), "transport", None)
    if transport is not None:
        transport.abort()


class GatewayApp(FastAPI):
    """FastAPI with a shortcut for calls, which is not used where a middleware is installed that it does not
    replace.
    """

    call_shortcut: CallShortcut | None = None
    admission: Admission
    takes_shortcut = True
    start_failure: str | None = None
    """A sentence that says why the application could not start: logged in place of a traceback."""

    def build_middleware_stack(self) -> ASGIApp:
        """Return the middleware stack; disable the shortcut where it does not replace every middleware."""
        shortcut = self.call_shortcut
        if shortcut is not None and any(layer.cls not in shortcut.replaces for layer in self.user_middleware):
            self.takes_shortcut = False
        return super().build_middleware_stack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. The lifespan, which comes first, builds the middleware stack."""
        shortcut = self.call_shortcut
        if shortcut is None or self.middleware_stack is None:
            await super().__call__(scope, receive, self._lifespan_send(send))
            return
        if self.root_path:
            scope["root_path"] = self.root_path
        if not shortcut.matches(scope):
            await super().__call__(scope, receive, send)
            return
        admission = self.admission
        if admission.rejects():
            await shortcut.reject(scope, receive, send)
            return
        admission.running += 1
        try:
            if self.takes_shortcut:
                scope["app"] = self
                await shortcut.serve(scope, receive, send)
            else:
                await super().__call__(scope, receive, send)
        finally:
            admission.running -= 1

    def _lifespan_send(self, send: Send) -> Send:
        """Return `send` for the lifespan, with `start_failure` as the message of a failed start."""

        async def send_with_reason(message: Message) -> None:
            if message["type"] == "lifespan.startup.failed" and self.start_failure is not None:
                message = {**message, "message": self.start_failure}
            await send(message)

        return send_with_reason
