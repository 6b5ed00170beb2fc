"""httpx2 over the engine, for the libraries that want an httpx2 client (Authlib, the MCP SDK).

Their own transports would open connections past the guard, and know no deadline.
"""

from collections.abc import AsyncIterator

import httpx2

from app.outbound.egress import EgressSettings
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse

# The engine decodes the body, so what described the coded one must not reach httpx2, which would decode
# again.
_ABOUT_THE_CODED_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
# httpx2 adds these by itself; the engine has its own.
_OF_THE_ENGINE = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class EngineTransport(httpx2.AsyncBaseTransport):
    """Sends an httpx2 client's requests through the engine, under fixed limits.

    `deadline` is a `loop.time()` for all of its requests, in place of `limits.total` for each.
    Failures are raised as the gateway's errors, not as httpx2's. Closing it closes nothing: the engine
    belongs to someone else. Build clients as `httpx2.AsyncClient(transport=..., trust_env=False)`.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        limits: Limits,
        deadline: float | None = None,
        egress: EgressSettings | None = None,
    ) -> None:
        self._engine = engine
        self._limits = limits
        self._deadline = deadline
        self._egress = egress

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        """One request; its body is read whole first, the answer's is streamed."""
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.items() if name not in _OF_THE_ENGINE]
        response = await self._engine.request(
            OutboundRequest(
                method=request.method,
                url=str(request.url),
                headers=headers,
                body=body or None,
                limits=self._limits,
                deadline=self._deadline,
                egress=self._egress,
            )
        )
        kept = [pair for pair in response.headers.items() if pair[0].lower() not in _ABOUT_THE_CODED_BODY]
        stream = _Body(response, limit=self._limits.response_bytes)
        return httpx2.Response(status_code=response.status, headers=kept, stream=stream, request=request)


class _Body(httpx2.AsyncByteStream):
    def __init__(self, response: OutboundResponse, *, limit: int) -> None:
        self._response = response
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.iterate(self._limit):
            yield piece

    async def aclose(self) -> None:
        self._response.close()
