"""The upstreams of the behaviours: servers on loopback in a thread of their own, one for each manner to respond."""

import asyncio
import contextlib
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import orjson
from aiohttp import web
from graphql import build_schema, graphql_sync

_DISCOVERY = {"type": "utcp"}
_SCHEMA = """
type Query { hello: String!, greet(name: String): String, fails: String }
type Mutation { rename(to: String): String }
"""
TOOL: dict[str, Any] = {
    "name": "echo", "description": "Echo.", "inputs": {"type": "object", "properties": {}}, "outputs": {"type": "object"},
    "tags": ["t"],
}  # fmt: skip


def manual(protocol: str, port: int) -> dict[str, Any]:
    """A 0.x manual with one tool at this port."""
    provider = {"provider_type": protocol, "name": "p", "host": "127.0.0.1", "port": port}
    return {"version": "0.2.3", "tools": [{**TOOL, "tool_provider": provider}]}


class Framing:
    """How a TCP upstream frames messages: reads one, and writes one."""

    def __init__(
        self, kind: str, *, width: int = 4, endian: Any = "big", delimiter: bytes = b"\x00", length: int = 16
    ) -> None:
        self.kind, self.width, self.endian, self.delimiter, self.length = (
            kind,
            width,
            endian,
            delimiter,
            length,
        )

    async def read(self, reader: asyncio.StreamReader) -> bytes:
        if self.kind == "length_prefix":
            size = int.from_bytes(await reader.readexactly(self.width), self.endian)
            return await reader.readexactly(size)
        if self.kind == "delimiter":
            return (await reader.readuntil(self.delimiter)).removesuffix(self.delimiter)
        return await reader.read(65_536)

    def written(self, message: bytes) -> bytes:
        if self.kind == "length_prefix":
            return len(message).to_bytes(self.width, self.endian) + message
        if self.kind == "delimiter":
            return message + self.delimiter
        if self.kind == "fixed_length":
            return message.ljust(self.length)[: self.length]
        return message


def reply(request: bytes, manner: str, port: int, protocol: str) -> bytes:
    """What an upstream of this manner responds to a message."""
    with contextlib.suppress(orjson.JSONDecodeError):
        if orjson.loads(request) == _DISCOVERY:
            return b"no manual" if manner == "garbage" else orjson.dumps(manual(protocol, port))
    match manner:
        case "latin-1":
            return "größe".encode("latin-1")
        case "long":
            return b"x" * 5_000
        case "empty":
            return b""
    return b"got " + request


class Sockets:
    """Ports of TCP and UDP upstreams, each opened when a behaviour first needs it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._ports: dict[tuple[Any, ...], int] = {}
        self._servers: list[Any] = []

    def port(self, protocol: str, manner: str, **framing: Any) -> int:
        """The port of an upstream with this protocol, manner and framing."""
        key = (protocol, manner, *sorted(framing.items()))
        if key not in self._ports:
            opened = self._tcp(manner, framing) if protocol == "tcp" else self._udp(manner)
            self._ports[key] = asyncio.run_coroutine_threadsafe(opened, self._loop).result(10)
        return self._ports[key]

    async def _tcp(self, manner: str, options: dict[str, Any]) -> int:
        framing = Framing(**{"kind": "stream", **options})
        port = 0

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
                request = await framing.read(reader)
                if manner == "silent":
                    await reader.read()
                elif manner == "cut":
                    writer.write(framing.written(b"a whole message")[:6])
                else:
                    writer.write(framing.written(reply(request, manner, port, "tcp")))
                await writer.drain()
            writer.close()

        server = await asyncio.start_server(serve, "127.0.0.1", 0)
        port = int(server.sockets[0].getsockname()[1])
        self._servers.append(server)
        return port

    async def _udp(self, manner: str) -> int:
        class Responder(asyncio.DatagramProtocol):
            def connection_made(self, transport: Any) -> None:
                self.transport = transport

            def datagram_received(self, data: bytes, address: Any) -> None:
                own = self.transport.get_extra_info("sockname")[1]
                if manner == "silent":
                    return
                found = reply(data, manner, own, "udp")
                for piece in (found, b" second", b" third")[: 3 if manner == "three" else 1]:
                    self.transport.sendto(piece, address)

        transport, _ = await self._loop.create_datagram_endpoint(Responder, local_addr=("127.0.0.1", 0))
        self._servers.append(transport)
        port: int = transport.get_extra_info("sockname")[1]
        return port

    def close(self) -> None:
        """Close all servers; runs in the loop."""
        for server in self._servers:
            server.close()


def _graphql() -> Any:
    schema = build_schema(_SCHEMA)
    fields: Any = schema.query_type.fields  # type: ignore[union-attr]
    fields["hello"].resolve = lambda *_: "world"
    fields["greet"].resolve = lambda _root, _info, name=None: f"Hello, {name}!"

    def fails(*_: Any) -> str:
        raise ValueError("it failed")

    fields["fails"].resolve = fails
    schema.mutation_type.fields["rename"].resolve = lambda _root, _info, to=None: to  # type: ignore[union-attr]
    return schema


class Http:
    """The HTTP upstream. `/echo` responds with what it was sent, `/private/...` only with a credential."""

    def __init__(self) -> None:
        self._schema = _graphql()
        self.origin = ""

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_route("*", "/echo", self.echo)
        app.router.add_route("*", "/echo/{rest:.*}", self.echo)
        app.router.add_route("*", "/private/{kind}", self.private)
        app.router.add_post("/token", self.token)
        app.router.add_post("/token-basic", self.token_basic)
        app.router.add_route("*", "/status/{code}", self.status)
        app.router.add_get("/text", self.text)
        app.router.add_get("/manual", self.manual)
        app.router.add_get("/openapi.json", self.document)
        app.router.add_route("*", "/events", self.events)
        app.router.add_get("/private-events/{kind}", self.private_events)
        app.router.add_get("/lines", self.lines)
        app.router.add_get("/bytes", self.bytes)
        app.router.add_get("/json", self.json)
        app.router.add_post("/graphql", self.graphql)
        app.router.add_post("/private-graphql/{kind}", self.private_graphql)
        return app

    async def echo(self, request: web.Request) -> web.Response:
        body = await request.text()
        given = {name: value for name, value in request.headers.items() if name.lower().startswith("x-")}
        query = [[name, value] for name, value in request.query.items()]
        found = {
            "method": request.method, "path": request.path, "query": sorted(query),
            "headers": {name.lower(): value for name, value in given.items() if name.lower() != "x-call-id"},
            "body": json.loads(body) if body else None,
        }  # fmt: skip
        return web.json_response(found)

    @staticmethod
    def is_allowed(request: web.Request) -> bool:
        match request.match_info["kind"]:
            case "header":
                return request.headers.get("X-Key") == "k-1"
            case "query":
                return request.query.get("key") == "k-1"
            case "cookie":
                return request.cookies.get("key") == "k-1"
            case "basic":
                return request.headers.get("Authorization") == "Basic dXNlcjpwYXNz"
            case _:
                return request.headers.get("Authorization") == "Bearer token-1"

    async def private(self, request: web.Request) -> web.Response:
        if not self.is_allowed(request):
            return web.json_response({"error": "no"}, status=401)
        return web.json_response({"ok": request.match_info["kind"]})

    async def token(self, request: web.Request) -> web.Response:
        form = await request.post()
        if (form.get("client_id"), form.get("client_secret")) != ("id", "secret"):
            return web.json_response({"error": "invalid_client"}, status=401)
        return web.json_response({"access_token": "token-1", "token_type": "Bearer", "expires_in": 60})

    async def token_basic(self, request: web.Request) -> web.Response:
        if request.headers.get("Authorization") != "Basic aWQ6c2VjcmV0":
            return web.json_response({"error": "invalid_client"}, status=401)
        return web.json_response({"access_token": "token-1", "token_type": "Bearer", "expires_in": 60})

    async def status(self, request: web.Request) -> web.Response:
        return web.json_response({"error": "said so"}, status=int(request.match_info["code"]))

    async def manual(self, request: web.Request) -> web.Response:
        is_v1 = "v1" in request.query
        template = {"name": "p", "http_method": "GET", "url": f"{self.origin}/echo"}
        if is_v1:
            tool = {**TOOL, "tool_call_template": {**template, "call_template_type": "http"}}
            return web.json_response({"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": [tool]})
        tool = {**TOOL, "tool_provider": {**template, "provider_type": "http"}}
        return web.json_response({"version": "0.2.3", "tools": [tool]})

    async def document(self, _request: web.Request) -> web.Response:
        operations = {
            "/echo": {"get": {"operationId": "readEcho", "responses": {"200": {"description": "Read"}}}},
            "/echo/{name}": {
                "post": {
                    "operationId": "writeEcho",
                    "parameters": [{"name": "name", "in": "path", "required": True, "schema": {"type": "string"}}],
                    "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
                    "responses": {"200": {"description": "Written"}},
                }
            },
        }  # fmt: skip
        info = {"title": "Echo", "version": "1"}
        return web.json_response(
            {"openapi": "3.0.3", "info": info, "servers": [{"url": self.origin}], "paths": operations}
        )

    async def events(self, request: web.Request) -> web.StreamResponse:
        body = await request.text()
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'id: 1\ndata: {"n": 1}\n\n: comment\n\nevent: tick\nid: 2\ndata: {"n": 2}\n\n')
        await response.write(b"event: tick\ndata: two\ndata: lines\n\n")
        if body:
            await response.write(b"event: body\ndata: " + body.encode() + b"\n\n")
        return response

    async def private_events(self, request: web.Request) -> web.StreamResponse:
        if not self.is_allowed(request):
            return web.json_response({"error": "no"}, status=401)
        return await self.events(request)

    async def text(self, _request: web.Request) -> web.Response:
        return web.Response(text="plain")

    async def json(self, _request: web.Request) -> web.Response:
        return web.json_response({"a": 1})

    async def lines(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "application/x-ndjson"})
        await response.prepare(request)
        for number in range(3):
            await response.write(orjson.dumps({"n": number}) + b"\n")
        return response

    async def bytes(self, _request: web.Request) -> web.Response:
        return web.Response(body=b"\x00\x01\xff chunk", content_type="application/octet-stream")

    async def graphql(self, request: web.Request) -> web.Response:
        body = await request.json()
        variables, name = body.get("variables"), body.get("operationName")
        found = graphql_sync(self._schema, body["query"], variable_values=variables, operation_name=name)
        return web.Response(body=orjson.dumps(found.formatted), content_type="application/json")

    async def private_graphql(self, request: web.Request) -> web.Response:
        if not self.is_allowed(request):
            return web.json_response({"errors": [{"message": "no"}]}, status=401)
        return await self.graphql(request)


class Upstreams:
    """What a behaviour may name: `origin` of the HTTP upstream, ports of sockets, and the interpreter of an MCP server."""

    def __init__(self, origin: str, sockets: Sockets, python: str) -> None:
        self.origin = origin
        self.port = sockets.port
        self.python = python


@contextmanager
def serving(python: str) -> Iterator[Upstreams]:
    """All upstreams, in a thread of their own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    http, sockets = Http(), Sockets(loop)
    runner = web.AppRunner(http.application())

    async def start() -> None:
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()

    async def stop() -> None:
        sockets.close()
        await runner.cleanup()

    try:
        asyncio.run_coroutine_threadsafe(start(), loop).result(10)
        http.origin = f"http://127.0.0.1:{runner.addresses[0][1]}"
        yield Upstreams(http.origin, sockets, python)
    finally:
        asyncio.run_coroutine_threadsafe(stop(), loop).result(10)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(10)
        loop.close()
