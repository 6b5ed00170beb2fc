"""`POST /tools/{name}/call` in front of the framework's layers, which cost as much as the gateway's own work.

A request passes ten wrappers on its way through FastAPI: errors twice, telemetry, two body limits, metrics,
an exit stack, the router, and the route's own errors. The one hot route needs what they do (errors become
problems, bodies are bounded, requests are counted), but not that each does it by wrapping the channel:
`HotRoute` does it in one place, and hands everything else on. The route stays registered with the app too,
which answers where any other middleware is installed (CORS, allowed hosts).
"""

import time
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from fastapi import FastAPI
from starlette.requests import HTTPConnection, Request
from starlette.routing import Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.front.middleware import bounded, observe
from app.telemetry.metrics import Metrics


class Answering(Protocol):
    """A response that knows its status, as the hot route gives and as errors are turned into."""

    status_code: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Sends it."""


class HotRoute:
    """Answers `route` itself, with what `endpoint` gives.

    `respond` turns an error into a response, `cut` logs one that came after the answer had begun. `replaces`
    are the middlewares whose work is done here.
    """

    def __init__(
        self,
        route: Route,
        *,
        endpoint: Callable[[Request], Awaitable[Answering]],
        metrics: Metrics,
        body_bytes: int,
        respond: Callable[[HTTPConnection, Exception], Answering],
        cut: Callable[[Exception], None],
        replaces: frozenset[Any],
    ) -> None:
        self.route = route
        self.endpoint = endpoint
        self.replaces = replaces
        self._head, _, self._tail = route.path.replace("{", "}").split("}")
        self._metrics = metrics
        self._body_bytes = body_bytes
        self._respond = respond
        self._cut = cut

    def fits(self, scope: Scope) -> bool:
        """Whether the request is for this route; if so, the scope gets what a router would write into it."""
        if scope["type"] != "http" or scope["method"] != "POST" or not scope["path"].endswith(self._tail):
            return False
        name = self._name(scope)
        if not name:
            return False
        scope["route"] = self.route
        scope["path_params"] = {"name": name}
        return True

    def _name(self, scope: Scope) -> str:
        """What stands between the route's two ends, "" if that is not one segment."""
        path: str = scope["path"]
        root = scope.get("root_path", "")
        if root and path.startswith(f"{root}/"):
            path = path[len(root) :]
        if not path.startswith(self._head):
            return ""
        name = path[len(self._head) : -len(self._tail)]
        return "" if "/" in name else name

    async def answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """As the app's own layers would: an answer or a problem, counted under the route's template."""
        began = time.perf_counter()
        status = 500
        request = Request(scope, bounded(scope, receive, self._body_bytes), send)
        try:
            try:
                response: Answering = await self.endpoint(request)
            except Exception as error:  # noqa: BLE001  (the last place that can answer)
                response = self._respond(request, error)
            status = response.status_code
            try:
                await response(scope, request.receive, send)
            except Exception as error:  # noqa: BLE001
                self._cut(error)
                # Only an error makes the server cut the connection: nobody must take the answer for whole.
                raise ConnectionAbortedError from None
        finally:
            observe(self._metrics, self.route.path, scope["method"], status, began)


class Gateway(FastAPI):
    """FastAPI with a hot route in front, unless a middleware is installed that this does not replace."""

    hot: HotRoute | None = None

    def build_middleware_stack(self) -> ASGIApp:
        """The layers of the app; the hot route stays behind those that do what it does not."""
        if self.hot is not None and any(layer.cls not in self.hot.replaces for layer in self.user_middleware):
            self.hot = None
        return super().build_middleware_stack()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI. The first request finds the stack built: the lifespan went through it."""
        hot = self.hot
        if hot is None or self.middleware_stack is None:
            await super().__call__(scope, receive, send)
            return
        if self.root_path:
            scope["root_path"] = self.root_path
        if hot.fits(scope):
            scope["app"] = self
            await hot.answer(scope, receive, send)
        else:
            await super().__call__(scope, receive, send)
