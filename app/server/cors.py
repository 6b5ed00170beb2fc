"""Cross-origin requests of web pages (Fetch standard, "CORS protocol"), with the headers of MCP clients."""

import copy
import re
from typing import Final

from starlette.datastructures import Headers
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import Response

_ALLOWED: Final = "Access-Control-Allow-Headers"
_PARAMETER: Final = re.compile(r"mcp-param-[!#$%&'*+.^_`|~0-9a-z-]{1,100}")


class McpCorsMiddleware(CORSMiddleware):
    """Allows the headers of `allow_headers`, and each `Mcp-Param-*` that a preflight request names.

    The tools decide what these are called (`x-mcp-header`), so no list can have them. They only repeat
    arguments, with which they are compared, so allowing them allows nothing else.
    """

    def preflight_response(self, request_headers: Headers) -> Response:
        """Return the response to a preflight request: 200, or 400 for what is not allowed."""
        requested = request_headers.get("access-control-request-headers", "").lower().split(",")
        names = sorted({name for one in requested if _PARAMETER.fullmatch(name := one.strip())})
        if not names:
            return super().preflight_response(request_headers)
        extended = copy.copy(self)
        extended.allow_headers = [*self.allow_headers, *names]
        allowed = ", ".join((self.preflight_headers[_ALLOWED], *names))
        extended.preflight_headers = {**self.preflight_headers, _ALLOWED: allowed}
        return CORSMiddleware.preflight_response(extended, request_headers)
