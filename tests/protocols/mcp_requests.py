"""A program that speaks MCP, and sends a request of its own before it responds to a call: `python mcp_requests.py`.

The tool `asks` sends the request of the method in its argument `method`, waits for the response, and returns it as the
content of an error; with `"as_result": true`, as its result. The tool `waits` sends it, too, and never responds.
"""

import json
import sys
from typing import Any

PARAMS: dict[str, Any] = {
    "elicitation/create": {"message": "Who?", "requestedSchema": {"type": "object", "properties": {}}},
    "sampling/createMessage": {"messages": [], "maxTokens": 10},
    "roots/list": {},
    "ping": {},
}


def send(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def read() -> dict[str, Any]:
    line = sys.stdin.readline()
    return json.loads(line) if line else sys.exit()


def call(message: dict[str, Any]) -> None:
    params = message["params"]
    method = params["arguments"]["method"]
    send({"id": "of-the-server", "method": method, "params": PARAMS.get(method, {})})
    while (answer := read()).get("id") != "of-the-server":
        pass
    if params["name"] == "asks":
        content = [{"type": "text", "text": json.dumps(answer)}]
        is_error = not params["arguments"].get("as_result")
        send({"id": message["id"], "result": {"content": content, "isError": is_error}})


def main() -> None:
    while True:
        message = read()
        match message.get("method"):
            case "initialize":
                info = {"name": "asking", "version": "1"}
                version = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": info}
                send({"id": message["id"], "result": version})
            case "tools/list":
                tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("asks", "waits")]
                send({"id": message["id"], "result": {"tools": tools}})
            case "tools/call":
                call(message)
            case _ if "id" in message and "method" in message:
                send({"id": message["id"], "error": {"code": -32601, "message": "unknown"}})


if __name__ == "__main__":
    main()
