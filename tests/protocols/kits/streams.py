"""`sse` and `streamable_http`, and content that nobody serves: `text` and `file`."""

import contextlib
import tempfile
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
from aiohttp import web

from tests.harness.beside import web_server
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port
from tests.protocols.kits.http import HttpKit, respond

FOLDER = Path(tempfile.mkdtemp(prefix="opened-"))


class StreamableHttpKit(HttpKit):
    protocol = "streamable_http"

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"http://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        return {
            "call_template_type": "streamable_http", "http_method": "POST", "url": f"{base}/{case}",
            "body_field": "body",
        }  # fmt: skip

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "streamable_http", "url": f"{upstream.place}/utcp"}

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": "streamable_http", "url": f"http://{text}/"}]

    def echoed(self, body: bytes) -> Any:
        found = orjson.loads(body)
        return {"body": found[0] if isinstance(found, list) else found}


class SseKit(Kit):
    protocol = "sse"
    places = ("header", "query", "cookie")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")

        async def handle(request: web.Request) -> web.StreamResponse:
            match request.match_info["case"]:
                case "echo":
                    upstream.seen.append({name.lower(): value for name, value in request.headers.items()})
                    query = {f"query:{name.lower()}": value for name, value in request.query.items()}
                    upstream.seen[-1] |= query
                    text = (await request.read()).decode()
                    return web.Response(text=f"data: {text}\n\n", content_type="text/event-stream")
                case "huge":
                    return web.Response(text=f"data: {'x' * HUGE}\n\n", content_type="text/event-stream")
            return await respond(request, upstream, media="text/event-stream", end="\n\n")

        application = web.Application(client_max_size=HUGE)
        application.router.add_route("*", "/{case:.*}", handle)
        async with web_server(application, handler_cancellation=True) as upstream.place:
            yield upstream

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"http://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        return {"call_template_type": "sse", "url": f"{base}/{case}", "body_field": "body"}

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "sse", "url": f"{upstream.place}/utcp"}

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": "sse", "url": f"http://{text}/"}]

    def arguments(self) -> dict[str, Any]:
        return {"body": super().arguments()}

    def echoed(self, body: bytes) -> Any:
        found = orjson.loads(body)
        return {"body": found[0] if isinstance(found, list) else found}


MANUAL = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [{"name": "echo"}]}


class _Content(Kit):
    cases = frozenset()
    places = ()

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        (FOLDER / "manual.json").write_bytes(orjson.dumps(MANUAL))
        yield Upstream(FOLDER / "manual.json")


class TextKit(_Content):
    protocol = "text"

    def template(self, upstream: Upstream, case: str) -> Template:
        return {"call_template_type": "text", "content": upstream.place.read_text()}

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "")


class FileKit(_Content):
    protocol = "file"

    def template(self, upstream: Upstream, case: str) -> Template:
        return {"call_template_type": "file", "file_path": str(upstream.place)}

    def discovery(self, upstream: Upstream) -> Template:
        return self.template(upstream, "")
