"""Requests of every interface for agents that name a tool, or show tools: the rows of the visibility matrix.

`Named` requests are made for a tool that the key may not use and for one that does not exist: their responses
may differ by that name alone. `Shown` requests list, search or export: they may not contain what is hidden.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx2

MODERN = "2026-07-28"
LEGACY = "2025-11-25"


@dataclass(frozen=True)
class Call:
    """One request; `path` is that of the contract, below the address of the registry or of a toolset."""

    path: str
    method: str = "GET"
    url: str = ""
    body: Any = None
    headers: dict[str, str] = field(default_factory=dict)

    async def send(self, client: httpx2.AsyncClient, address: str) -> httpx2.Response:
        """Send it to an address: "" for the registry, /toolsets/NAME for a toolset."""
        return await client.request(
            self.method, f"{address}{self.url or self.path}", json=self.body, headers=self.headers
        )


def mcp(method: str, *, modern: bool = True, path: str = "/mcp", **params: Any) -> Call:
    """A request to the MCP server of an address."""
    if not modern:
        headers = {"MCP-Protocol-Version": LEGACY}
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    else:
        headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method}
        if "name" in params:
            headers["Mcp-Name"] = params["name"]
        meta = {
            "io.modelcontextprotocol/protocolVersion": MODERN,
            "io.modelcontextprotocol/clientCapabilities": {},
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    headers["Accept"] = "application/json, text/event-stream"
    return Call(path, "POST", body=body, headers=headers)


def ubp(name: str, arguments: dict[str, Any] | None = None) -> Call:
    """A command of UBP."""
    body = {"commandId": "c1", "commandName": name, "arguments": arguments or {}}
    return Call("/ubp/commands", "POST", body=body)


def meta_tool(name: str, arguments: dict[str, Any], *, modern: bool = True) -> Call:
    """A call of a meta-tool."""
    return mcp("tools/call", modern=modern, name=name, arguments=arguments)


NAMED: dict[str, Callable[[str], Call]] = {
    "search": lambda name: Call("/search", url=f"/search?q={name}&limit=50"),
    "call": lambda name: Call("/tools/{name}/call", "POST", f"/tools/{name}/call", {}),
    "dry-run": lambda name: Call("/tools/{name}/call", "POST", f"/tools/{name}/call?dry_run=true", {}),
    "mcp-call": lambda name: mcp("tools/call", name=name, arguments={}),
    "mcp-call-legacy": lambda name: mcp("tools/call", modern=False, name=name, arguments={}),
    "find_tools": lambda name: meta_tool("find_tools", {"query": name, "limit": 20}),
    "describe_tools": lambda name: meta_tool("describe_tools", {"names": [name]}),
    "call_read_tool": lambda name: meta_tool("call_read_tool", {"name": name}),
    "call_tool": lambda name: meta_tool("call_tool", {"name": name, "arguments": {}}),
    "call_tool-legacy": lambda name: meta_tool("call_tool", {"tool_name": name}, modern=False),
    "tool-calls": lambda name: tool_calls("openai-chat", [_openai(name)]),
    "tool-calls-anthropic": lambda name: tool_calls(
        "anthropic", [{"type": "tool_use", "id": "t1", "name": name, "input": {}}]
    ),
    "tool-calls-meta": lambda name: tool_calls(
        "openai-chat", [_openai("call_tool", f'{{"name": "{name}", "arguments": {{}}}}')]
    ),
}
"""Requests that name a tool, at the addresses of the registry and of toolsets."""

REGISTRY_NAMED: dict[str, Callable[[str], Call]] = {
    "get": lambda name: Call("/tools/{name}", url=f"/tools/{name}"),
    "list-q": lambda name: Call("/tools", url=f"/tools?q={name}"),
    "registry-search": lambda name: Call("/tools/search", url=f"/tools/search?q={name}&q=x"),
    "ubp-call": ubp,
    "ubp-declared": lambda name: ubp(
        "agent.register_tools", {"tools": [{"name": name, "description": "x", "parameters": []}]}
    ),
    "ubp-list-q": lambda name: ubp("agent.list_tools", {"q": name}),
}
"""Requests that only the registry has. `search` of a toolset is `/tools/search` there."""

SHOWN: dict[str, Call] = {
    "search": Call("/search", url="/search?limit=50"),
    "utcp": Call("/utcp"),
    "utcp-0": Call("/utcp", url="/utcp?version=0"),
    "mcp-list": mcp("tools/list"),
    "mcp-list-legacy": mcp("tools/list", modern=False),
    "mcp-discover": mcp("server/discover"),
    "mcp-initialize": mcp(
        "initialize",
        modern=False,
        protocolVersion=LEGACY,
        capabilities={},
        clientInfo={"name": "t", "version": "1"},
    ),
    "find_tools": meta_tool("find_tools", {"query": ["alpha", "kilo", "tools", "get"], "limit": 20}),
}
"""Requests that show tools, at the addresses of the registry and of toolsets."""

REGISTRY_SHOWN: dict[str, Call] = {
    "list": Call("/tools"),
    "registry-search": Call("/tools/search", url="/tools/search?q=alpha&q=hidden"),
    "registry-search-as-export": Call("/tools/search", url="/tools/search?q=tool&format=anthropic"),
    "utcp-direct": Call("/utcp", url="/utcp?mode=direct"),
    "ubp-list": ubp("agent.list_tools", {"q": "tool", "limit": 50}),
    "mcp-all": mcp("tools/list", path="/mcp/all"),
    "mcp-search": mcp("tools/list", path="/mcp/search"),
}
"""Such requests that only the registry has."""

EXPORT_FORMATS = (
    "openai-chat", "openai-responses", "anthropic", "gemini", "gemini-openapi", "bedrock", "mistral", "cohere",
    "ollama", "ai-sdk", "langchain", "mcp", "utcp", "json-prompt",
)  # fmt: skip


def export(file_format: str, *, is_toolset: bool) -> Call:
    """The export of the registry or of a toolset."""
    path = "/export" if is_toolset else "/tools/export"
    return Call(path, url=f"{path}?format={file_format}")


def tool_calls(file_format: str, calls: list[dict[str, Any]]) -> Call:
    """Calls as a model makes them."""
    if file_format == "anthropic":
        body: dict[str, Any] = {"role": "assistant", "content": calls}
    else:
        body = {"role": "assistant", "content": None, "tool_calls": calls}
    return Call("/tool-calls", "POST", f"/tool-calls?format={file_format}", body)


def _openai(name: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": "call_1", "type": "function", "function": {"name": name, "arguments": arguments}}
