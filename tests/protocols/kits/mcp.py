"""MCP servers of the official SDK, as programs: over Streamable HTTP, SSE, and standard input and output."""

import asyncio
import contextlib
import json
import sys
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tests.protocols.kits.base import Kit, Template, Upstream, free_port

SCRIPT = Path(__file__).with_name("mcp_server.py")


class McpUpstream(Upstream):
    """A server; `place` is its URL, or the folder of one that is started at each session."""

    folder: Path
    process: asyncio.subprocess.Process | None = None

    @property
    def seen(self) -> list[dict[str, str]]:  # type: ignore[override]
        return self.noted("seen")

    @seen.setter
    def seen(self, value: object) -> None:
        pass

    def noted(self, name: str) -> list[Any]:
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    async def watch(self) -> None:
        while not self.noted("gone"):  # noqa: ASYNC110 - another process sets no event.
            await asyncio.sleep(0.02)
        self.gone.set()


@contextlib.asynccontextmanager
async def mcp_server(kind: str) -> AsyncIterator[McpUpstream]:
    """A running server; one of kind stdio is started by its client."""
    upstream = McpUpstream("")
    with tempfile.TemporaryDirectory() as folder:
        upstream.folder = Path(folder)
        watching = asyncio.create_task(upstream.watch())
        process = None
        if kind != "stdio":
            port = free_port()
            command = (sys.executable, "-P", str(SCRIPT), kind, folder, str(port))
            process = upstream.process = await asyncio.create_subprocess_exec(*command)
            upstream.place = f"http://127.0.0.1:{port}/{'sse' if kind == 'sse' else 'mcp'}"
            async with asyncio.timeout(60):
                while not await listens(upstream.place):  # noqa: ASYNC110 - a process has no event.
                    await asyncio.sleep(0.05)
        try:
            yield upstream
        finally:
            watching.cancel()
            if process is not None:
                with contextlib.suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


async def listens(url: str) -> bool:
    """Whether a server accepts connections at the port of this URL."""
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection("127.0.0.1", urlsplit(url).port)
        writer.close()
        return True
    return False


class McpKit(Kit):
    protocol = "mcp"
    cases = frozenset({"echo", "silent", "breaks", "huge", "rejects", "unreachable"})
    places = (
        "header",
        "query",
        "cookie",
        "/config/mcpServers/kit/headers/X-Canary",
        "/config/mcpServers/kit/query/X-Canary",
    )

    running: McpUpstream | None = None

    def serve(self) -> contextlib.AbstractAsyncContextManager[Upstream]:
        return mcp_server("http")  # type: ignore[return-value]

    @contextlib.asynccontextmanager
    async def anew(self, stack: contextlib.AsyncExitStack) -> AsyncIterator[Upstream]:
        """The same process, which takes two seconds to start; a new one after a test has ended it."""
        server = self.running
        if server is None or not await listens(server.place):
            server = self.running = await stack.enter_async_context(mcp_server("http"))
        for note in server.folder.iterdir():
            note.unlink()
        upstream = McpUpstream(server.place)
        upstream.folder = server.folder
        watching = asyncio.create_task(upstream.watch())
        yield upstream
        watching.cancel()

    def template(self, upstream: Upstream, case: str) -> Template:
        url = f"http://127.0.0.1:{free_port()}/mcp" if case == "unreachable" else upstream.place
        server = {"transport": "http", "url": url, "headers": {"X-Canary": ""}, "query": {"X-Canary": ""}}
        return {"call_template_type": "mcp", "tool_name": case, "config": {"mcpServers": {"kit": server}}}

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "echo")

    def addresses(self, text: str) -> list[Template]:
        return [
            {"call_template_type": "mcp", "tool_name": "x",
             "config": {"mcpServers": {"kit": {"transport": kind, "url": f"http://{text}/mcp"}}}}
            for kind in ("http", "sse")
        ]  # fmt: skip

    def arguments(self) -> dict[str, Any]:
        return {"body": super().arguments()}

    def echoed(self, body: bytes) -> Any:
        return {"body": json.loads(body)}

    def found(self, seen: dict[str, str], place: str) -> str | None:
        return super().found(
            seen, "query" if "query" in place else "cookie" if place == "cookie" else "header"
        )
