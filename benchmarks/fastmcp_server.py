"""FastMCP serving an OpenAPI document; runs in a virtual environment of its own.

`python fastmcp_server.py PORT DOCUMENT KEY_HEADER KEY`: streamable HTTP below /mcp with plain JSON responses,
which is the cheaper of its two forms. It imports nothing of this project.
"""

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import httpx2
from fastmcp import FastMCP


async def main(document: dict[str, Any]) -> None:
    """Serve until killed."""
    client = httpx2.AsyncClient(
        base_url=document["servers"][0]["url"], headers={sys.argv[3]: sys.argv[4]}, trust_env=False
    )
    server = FastMCP.from_openapi(document, client=client, name="bench")
    await server.run_http_async(
        show_banner=False,
        transport="http",
        host="127.0.0.1",
        port=int(sys.argv[1]),
        json_response=True,
        log_level="warning",
        uvicorn_config={"access_log": False},
    )


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[2]).read_text())))
