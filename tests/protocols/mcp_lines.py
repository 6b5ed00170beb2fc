"""A program that speaks MCP and notes what it is given: `python mcp_lines.py FILE`.

Into the file goes each line of a call, and each that is no message at all.
"""

import json
import sys
from pathlib import Path
from typing import Any

CALLS = ("tools/call", "resources/read")


def rpc_answer(message: dict[str, Any]) -> dict[str, Any] | None:
    """That of a server of MCP as of before 2026-07-28; None to a notification."""
    if "id" not in message:
        return None
    result: dict[str, Any] | None = None
    match message["method"]:
        case "initialize":
            info = {"name": "witness", "version": "1"}
            capabilities = {"tools": {}, "resources": {}}
            result = {"protocolVersion": "2025-06-18", "capabilities": capabilities, "serverInfo": info}
        case "tools/list":
            result = {"tools": [{"name": "echo", "inputSchema": {"type": "object"}}]}
        case "tools/call":
            result = {"content": [{"type": "text", "text": "1"}]}
        case "resources/read":
            result = {"contents": [{"uri": message["params"]["uri"], "text": "1"}]}
    if result is None:
        return {"jsonrpc": "2.0", "id": message["id"], "error": {"code": -32601, "message": "unknown"}}
    return {"jsonrpc": "2.0", "id": message["id"], "result": result}


def main() -> None:
    notes = Path(sys.argv[1])
    for line in sys.stdin.buffer:
        try:
            message = json.loads(line)
        except ValueError:
            message = {"method": CALLS[0], "no message": 1}
        answer = rpc_answer(message)
        if message.get("method") in CALLS:
            with notes.open("ab") as file:
                file.write(json.dumps(message).encode() + b"\n")
        if answer is not None:
            sys.stdout.write(json.dumps(answer) + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main()
