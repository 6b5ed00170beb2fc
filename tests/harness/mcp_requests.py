"""Raw requests of MCP: every header and member can be left out or replaced."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx2

MODERN = "2026-07-28"
VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"
_NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


@dataclass(slots=True)
class McpClient:
    """Sends requests to `path` with the key of `http`."""

    http: httpx2.AsyncClient
    path: str = "/mcp"

    async def modern(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        meta: Mapping[str, Any] | None = None,
        headers: Mapping[str, str | None] | None = None,
        request_id: Any = 1,
    ) -> httpx2.Response:
        """Send a request of 2026-07-28; a header that is None is not sent."""
        params = dict(params or {})
        params["_meta"] = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}, **(meta or {})}
        all_headers: dict[str, str | None] = {
            "MCP-Protocol-Version": MODERN,
            "Mcp-Method": method,
            "Accept": "application/json, text/event-stream",
        }
        named = params.get(_NAMED.get(method, ""))
        if isinstance(named, str):
            all_headers["Mcp-Name"] = named
        all_headers |= headers or {}
        body = {"jsonrpc": "2.0", "id": request_id, "method": method, "params": params}
        return await self.raw(json.dumps(body), all_headers)

    async def legacy(
        self,
        method: str,
        params: Mapping[str, Any] | None = None,
        *,
        version: str | None = "2025-11-25",
        headers: Mapping[str, str | None] | None = None,
        request_id: Any = 1,
    ) -> httpx2.Response:
        """Send a request of a revision with a handshake."""
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": request_id, "method": method}
        if params is not None:
            body["params"] = dict(params)
        all_headers: dict[str, str | None] = {"MCP-Protocol-Version": version, **(headers or {})}
        return await self.raw(json.dumps(body), all_headers)

    async def raw(
        self, body: str | bytes, headers: Mapping[str, str | None] | None = None
    ) -> httpx2.Response:
        """Send a body as it is."""
        sent = {"Content-Type": "application/json", **(headers or {})}
        return await self.http.post(
            self.path,
            content=body,
            headers={name: value for name, value in sent.items() if value is not None},
        )


def error_of(response: httpx2.Response) -> tuple[int, int]:
    """Return the HTTP status and the code of a JSON-RPC error."""
    return response.status_code, response.json()["error"]["code"]
