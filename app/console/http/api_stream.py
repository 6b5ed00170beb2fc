"""Responses of the console that are made from a response of the API while it is written."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.api.streams.connection import ResponseWriter, until_disconnected
from app.calls import ClientDisconnected
from app.calls.disconnect import DisconnectWatch
from app.console.http.api_client import ApiProblem, Query, StreamedResponse
from app.console.http.page import PAGE_HEADERS, Page
from app.core.errors import ClientTimeout


class ApiStreamResponse(Response):
    """An ASGI response with the body of a GET of the API as it comes; subclasses make another one of it.

    It is written as fast as the client reads, and ends with the client's connection. Where the API rejects
    the request, the response is the page that says so.
    """

    def __init__(
        self, page: Page, path: str, query: Query, *, headers: Mapping[str, str] | None = None
    ) -> None:
        self.status_code = 200
        self.background = None
        self.init_headers(PAGE_HEADERS)
        self.page = page
        self._path = path
        self._query = query
        self._sent_headers = headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response until one side ends it."""
        streams = self.page.services.streams
        writer = ResponseWriter(send, clock=streams.clock, stall=streams.stall)
        try:
            with DisconnectWatch(partial(until_disconnected, receive), streams.clock, after=0):
                async with self._open_stream() as response:
                    self.headers.update(self.headers_of(response))
                    await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
                    await self.forward(response, writer)
        except ApiProblem as problem:
            await self.page.problem(problem)(scope, receive, send)
        except (ClientDisconnected, ClientTimeout):
            return

    def headers_of(self, response: StreamedResponse) -> Mapping[str, str]:
        """Return further header fields: those that describe the body of the API."""
        names = ("content-type", "content-disposition")
        return {name: response.headers[name] for name in names if name in response.headers}

    async def forward(self, response: StreamedResponse, writer: ResponseWriter) -> None:
        """Write the body, to its end."""
        async for part in response:
            await writer.write(part)
        await writer.write(b"", more=False)

    def _open_stream(self) -> Any:
        return self.page.api.stream("GET", self._path, query=self._query, headers=self._sent_headers)
