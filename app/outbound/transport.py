"""An httpx2 transport over the engine, for libraries that need an httpx2 client (Authlib, the MCP SDK).

Their own transports would bypass the address guard, and have no deadline.
"""

from collections.abc import AsyncIterator

import httpx2

from app.outbound.egress import EgressSettings
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse

# The engine decodes the body, so headers that describe the encoded one must not reach httpx2, which would
# decode it again.
_ENCODED_BODY_HEADERS = frozenset({"content-encoding", "content-length", "transfer-encoding"})
# httpx2 adds these headers, and the engine adds its own.
_ENGINE_HEADERS = frozenset({"host", "content-length", "transfer-encoding", "connection", "accept-encoding"})


class EngineTransport(httpx2.AsyncBaseTransport):
    """Sends an httpx2 client's requests through the engine, under fixed limits.

    `deadline` is a `loop.time()` for all of its requests, in place of `limits.total` for each.
    Failures are raised as the gateway's errors, not as httpx2's. Closing the transport does not close the
    engine. Create clients with `httpx2.AsyncClient(transport=..., trust_env=False)`.
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
        """Send one request, whose body is read completely first; the response's body is streamed."""
        body = await request.aread()
        headers = [(name, value) for name, value in request.headers.items() if name not in _ENGINE_HEADERS]
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
        headers = [pair for pair in response.headers.items() if pair[0].lower() not in _ENCODED_BODY_HEADERS]
        stream = _ResponseStream(response, limit=self._limits.response_bytes)
        return httpx2.Response(status_code=response.status, headers=headers, stream=stream, request=request)


class _ResponseStream(httpx2.AsyncByteStream):
    def __init__(self, response: OutboundResponse, *, limit: int) -> None:
        self._response = response
        self._limit = limit

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for piece in self._response.iterate(self._limit):
            yield piece

    async def aclose(self) -> None:
        self._response.close()
