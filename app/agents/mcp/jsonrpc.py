"""The JSON-RPC messages of MCP: error codes, envelopes, and the two eras of the protocol."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.agents.http_messages import BytesResponse
from app.core import exact_json
from app.toolsets.mcp_tool import META_PREFIX

MODERN: Final = "2026-07-28"
LEGACY: Final = ("2025-11-25", "2025-06-18", "2024-11-05")
"""The revisions with a handshake, the latest first. That of 2024-11-05 is served over the same transport.

That of 2025-03-26 is not served, because a server of it accepts batches.
"""
LEGACY_HEADERS: Final = frozenset({*LEGACY, "2025-03-26"})
"""The values of the header MCP-Protocol-Version with which a request is one of a legacy revision."""
SERVED: Final = (MODERN, *LEGACY)

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
RESOURCE_NOT_FOUND: Final = -32002
"""Legacy revisions only; a modern client gets INVALID_PARAMS."""
HEADER_MISMATCH: Final = -32020
UNSUPPORTED_VERSION: Final = -32022

VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
SERVER_INFO_KEY: Final = "io.modelcontextprotocol/serverInfo"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
OWN_PREFIX: Final = META_PREFIX
"""The prefix of this gateway's own members of `_meta`."""

JSON: Final[tuple[bytes, bytes]] = (b"content-type", b"application/json")
NO_STORE: Final[tuple[bytes, bytes]] = (b"cache-control", b"no-store")

_NOT_MODERN_400: Final = {METHOD_NOT_FOUND: 404, INTERNAL_ERROR: 200}

Id = str | int


class RpcError(Exception):
    """An error of the protocol. `status` is the HTTP status; None: that of the code in the client's era.

    `message` and `data` are shown to clients.
    """

    def __init__(self, code: int, message: str, *, data: Any = None, status: int | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.data = data
        self.status = status

    def response(self, request_id: Id | None, *, is_modern: bool) -> BytesResponse:
        """Return the HTTP response."""
        status = self.status
        if status is None:
            status = _NOT_MODERN_400.get(self.code, 400) if is_modern else 200
        return BytesResponse(self.envelope(request_id), [JSON, NO_STORE], status_code=status)

    def envelope(self, request_id: Id | None) -> bytes:
        """Return the JSON-RPC message."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data is not None:
            error["data"] = self.data
        return exact_json.dumps({"jsonrpc": "2.0", "id": request_id, "error": error})


@dataclass(slots=True)
class RpcRequest:
    """A request that has passed all checks of its envelope. `is_modern` is its era."""

    id: Id
    method: str
    params: Mapping[str, Any]
    meta: Mapping[str, Any]
    is_modern: bool

    @property
    def progress_token(self) -> Id | None:
        """The token under which the client wants notifications of progress."""
        token = self.meta.get("progressToken")
        return token if isinstance(token, str) or type(token) is int else None


def result_envelope(request_id: Id, result: bytes) -> bytes:
    """Return the JSON-RPC message of a result, which is JSON."""
    return b'{"jsonrpc":"2.0","id":%b,"result":%b}' % (exact_json.dumps(request_id), result)
