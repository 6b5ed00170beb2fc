"""An HTTP peer, by the server of the library `aiohttp`."""

import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, NamedTuple

from aiohttp import web

from tests.harness.beside import web_server

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@contextlib.asynccontextmanager
async def http_server(handler: Handler, *, max_request_bytes: int = 4 << 20) -> AsyncIterator[str]:
    """Run `handler` for each request, whatever its path, and yield the base URL.

    The handler is cancelled when its client disconnects.
    """
    application = web.Application(client_max_size=max_request_bytes)
    application.router.add_route("*", "/{path:.*}", handler)
    async with web_server(application, handler_cancellation=True) as url:
        yield url


class ReceivedRequest(NamedTuple):
    """A request as it arrived; the names of its headers are in lower case."""

    method: str
    target: str
    headers: dict[str, str]
    query: dict[str, str]
    body: bytes


async def read_request(request: web.Request) -> ReceivedRequest:
    """Return what arrived with its body."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    return ReceivedRequest(
        request.method, request.raw_path, headers, dict(request.query), await request.read()
    )


class HttpPeer:
    """A server that records each request and responds with `handler`."""

    def __init__(self, handler: Handler) -> None:
        self.url = ""
        self.requests: list[ReceivedRequest] = []
        self.handler = handler

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """Listen on loopback until the block ends, and yield the base URL."""
        async with http_server(self._handle) as self.url:
            yield self.url

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append(await read_request(request))
        return await self.handler(request)


def json_response(value: Any, status: int = 200) -> Handler:
    """Return a handler that always responds with this JSON value."""

    async def respond(_: web.Request) -> web.Response:
        return web.json_response(value, status=status)

    return respond
