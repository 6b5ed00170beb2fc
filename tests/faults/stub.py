"""The upstream: it counts requests, responds with a nonce, and streams, stalls or sends decompression bombs on request."""

import asyncio
import zlib
from collections import Counter
from typing import Any

import orjson
from aiohttp import web

_ZEROS = bytes(1 << 20)
# schemathesis requests arbitrarily large responses and delays.
_MAX_BYTES = 4 << 20
_MAX_SECONDS = 10.0
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


def _parameter(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}}


def document(url: str, *, writers: int = 1, token_url: str = "") -> dict[str, Any]:
    """An OpenAPI document of this upstream at `url`, with `writers` operations `write0`, `write1`, ..."""
    ok = {"200": {"description": "ok"}}
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "wait": {"type": "number"},
                                               "filler": {"type": "string"}}}  # fmt: skip
    body = {"content": {"application/json": {"schema": schema}}}
    paths: dict[str, Any] = {
        f"/write/{number}": {"post": {"operationId": f"write{number}", "requestBody": body, "responses": ok}}
        for number in range(writers)
    }
    parameters = [_parameter("id", "string"), _parameter("wait", "number"), _parameter("bytes", "integer")]
    for name in ("read", "stream", "bomb"):
        paths[f"/{name}"] = {"get": {"operationId": name, "parameters": parameters, "responses": ok}}
    paths["/secure"] = {
        "get": {
            "operationId": "secure",
            "parameters": parameters,
            "responses": ok,
            "security": [{"oauth": []}],
        }
    }
    paths["/keyed"] = {
        "get": {"operationId": "keyed", "parameters": parameters, "responses": ok, "security": [{"key": []}]}
    }
    flow = {"clientCredentials": {"tokenUrl": token_url or f"{url}/token", "scopes": {}}}
    schemes = {
        "oauth": {"type": "oauth2", "flows": flow},
        "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
    }
    return {
        "openapi": "3.0.3", "info": {"title": "Stub", "version": "1"}, "servers": [{"url": url}],
        "paths": paths, "components": {"securitySchemes": schemes},
    }  # fmt: skip


class Stub:
    """A running upstream. `seen` counts the `id` of each request; `by_path` the requests of each path."""

    def __init__(self) -> None:
        self.port = 0
        self.seen: Counter[str] = Counter()
        self.by_path: Counter[str] = Counter()
        self.tokens = 0
        self.token_seconds = 0.2
        self.token_life = 3600
        self.wrong_keys = 0
        self.key = ""
        self.streaming = 0
        """The number of responses that are being streamed now."""
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Its base URL, without a fault proxy."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Start listening."""
        app = web.Application(client_max_size=16 << 20)
        app.router.add_post("/token", self._token)
        app.router.add_post("/write/{number}", self._write)
        app.router.add_get("/read", self._read)
        app.router.add_get("/secure", self._secure)
        app.router.add_get("/keyed", self._keyed)
        app.router.add_get("/stream", self._stream)
        app.router.add_get("/bomb", self._bomb)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", self.port, backlog=2048)
        await site.start()
        self.port = int(self._runner.addresses[0][1])

    async def stop(self) -> None:
        """Stop."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _write(self, request: web.Request) -> web.Response:
        try:
            body = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return web.json_response({"detail": "not JSON"}, status=400)
        if not isinstance(body, dict):
            return web.json_response({"detail": "not an object"}, status=400)
        self._count(request, body)
        await asyncio.sleep(min(_MAX_SECONDS, float(body.get("wait") or 0)))
        return web.json_response({"id": body.get("id"), "nonce": f"nonce-{body.get('id')}"})

    async def _read(self, request: web.Request) -> web.Response:
        self._count(request, request.query)
        await asyncio.sleep(min(_MAX_SECONDS, float(request.query.get("wait", 0))))
        call_id = request.query.get("id", "")
        filler = "x" * max(0, min(_MAX_BYTES, int(request.query.get("bytes", 0))))
        return web.json_response({"id": call_id, "nonce": f"nonce-{call_id}", "filler": filler})

    async def _secure(self, request: web.Request) -> web.Response:
        if not request.headers.get("Authorization", "").startswith("Bearer token-"):
            return web.json_response({"detail": "no token"}, status=401)
        return await self._read(request)

    async def _keyed(self, request: web.Request) -> web.Response:
        if request.headers.get("X-Key", "") != self.key:
            self.wrong_keys += 1
            return web.json_response({"detail": "wrong key"}, status=409)
        return await self._read(request)

    async def _token(self, request: web.Request) -> web.Response:
        self.tokens += 1
        mine = self.tokens
        await asyncio.sleep(self.token_seconds)
        token = {"access_token": f"token-{mine}", "token_type": "Bearer", "expires_in": self.token_life}
        return web.json_response(token)

    async def _stream(self, request: web.Request) -> web.StreamResponse:
        """Send server-sent events of 16 kB until `bytes` are sent, with `wait` seconds between them."""
        self._count(request, request.query)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self.streaming += 1
        try:
            await response.prepare(request)
            event = b"data: " + b"x" * 16_376 + b"\n\n"
            wait = min(_MAX_SECONDS, float(request.query.get("wait", 0)))
            for _ in range(max(1, int(request.query.get("bytes", 0)) // len(event))):
                await response.write(event)
                if wait:
                    await asyncio.sleep(wait)
            await response.write_eof()
        except ConnectionResetError:
            # The gateway has closed the connection, as it should.
            pass
        finally:
            self.streaming -= 1
        return response

    async def _bomb(self, request: web.Request) -> web.StreamResponse:
        """Send `bytes` zeros as gzip, which is a thousandth of that on the wire."""
        self._count(request, request.query)
        number = int(request.query.get("bytes", 0)) >> 20
        if number <= 0:
            return web.json_response({})
        compressor = zlib.compressobj(9, zlib.DEFLATED, -15)
        first = compressor.compress(_ZEROS) + compressor.flush(zlib.Z_FULL_FLUSH)
        response = web.StreamResponse(
            headers={"Content-Type": "application/json", "Content-Encoding": "gzip"}
        )
        await response.prepare(request)
        await response.write(_GZIP_HEAD)
        for _ in range(number):
            # After a full flush the same compressed bytes can be sent again.
            await response.write(first)
        await response.write_eof()
        return response

    def _count(self, request: web.Request, parameters: Any) -> None:
        self.by_path[request.path] += 1
        if parameters.get("id"):
            self.seen[str(parameters["id"])] += 1
