"""An upstream in a thread of its own, which records every request and reflects it in its error responses."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.harness.beside import beside, web_server


@dataclass(slots=True)
class Upstream:
    """A running server. `requests` holds each request as received: method, path, headers, body."""

    url: str = ""
    requests: list[dict[str, Any]] = field(default_factory=list)
    tokens: int = 0
    revoked: set[str] = field(default_factory=set)

    def wire(self) -> bytes:
        """Return all requests as one text."""
        return b"\n".join(
            f"{r['method']} {r['path']} {r['headers']}".encode() + b" " + r["body"] for r in self.requests
        )

    def openapi(self) -> dict[str, Any]:
        """Return a document with an operation for each kind of auth."""

        def operation(name: str, security: list[dict[str, list[str]]]) -> dict[str, Any]:
            return {
                "get": {
                    "operationId": name,
                    "security": security,
                    "responses": {"200": {"description": "ok"}},
                }
            }

        return {
            "openapi": "3.0.3",
            "info": {"title": "Echo", "version": "1"},
            "servers": [{"url": self.url}],
            "paths": {
                "/echo/key": operation("withKey", [{"key": []}]),
                "/echo/login": operation("withLogin", [{"login": []}]),
                "/echo/token": operation("withToken", [{"token": []}]),
                "/echo/oauth": operation("withOAuth", [{"oauth": []}]),
                "/echo/open": operation("open", []),
                "/fail/key": operation("failing", [{"key": []}]),
            },
            "components": {
                "securitySchemes": {
                    "key": {"type": "apiKey", "in": "query", "name": "api_key"},
                    "login": {"type": "http", "scheme": "basic"},
                    "token": {"type": "http", "scheme": "bearer"},
                    "oauth": {
                        "type": "oauth2",
                        "flows": {"clientCredentials": {"tokenUrl": f"{self.url}/token", "scopes": {}}},
                    },
                }
            },
        }


def _application(site: Upstream) -> web.Application:
    async def record(request: web.Request) -> dict[str, Any]:
        seen = {
            "method": request.method,
            "path": request.raw_path,
            "headers": [list(pair) for pair in request.headers.items()],
            "body": await request.read(),
        }
        site.requests.append(seen)
        return seen

    async def echo(request: web.Request) -> web.Response:
        await record(request)
        if request.headers.get("Authorization", "").removeprefix("Bearer ") in site.revoked:
            return web.json_response({"detail": "revoked"}, status=401)
        return web.json_response({"ok": True}, headers={"X-Reflected": request.headers.get("X-Key", "none")})

    async def fail(request: web.Request) -> web.Response:
        seen = await record(request)
        return web.json_response({"detail": f"no: {seen['path']} {seen['headers']}"}, status=409)

    async def token(request: web.Request) -> web.Response:
        await record(request)
        site.tokens += 1
        await asyncio.sleep(0.05)
        return web.json_response(
            {"access_token": f"token-{site.tokens}", "token_type": "Bearer", "expires_in": 3600}
        )

    app = web.Application()
    app.router.add_post("/token", token)
    app.router.add_route("*", "/fail/{rest:.*}", fail)
    app.router.add_route("*", "/{rest:.*}", echo)
    return app


@contextmanager
def upstream() -> Iterator[Upstream]:
    """Run the server until the block ends."""
    site = Upstream()
    with beside(web_server(_application(site))) as site.url:
        yield site
