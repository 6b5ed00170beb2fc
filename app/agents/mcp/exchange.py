"""One request of MCP and what its methods use."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from starlette.requests import Request
from starlette.types import Receive, Scope, Send

from app.agents.http_messages import BytesResponse
from app.agents.mcp.jsonrpc import JSON, NO_STORE, RpcRequest, result_envelope
from app.agents.mcp.server import MODERN_META, McpServer
from app.api.streams.connection import Headers
from app.core import exact_json
from app.services import Services
from app.toolsets import ToolCollection
from app.toolsets.collection import ListMode


class Response(Protocol):
    """An ASGI response with a status."""

    status_code: int

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the response."""


@dataclass(slots=True)
class Exchange:
    """One request. `head` are its headers by name, `route` the template of its path; `mode` says which tools
    are listed at that path, and `toolset` is the toolset that it names.
    """

    request: Request = field(repr=False)
    head: Mapping[bytes, bytes] = field(repr=False)
    services: Services = field(repr=False)
    server: McpServer = field(repr=False)
    collection: ToolCollection
    rpc: RpcRequest
    route: str
    mode: ListMode
    toolset: str | None

    def respond(self, result: Mapping[str, Any]) -> BytesResponse:
        """Return the response with a result."""
        if self.rpc.is_modern:
            result = {**result, "resultType": "complete", "_meta": MODERN_META}
        return self.json_response(result_envelope(self.rpc.id, exact_json.dumps(result)))

    def json_response(self, message: bytes, headers: Headers | None = None) -> BytesResponse:
        """Return the response with a JSON-RPC message."""
        return BytesResponse(message, [JSON, NO_STORE, *(headers or ())])
