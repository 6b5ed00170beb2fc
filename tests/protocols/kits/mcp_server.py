"""An MCP server of the official SDK, as a program: `python mcp_server.py stdio FOLDER`, or `http|sse FOLDER PORT`.

What it is sent besides arguments, and what becomes of its tools, it writes into files in FOLDER.
"""

import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

import anyio
import uvicorn
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

KIND, FOLDER = sys.argv[1], Path(sys.argv[2])
server = MCPServer("kit")


def note(name: str, value: object) -> None:
    with (FOLDER / name).open("a") as file:
        file.write(json.dumps(value) + "\n")


@server.tool(structured_output=False)
async def echo(body: dict[str, Any]) -> str:
    if KIND == "stdio":
        note("seen", {f"env:{name.lower()}": value for name, value in os.environ.items()})
    return json.dumps(body)


@server.tool(structured_output=False)
async def silent(body: Any = None) -> str:
    try:
        await anyio.sleep(60)
    except BaseException:
        note("gone", 1)
        raise
    return ""


@server.tool(structured_output=False)
async def huge(body: Any = None) -> str:
    return "x" * (1 << 20)


@server.tool(structured_output=False)
async def rejects(body: Any = None) -> str:
    raise ToolError(f"no such thing {os.environ.get('X_CANARY')}")


@server.tool(structured_output=False)
async def breaks(body: Any = None) -> str:
    os._exit(3)


@server.tool(structured_output=False)
async def steps(context: Context, body: Any = None) -> str:
    for n in range(3):
        await context.report_progress(n, 3, f"step {n}")
        await anyio.sleep(0.05)
    return '{"done": true}'


@server.tool(structured_output=False)
async def reports(context: Context, values: list[float], message: str = "") -> str:
    for value in values:
        await context.report_progress(value, None, message or None)
    return '{"done": true}'


@server.tool(structured_output=False)
async def endless(context: Context) -> str:
    n = 0
    try:
        while True:
            n += 1
            await context.report_progress(n)
            await anyio.sleep(0.05)
    except BaseException:
        note("gone", 1)
        raise


class Answer(BaseModel):
    name: str


@server.tool(structured_output=False)
async def elicits(context: Context) -> str:
    return str(await context.elicit("Who?", Answer))


@server.tool()
async def structured(n: int) -> dict[str, int]:
    return {"n": n}


@server.tool()
async def wrapped(n: int) -> list[int]:
    return [n, n]


@server.tool(structured_output=False)
async def several() -> list[str]:
    return ["one", '{"two": 2}']


@server.tool(structured_output=False)
async def pid() -> str:
    return str(os.getpid())


@server.resource("kit://plain", name="plain", mime_type="text/plain")
def plain() -> str:
    return "plain text"


@server.resource("kit://of/{topic}", name="of")
def of(topic: str) -> str:
    return json.dumps({"topic": topic})


class Noting:
    """Writes down the headers and the query of each request."""

    def __init__(self, app: Any) -> None:
        self.app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            headers = {name.decode(): value.decode() for name, value in scope["headers"]}
            query = dict(pair.partition("=")[::2] for pair in scope["query_string"].decode().split("&"))
            note("seen", headers | {f"query:{name.lower()}": value for name, value in query.items()})
        await self.app(scope, receive, send)


if __name__ == "__main__":
    if KIND == "stdio":
        print("a greeting that is no message", flush=True)
        server.run("stdio")
    else:
        made = server.sse_app() if KIND == "sse" else server.streamable_http_app()
        with contextlib.suppress(KeyboardInterrupt):
            uvicorn.run(Noting(made), host="127.0.0.1", port=int(sys.argv[3]), log_level="error")
