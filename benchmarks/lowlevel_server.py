"""The official low-level MCP server (PyPI `mcp`) with the same call: its tool calls the upstream by httpx2.

`python -m benchmarks.lowlevel_server PORT UPSTREAM`: streamable HTTP at /mcp, stateless, with JSON responses,
which is the cheapest of its forms. It checks no arguments and no keys. `get_tool_input_schema` is given,
because without it each modern call walks its own list of tools.
"""

import sys
from typing import Any

import httpx2
import orjson
import uvicorn
from mcp import types
from mcp.server.lowlevel import Server
from mcp.server.transport_security import TransportSecuritySettings

from benchmarks.shape import KEY, KEY_HEADER, document, path


def server(upstream: str) -> Server[Any]:
    """Return a server with the tool `get0`."""
    client = httpx2.AsyncClient(base_url=upstream, headers={KEY_HEADER: KEY}, trust_env=False)
    operation = orjson.loads(document(1, server=upstream))["paths"][path(0)]["get"]
    schema = {
        "type": "object",
        "properties": {one["name"]: one["schema"] for one in operation["parameters"]},
        "required": [one["name"] for one in operation["parameters"] if one.get("required")],
    }
    tool = types.Tool(name="get0", description=operation["summary"], input_schema=schema)

    async def list_tools(context: Any, params: Any) -> types.ListToolsResult:  # noqa: ARG001
        return types.ListToolsResult(tools=[tool])

    async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:  # noqa: ARG001
        arguments = dict(params.arguments or {})
        response = await client.get(f"/t0/items/{arguments.pop('id')}", params=arguments)
        return types.CallToolResult(content=[types.TextContent(type="text", text=response.text)])

    return Server(
        "bench",
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        get_tool_input_schema={"get0": schema}.get,
    )


def main() -> None:
    """Serve until killed."""
    port, upstream = int(sys.argv[1]), sys.argv[2]
    app = server(upstream).streamable_http_app(
        streamable_http_path="/mcp",
        json_response=True,
        stateless_http=True,
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    uvicorn.run(app, host="127.0.0.1", port=port, log_level="warning", access_log=False)


if __name__ == "__main__":
    main()
