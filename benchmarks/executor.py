"""An executor of UBP that responds to each command with the body of the upstream.

    python -m benchmarks.executor PORT GATEWAY KEY

It listens on PORT of 127.0.0.1 once its command is registered at the gateway.
"""

import asyncio
import sys
from typing import Any

import orjson
import websockets

from benchmarks.shape import RESPONSE_BODY

NAME = "bench-executor"
COMMAND = "get_item"
TOOL = f"{NAME}.{COMMAND}"

_VALUE = "type.googleapis.com/google.protobuf.Value"
_RESULT = {"@type": _VALUE, "value": orjson.loads(RESPONSE_BODY)}
_DEFINITION = {
    "name": COMMAND,
    "description": "Return an item.",
    "parameters": [
        {"name": "id", "type": "integer", "description": "The id.", "required": True},
        {"name": "q", "type": "string", "description": "A text.", "required": False},
        {"name": "limit", "type": "integer", "description": "A number.", "required": False},
    ],
}
_REGISTRATION = {
    "messageId": "registration",
    "commandRequest": {
        "commandId": "registration",
        "commandName": "agent.register_tools",
        "arguments": {"tools": [_DEFINITION]},
        "metadata": {"role": "executor", "executor": NAME, "max_commands": "1000", "reply_to": "true"},
    },
}


async def main() -> None:
    """Register, listen, and respond until the gateway closes the connection."""
    port, gateway, key = int(sys.argv[1]), sys.argv[2], sys.argv[3]
    url = gateway.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": f"Bearer {key}"}
    async with websockets.connect(url, additional_headers=headers, proxy=None) as socket:
        await socket.send(orjson.dumps(_REGISTRATION).decode())
        response = orjson.loads(await socket.recv())["commandResponse"]
        if response["status"] != "SUCCESS":
            raise SystemExit(f"The command was not registered: {response}")
        async with await asyncio.start_server(_close, "127.0.0.1", port):
            async for text in socket:
                message = orjson.loads(text)
                if "commandRequest" in message:
                    await socket.send(orjson.dumps(_response(message)).decode())


def _response(message: dict[str, Any]) -> dict[str, Any]:
    response = {
        "commandId": message["commandRequest"]["commandId"],
        "status": "SUCCESS",
        "result": _RESULT,
    }
    return {"commandResponse": response, "metadata": {"reply_to": message["messageId"]}}


async def _close(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Close a connection: that the port is open says that the command is registered."""
    writer.close()


if __name__ == "__main__":
    asyncio.run(main())
