"""A reasoning agent: its model decides on commands, which executors execute that the gateway chooses.

agent.py PROMPT
"""

import asyncio
import json
import os
import sys
from typing import Any
from uuid import uuid4

from utcp_gateway_client.loop import run
from utcp_gateway_client.tools import Tool, ToolError
from websockets.asyncio.client import ClientConnection, connect

GATEWAY = os.environ["UTCP_GATEWAY_URL"]
KEY = os.environ["UTCP_GATEWAY_KEY"]
MODEL = os.environ.get("MODEL", "gpt-5")


class Orchestrator:
    """The gateway, which routes commands to their executors, at the other end of a connection."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._lock = asyncio.Lock()

    async def command(self, name: str, arguments: dict[str, Any], **metadata: str) -> Any:
        """Send a CommandRequest, and return the result of its response; raise ToolError for an error."""
        request = {
            "commandId": str(uuid4()),
            "commandName": name,
            "arguments": arguments,
            "metadata": metadata,
        }
        async with self._lock:
            await self._socket.send(json.dumps({"messageId": str(uuid4()), "commandRequest": request}))
            while True:
                message = json.loads(await self._socket.recv())
                response = message.get("commandResponse", {})
                if response.get("commandId") == request["commandId"]:
                    break
        if response["status"] != "SUCCESS":
            raise ToolError(f"{response['status']}: {response.get('error', '')}")
        return response["result"]["value"]


def definition(offered: Tool[..., Any]) -> dict[str, Any]:
    """Return a tool as a ToolDefinition, whose parameters are flat."""
    schema = offered.argument_schema
    parameters = [
        {
            "name": name,
            "type": parameter["type"],
            "description": parameter.get("description", ""),
            "required": name in schema["required"],
        }
        for name, parameter in schema["properties"].items()
    ]
    return {"name": offered.name, "description": offered.description, "parameters": parameters}


async def main(prompt: str) -> None:
    """Answer a prompt."""
    headers = {"Authorization": f"Bearer {KEY}"}
    async with connect(GATEWAY.replace("http", "ws", 1) + "/ubp", additional_headers=headers) as socket:
        orchestrator = Orchestrator(socket)

        async def get_order_status(order_id: int) -> str:
            """Return the status of an order.

            Args:
                order_id: The number of the order
            """
            return str(await orchestrator.command("get_order_status", {"order_id": order_id}))

        await orchestrator.command(
            "agent.register_tools", {"tools": [definition(Tool(get_order_status))]}, role="reasoner"
        )
        result = await run(prompt, model=MODEL, tools=get_order_status)
    print(result.text)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
