"""Cross-origin requests of web pages of CORS_ORIGINS, with the headers of MCP clients."""

import copy
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.agents.mcp.origin_check import is_loopback_origin
from app.api.streams.cross_origin import parameter_headers

_ALLOWED: Final = "Access-Control-Allow-Headers"


class McpCorsMiddleware(CORSMiddleware):
    """Allows the headers of `allow_headers`, and each `Mcp-Param-*` that a preflight request names.

    Requests of pages of loopback are passed on: the addresses of MCP admit these, too.
    """

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Respond to a preflight request, add headers to the response of any other; see ASGI."""
        if scope["type"] == "http":
            origin = Headers(scope=scope).get("origin", "")
            if is_loopback_origin(origin.lower()) and not self.is_allowed_origin(origin=origin):
                await self.app(scope, receive, send)
                return
        await super().__call__(scope, receive, send)

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request: 200, or 400 for what is not allowed."""
        names = parameter_headers(request_headers.get("access-control-request-headers", ""))
        if not names:
            return super().preflight_response(request_headers)
        extended = copy.copy(self)
        extended.allow_headers = [*self.allow_headers, *names]
        allowed = ", ".join((self.preflight_headers[_ALLOWED], *names))
        extended.preflight_headers = {**self.preflight_headers, _ALLOWED: allowed}
        return CORSMiddleware.preflight_response(extended, request_headers)
