"""Responses to requests of web pages that are admitted, by the headers of the CORS protocol (Fetch standard).

Pages of CORS_ORIGINS are served by a middleware, for every route; these are pages of loopback and of the
gateway's own public URL, which `OriginCheck` admits besides.
"""

from collections.abc import Mapping
from typing import Final

from starlette.types import Message, Receive, Scope, Send

from app.agents.http_messages import BytesResponse
from app.agents.mcp.exchange import Response
from app.api.streams.connection import Headers
from app.api.streams.cross_origin import ALLOWED_HEADERS, EXPOSED_HEADERS, parameter_headers

_SECONDS: Final = b"600"
_EXPOSED: Final = (b"access-control-expose-headers", ", ".join(EXPOSED_HEADERS).encode())


class CrossOriginResponse:
    """A response with the headers that let a page read it."""

    __slots__ = ("_headers", "_response", "status_code")

    def __init__(self, response: Response, headers: Headers) -> None:
        self._response = response
        self._headers = headers
        self.status_code = response.status_code

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""
        await self._response(scope, receive, with_headers(send, self._headers))


def with_headers(send: Send, headers: Headers) -> Send:
    """Return `send`, which adds the headers to the head of a response."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], *headers]}
        await send(message)

    return send_with_headers


def response_headers(origin: bytes) -> Headers:
    """Return the headers of a response to a page of an origin that is admitted."""
    return [(b"access-control-allow-origin", origin), (b"vary", b"Origin"), _EXPOSED]


def preflight_response(origin: bytes, head: Mapping[bytes, bytes]) -> BytesResponse:
    """Return the response to a preflight request of a page that is admitted."""
    requested = head.get(b"access-control-request-headers", b"").decode("latin-1")
    allowed = ", ".join((*ALLOWED_HEADERS, *parameter_headers(requested)))
    headers: Headers = [
        (b"access-control-allow-origin", origin),
        (b"access-control-allow-methods", b"POST"),
        (b"access-control-allow-headers", allowed.encode()),
        (b"access-control-max-age", _SECONDS),
        (b"vary", b"Origin, Access-Control-Request-Headers"),
    ]
    return BytesResponse(b"", headers, status_code=204)
