"""The upstream of fuzzing: documents that can change, any status on request, and responses that repeat secrets."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from tests.harness.beside import beside, web_server


@dataclass(slots=True)
class FuzzUpstream:
    """A running server. `moved` are the names of documents that now name another origin."""

    token: str
    url: str = ""
    moved: set[str] = field(default_factory=set)
    requests: list[bytes] = field(default_factory=list)

    def document_url(self, name: str) -> str:
        """Return the URL of the OpenAPI document of this name: any name has one."""
        return f"{self.url}/documents/{name}"

    def document(self, name: str) -> dict[str, Any]:
        """Return the document of a small API; `name` stands in its texts."""
        origin = self.url.replace("127.0.0.1", "localhost") if name in self.moved else self.url
        query = {"name": "q", "in": "query", "schema": {"type": "string"}}
        code = {"name": "code", "in": "query", "required": True, "schema": {"type": "integer"}}

        def operation(operation_id: str, scheme: str | None, *parameters: dict[str, Any]) -> dict[str, Any]:
            return {
                "get": {
                    "operationId": operation_id,
                    "summary": f"{operation_id} of {name}",
                    "parameters": list(parameters),
                    "security": [] if scheme is None else [{scheme: []}],
                    "responses": {"200": {"description": "ok"}},
                }
            }

        return {
            "openapi": "3.1.0",
            "info": {"title": f"Title of {name}", "version": "1"},
            "servers": [{"url": origin}],
            "paths": {
                "/echo/open": operation("open", None, query),
                "/echo/key": operation("withKey", "key", query),
                "/echo/oauth": operation("withToken", "oauth", query),
                "/status": operation("respond", None, code),
            },
            "components": {
                "securitySchemes": {
                    "key": {"type": "apiKey", "in": "header", "name": "X-Key"},
                    "oauth": {
                        "type": "oauth2",
                        "flows": {"clientCredentials": {"tokenUrl": f"{self.url}/token", "scopes": {}}},
                    },
                }
            },
        }


def _application(site: FuzzUpstream) -> web.Application:
    async def document(request: web.Request) -> web.Response:
        return web.json_response(site.document(request.match_info["name"]))

    async def echo(request: web.Request) -> web.Response:
        received = {"url": str(request.rel_url), "headers": list(request.headers.items())}
        site.requests.append(repr(received).encode())
        return web.json_response(received)

    async def respond(request: web.Request) -> web.Response:
        code = int(request.query.get("code", "200"))
        return web.json_response({"code": code}, status=code if 200 <= code <= 599 else 400)

    async def held(_: web.Request) -> web.Response:
        await asyncio.sleep(300)
        return web.json_response({})

    async def token(_: web.Request) -> web.Response:
        return web.json_response({"access_token": site.token, "token_type": "Bearer", "expires_in": 3600})

    app = web.Application()
    app.router.add_get("/documents/{name}", document)
    app.router.add_route("*", "/echo/{rest:.*}", echo)
    app.router.add_get("/status", respond)
    app.router.add_post("/token", token)
    app.router.add_post("/held/chat/completions", held)
    return app


@contextmanager
def fuzz_upstream(*, token: str) -> Iterator[FuzzUpstream]:
    """Run the server until the block ends; its token endpoint issues `token`."""
    site = FuzzUpstream(token)
    with beside(web_server(_application(site))) as site.url:
        yield site
