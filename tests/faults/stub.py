"""The upstream: it remembers what it was asked, answers with a nonce, and streams, stalls or bombs on demand."""

import asyncio
import zlib
from collections import Counter
from typing import Any

import orjson
from aiohttp import web

_ZEROS = bytes(1 << 20)
# What schemathesis asks for may be as large as it likes.
_MOST = 4 << 20
_LONGEST = 10.0
_GZIP_HEAD = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\x03"


def _parameter(name: str, kind: str) -> dict[str, Any]:
    return {"name": name, "in": "query", "schema": {"type": kind}}


def document(url: str, *, writers: int = 1, token_url: str = "") -> dict[str, Any]:
    """An OpenAPI document of this upstream at `url`, with so many operations `write0`, `write1`, ..."""
    ok = {"200": {"description": "ok"}}
    schema = {"type": "object", "properties": {"id": {"type": "string"}, "wait": {"type": "number"},
                                               "filler": {"type": "string"}}}  # fmt: skip
    body = {"content": {"application/json": {"schema": schema}}}
    paths: dict[str, Any] = {
        f"/write/{number}": {"post": {"operationId": f"write{number}", "requestBody": body, "responses": ok}}
        for number in range(writers)
    }
    asked = [_parameter("id", "string"), _parameter("wait", "number"), _parameter("bytes", "integer")]
    for name in ("read", "stream", "bomb"):
        paths[f"/{name}"] = {"get": {"operationId": name, "parameters": asked, "responses": ok}}
    paths["/secure"] = {
        "get": {"operationId": "secure", "parameters": asked, "responses": ok, "security": [{"oauth": []}]}
    }
    paths["/keyed"] = {
        "get": {"operationId": "keyed", "parameters": asked, "responses": ok, "security": [{"key": []}]}
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
    """A running upstream. `seen` counts the `id` of each request; `by_path` what each path was asked."""

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
        """Answers that are being streamed at this moment."""
        self._runner: web.AppRunner | None = None

    @property
    def url(self) -> str:
        """Without a fault proxy."""
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listens."""
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
        """Ends."""
        if self._runner is not None:
            await self._runner.cleanup()

    async def _write(self, request: web.Request) -> web.Response:
        try:
            asked = orjson.loads(await request.read())
        except orjson.JSONDecodeError:
            return web.json_response({"detail": "no JSON"}, status=400)
        if not isinstance(asked, dict):
            return web.json_response({"detail": "no object"}, status=400)
        self._note(request, asked)
        await asyncio.sleep(min(_LONGEST, float(asked.get("wait") or 0)))
        return web.json_response({"id": asked.get("id"), "nonce": f"nonce-{asked.get('id')}"})

    async def _read(self, request: web.Request) -> web.Response:
        self._note(request, request.query)
        await asyncio.sleep(min(_LONGEST, float(request.query.get("wait", 0))))
        asked = request.query.get("id", "")
        filler = "x" * max(0, min(_MOST, int(request.query.get("bytes", 0))))
        return web.json_response({"id": asked, "nonce": f"nonce-{asked}", "filler": filler})

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
        """Server-sent events of 16 kB until `bytes` are sent, with `wait` seconds between two."""
        self._note(request, request.query)
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        self.streaming += 1
        try:
            await answer.prepare(request)
            event = b"data: " + b"x" * 16_376 + b"\n\n"
            wait = min(_LONGEST, float(request.query.get("wait", 0)))
            for _ in range(max(1, int(request.query.get("bytes", 0)) // len(event))):
                await answer.write(event)
                if wait:
                    await asyncio.sleep(wait)
            await answer.write_eof()
        except ConnectionResetError:
            # The gateway has let go, as it should.
            pass
        finally:
            self.streaming -= 1
        return answer

    async def _bomb(self, request: web.Request) -> web.StreamResponse:
        """`bytes` zeros as gzip, a thousandth of that on the wire."""
        self._note(request, request.query)
        number = int(request.query.get("bytes", 0)) >> 20
        if number <= 0:
            return web.json_response({})
        packer = zlib.compressobj(9, zlib.DEFLATED, -15)
        first = packer.compress(_ZEROS) + packer.flush(zlib.Z_FULL_FLUSH)
        answer = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Encoding": "gzip"})
        await answer.prepare(request)
        await answer.write(_GZIP_HEAD)
        for _ in range(number):
            # After a full flush the same bytes mean the same again, so that nothing has to be packed anew.
            await answer.write(first)
        await answer.write_eof()
        return answer

    def _note(self, request: web.Request, asked: Any) -> None:
        self.by_path[request.path] += 1
        if asked.get("id"):
            self.seen[str(asked["id"])] += 1
