"""Run by the interpreter of utcp 1.x and its plugins: client_v0.py with a 1.x client."""

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

PLUGINS = ("utcp_http", "utcp_socket", "utcp_gql", "utcp_file", "utcp_mcp")


def shown(value: Any) -> Any:
    """A result as JSON."""
    if isinstance(value, bytes):
        return {"base64": base64.b64encode(value).decode()}
    return [shown(member) for member in value] if isinstance(value, list) else value


async def outcome(client: Any, case: dict[str, Any]) -> Any:
    template = CallTemplateSerializer().validate_dict(case["provider"])
    kind = template.call_template_type
    made = CommunicationProtocol.communication_protocol_factories.get(kind)
    protocol = made() if made else CommunicationProtocol.communication_protocols[kind]
    if case["arguments"] is None:
        registered = await protocol.register_manual(client, template)
        return sorted(tool.name for tool in registered.manual.tools)
    return shown(await protocol.call_tool(client, case["tool"], case["arguments"], template))


async def main() -> None:
    logging.disable(logging.CRITICAL)
    client = await UtcpClient.create(config={})
    for plugin in PLUGINS:
        importlib.import_module(plugin).register()
    outcomes = []
    for case in json.load(sys.stdin):
        try:
            async with asyncio.timeout(40):
                outcomes.append({"ok": await outcome(client, case)})
        except Exception as error:  # noqa: BLE001 - the test examines it
            outcomes.append({"error": f"{type(error).__name__}: {error}"})
    print(json.dumps(outcomes))


asyncio.run(main())
