"""Run by the interpreter that has utcp 1.x and its plugins: calls tools by their templates, prints JSON.

Argument: a JSON list of {protocol, tool, template, arguments, variables}. Bytes are given in base64.
"""

import asyncio
import base64
import importlib
import json
import logging
import sys
from typing import Any

from utcp.data.call_template import CallTemplateSerializer
from utcp.interfaces.communication_protocol import CommunicationProtocol
from utcp.utcp_client import UtcpClient

PLUGINS = (
    "utcp_http", "utcp_socket", "utcp_text", "utcp_file", "utcp_cli", "utcp_websocket", "utcp_gql", "utcp_mcp",
)  # fmt: skip


def shown(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    if isinstance(value, list):
        return [shown(member) for member in value]
    if hasattr(value, "model_dump"):
        return value.model_dump()
    return value


async def main(cases: list[dict[str, Any]]) -> None:
    logging.disable(logging.CRITICAL)
    client = await UtcpClient.create(config={})
    for plugin in PLUGINS:
        importlib.import_module(plugin).register()
    results = []
    for case in cases:
        try:
            template = CallTemplateSerializer().validate_dict({"name": "m", **case["template"]})
            made = CommunicationProtocol.communication_protocol_factories.get(case["protocol"])
            protocol = made() if made else CommunicationProtocol.communication_protocols[case["protocol"]]
            async with asyncio.timeout(30):
                found = await protocol.call_tool(client, case["tool"], case["arguments"], template)
            results.append({"ok": shown(found)})
        except Exception as error:  # noqa: BLE001 - the test examines it
            results.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(results))


asyncio.run(main(json.loads(sys.argv[1])))
