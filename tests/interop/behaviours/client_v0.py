"""Run by the interpreter of utcp 0.2: calls and discovers by its transports, prints the outcomes as JSON.

Standard input: a JSON list of {protocol, tool, provider, arguments}; arguments null: discover. Bytes are given in base64.
"""

import asyncio
import base64
import json
import logging
import sys
from typing import Any

from utcp.client.transport_interfaces.graphql_transport import GraphQLClientTransport
from utcp.client.transport_interfaces.http_transport import HttpClientTransport
from utcp.client.transport_interfaces.mcp_transport import MCPTransport
from utcp.client.transport_interfaces.sse_transport import SSEClientTransport
from utcp.client.transport_interfaces.streamable_http_transport import StreamableHttpClientTransport
from utcp.client.transport_interfaces.tcp_transport import TCPTransport
from utcp.client.transport_interfaces.text_transport import TextTransport
from utcp.client.transport_interfaces.udp_transport import UDPTransport
from utcp.shared import provider as models

KINDS = {
    "http": (HttpClientTransport, models.HttpProvider),
    "sse": (SSEClientTransport, models.SSEProvider),
    "http_stream": (StreamableHttpClientTransport, models.StreamableHttpProvider),
    "tcp": (TCPTransport, models.TCPProvider),
    "udp": (UDPTransport, models.UDPProvider),
    "text": (TextTransport, models.TextProvider),
    "mcp": (MCPTransport, models.MCPProvider),
    "graphql": (GraphQLClientTransport, models.GraphQLProvider),
}


def shown(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return [shown(member) for member in value] if isinstance(value, list) else value


async def outcome(case: dict[str, Any]) -> Any:
    transport, model = KINDS[case["protocol"]]
    provider = model(**case["provider"])
    client = transport()
    if case["arguments"] is None:
        return sorted(tool.name for tool in await client.register_tool_provider(provider))
    found = await client.call_tool(case["tool"], case["arguments"], provider)
    if hasattr(found, "__aiter__"):
        found = [item async for item in found]
    return shown(found)


async def main() -> None:
    logging.disable(logging.CRITICAL)
    outcomes = []
    for case in json.load(sys.stdin):
        try:
            async with asyncio.timeout(40):
                outcomes.append({"ok": await outcome(case)})
        except Exception as error:  # noqa: BLE001 - the test examines it
            outcomes.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(outcomes))


asyncio.run(main())
