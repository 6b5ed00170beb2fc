"""HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import orjson
from aiohttp import web

from tests.harness.beside import web_server
from tests.protocols.kits.base import HUGE, Kit, Template, Upstream, free_port


class HttpKit(Kit):
    protocol = "http"
    cases = Kit.cases
    places = ("header", "query", "cookie")

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[Upstream]:
        upstream = Upstream("")

        async def handle(request: web.Request) -> web.StreamResponse:
            return await respond(request, upstream)

        application = web.Application(client_max_size=HUGE)
        application.router.add_route("*", "/{case:.*}", handle)
        async with web_server(application, handler_cancellation=True) as upstream.place:
            yield upstream

    def template(self, upstream: Upstream, case: str) -> Template:
        base = f"http://127.0.0.1:{free_port()}" if case == "unreachable" else upstream.place
        return {"call_template_type": "http", "http_method": "POST", "url": f"{base}/{case}"}

    def discovery(self, upstream: Upstream) -> Template:
        return {"call_template_type": "http", "url": f"{upstream.place}/utcp"}

    def addresses(self, text: str) -> list[Template]:
        return [{"call_template_type": "http", "url": f"http://{text}/"}]

    def arguments(self) -> dict[str, Any]:
        return {"body": super().arguments()}

    def echoed(self, body: bytes) -> Any:
        return {"body": orjson.loads(body)}


async def respond(
    request: web.Request, upstream: Upstream, *, media: str = "application/x-ndjson", end: str = "\n"
) -> web.StreamResponse:
    """Respond as every protocol over HTTP does; `media`, `end`: how its stream is written."""
    seen = {name.lower(): value for name, value in request.headers.items()}
    upstream.seen.append(seen | {f"query:{name.lower()}": value for name, value in request.query.items()})
    case = request.match_info["case"]
    match case:
        case "utcp":
            template = {"call_template_type": "http", "http_method": "POST", "url": f"{upstream.place}/echo"}
            tool = {"name": "echo", "description": "", "inputs": {}, "tool_call_template": template}
            return web.json_response({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]})
        case "echo":
            return web.Response(body=await request.read(), content_type="application/json")
        case "rejects":
            return web.json_response({"detail": "no such thing"}, status=404)
        case "huge":
            return web.Response(body=b'"' + b"x" * HUGE + b'"', content_type="application/json")
    response = web.StreamResponse(headers={"Content-Type": media})
    try:
        if case == "silent":
            await asyncio.sleep(60)
        await response.prepare(request)
        if case == "breaks":
            await response.write(b'data: {"n": 0}' if "event" in media else b'{"n": 0')
            request.transport.abort()
            return response
        prefix = "data: " if "event" in media else ""
        for n in range(3) if case == "stream" else iter(int, 1):
            number = n if case == "stream" else upstream.sent
            padding = "" if case == "stream" else "x" * 4096
            await response.write(f'{prefix}{{"n": {number}, "p": "{padding}"}}{end}'.encode())
            upstream.sent += 1
            if case == "stream":
                await asyncio.sleep(0.05)
    except (ConnectionError, asyncio.CancelledError):
        upstream.gone.set()
        raise
    return response
