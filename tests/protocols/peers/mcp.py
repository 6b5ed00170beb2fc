"""An MCP peer over Streamable HTTP with the handshake of 2025-11-25, which may also respond against the protocol.

Servers of the official SDK, which are programs, are in `kits/mcp.py`.
"""

from typing import Any

import orjson
from aiohttp import web

from tests.protocols.peers.http import HttpPeer


class McpPeer(HttpPeer):
    """A server with sessions `s1`, `s2`, ..."""

    def __init__(self) -> None:
        super().__init__(self._respond)
        self.messages: list[tuple[str, str]] = []
        """The method and the session of each message."""
        self.sessions = 0
        self.unknown_session_responses = 0
        """How many of the next calls are responded to as if their session had expired."""
        self.status = 200
        self.tools: list[Any] = []
        self.result: Any = {"content": [{"type": "text", "text": "ok"}]}

    def template(self, tool: str = "x") -> dict[str, Any]:
        """The call template of a tool of this peer."""
        servers = {"p": {"url": f"{self.url}/mcp"}}
        return {"call_template_type": "mcp", "tool_name": tool, "config": {"mcpServers": servers}}

    async def _respond(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = orjson.loads(self.requests[-1].body)
        method, session = message["method"], request.headers.get("Mcp-Session-Id", "")
        self.messages.append((method, session))
        if self.status in (301, 307):
            raise web.HTTPTemporaryRedirect("/mcp/other")
        if self.status != 200:
            return web.json_response({"detail": "secret-of-the-peer"}, status=self.status)
        if method == "server/discover":
            return web.json_response({"detail": "no session"}, status=400)
        if "id" not in message:
            return web.Response(status=202)
        headers = {}
        result = self.result
        if method == "initialize":
            self.sessions += 1
            headers = {"Mcp-Session-Id": f"s{self.sessions}", "Set-Cookie": "a=b"}
            info = {"name": "peer", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif self.unknown_session_responses:
            self.unknown_session_responses -= 1
            return web.Response(status=404)
        elif method == "tools/list":
            result = {"tools": self.tools}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)
