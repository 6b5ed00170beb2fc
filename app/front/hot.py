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
from starlette.routing import Match, Route
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
        self._tail = route.path.rpartition("}")[2]
        self._metrics = metrics
        self._body_bytes = body_bytes
        self._respond = respond
        self._cut = cut

    def before(self, app: ASGIApp) -> ASGIApp:
        """An application that answers the route, and hands everything else to `app`."""
        route, tail = self.route, self._tail

        async def dispatch(scope: Scope, receive: Receive, send: Send) -> None:
            if scope["type"] == "http" and scope["method"] == "POST" and scope["path"].endswith(tail):
                match, found = route.matches(scope)
                if match is Match.FULL:
                    scope["route"] = route
                    scope.update(found)
                    await self.answer(scope, receive, send)
                    return
            await app(scope, receive, send)

        return dispatch

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
        """The layers of the app, and the hot route before them."""
        stack = super().build_middleware_stack()
        hot = self.hot
        if hot is None or any(layer.cls not in hot.replaces for layer in self.user_middleware):
            return stack
        return hot.before(stack)
