"""The MCP server that the suite of the mcp plugin starts, and that its package does not contain.

`python mock_mcp_server.py` serves standard input and output, `python mock_http_mcp_server.py` Streamable HTTP on the port
SUITE_MCP_PORT: the suite knows these names.
"""

import os
import sys
from typing import TypedDict

from mcp.server.fastmcp import FastMCP

server = FastMCP(
    "suite", host="127.0.0.1", port=int(os.environ.get("SUITE_MCP_PORT", "0")), log_level="WARNING"
)


class Reply(TypedDict):
    """What `echo` returns."""

    reply: str


@server.tool()
def echo(message: str) -> Reply:
    """A tool that echoes back its input in a structured result."""
    return {"reply": f"you said: {message}"}


@server.tool()
def greet(name: str) -> str:
    """Greet by name."""
    return f"Hello, {name}!"


@server.tool()
def list_items(count: int) -> list[str]:
    """List that many items."""
    return [f"item_{number}" for number in range(count)]


@server.tool()
def add_numbers(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.resource("file://test_document.txt", name="get_test_document")
def document() -> str:
    """A document."""
    return "This is a test document, with one line."


@server.resource("file://config.json", name="get_config", mime_type="application/json")
def config() -> str:
    """A configuration."""
    return '{"name": "test_config", "level": 3}'


if __name__ == "__main__":
    server.run("streamable-http" if "http" in sys.argv[0].rpartition("/")[2] else "stdio")
