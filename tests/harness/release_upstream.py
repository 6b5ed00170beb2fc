"""The upstream that the data of all releases name (tests/releases): what it serves may be extended, not changed.

Its address is fixed, because credentials are bound to the origin that they were stored for.
"""

import asyncio
import base64
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

import strawberry
from aiohttp import web
from strawberry.aiohttp.views import GraphQLView

from tests.harness.beside import beside, web_server

PORT: Final = 18452
URL: Final = f"http://127.0.0.1:{PORT}"

CREDENTIALS: Final = {
    "items": ("X-Shop-Key", "key-of-the-seed"),
    "old": ("X-Shop-Key", "key-of-the-seed"),
    "login": ("Authorization", f"Basic {base64.b64encode(b'seed:password-of-the-seed').decode()}"),
    "oauth": ("Authorization", "Bearer token-of-the-shop"),
}
"""The header and value that each operation of the shop requires."""

Json = dict[str, Any]


def shop_document(
    *, server: str = URL, operations: tuple[str, ...] = ("items", "login", "oauth", "order")
) -> Json:
    """Return the document of the shop with some of its operations, each with a security scheme of its own."""
    quantity = {"type": "object", "properties": {"quantity": {"type": "integer", "minimum": 1}}}
    paths: Json = {
        "items": {"get": _operation("listItems", "List the items.", "key")},
        "login": {"get": _operation("getProfile", "Get the profile of the customer.", "login")},
        "oauth": {"get": _operation("getInvoice", "Get the last invoice.", "oauth")},
        "order": {
            "post": {
                **_operation("orderItem", "Order an item.", "key"),
                "requestBody": {"content": {"application/json": {"schema": quantity}}},
            }
        },
        "old": {"get": _operation("listOldItems", "List the items of last year.", "key")},
    }
    flows = {"clientCredentials": {"tokenUrl": f"{URL}/token", "scopes": {}}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Shop", "version": "1"},
        "servers": [{"url": server}],
        "paths": {f"/shop/{name}": paths[name] for name in operations},
        "components": {
            "securitySchemes": {
                "key": {"type": "apiKey", "in": "header", "name": "X-Shop-Key"},
                "login": {"type": "http", "scheme": "basic"},
                "oauth": {"type": "oauth2", "flows": flows},
            }
        },
    }


def _operation(name: str, summary: str, scheme: str) -> Json:
    responses = {"200": {"description": "OK"}}
    return {"operationId": name, "summary": summary, "security": [{scheme: []}], "responses": responses}


@dataclass(slots=True)
class ReleaseUpstream:
    """The running upstream. `document` is the OpenAPI document of its shop, which a test or a seed replaces."""

    document: Json = field(default_factory=shop_document)
    tokens: int = 0
    orders: int = 0


@strawberry.type
class Query:
    """The GraphQL schema of the upstream."""

    @strawberry.field
    def shelf(self, name: str) -> str:
        """Return the place of a shelf."""
        return f"{name} is in hall 4"


def _application(upstream: ReleaseUpstream) -> web.Application:
    async def document(_: web.Request) -> web.Response:
        return web.json_response(upstream.document)

    async def shop(request: web.Request) -> web.Response:
        operation = request.match_info["operation"]
        header, value = CREDENTIALS[operation]
        if request.headers.get(header) != value:
            return web.json_response({"detail": f"{header} is wrong"}, status=401)
        return web.json_response({"operation": operation, "authenticated": True})

    async def order(request: web.Request) -> web.Response:
        upstream.orders += 1
        body = await request.json()
        return web.json_response({"order": upstream.orders, "quantity": body["quantity"]})

    async def token(_: web.Request) -> web.Response:
        upstream.tokens += 1
        found = {"access_token": "token-of-the-shop", "token_type": "Bearer", "expires_in": 3600}
        return web.json_response(found)

    async def weather(request: web.Request) -> web.Response:
        return web.json_response(
            {"city": request.match_info["city"], "region": request.headers.get("X-Region")}
        )

    async def ticks(_: web.Request) -> web.Response:
        return web.Response(
            text='data: {"tick": 1}\n\ndata: {"tick": 2}\n\n', content_type="text/event-stream"
        )

    async def lines(_: web.Request) -> web.Response:
        return web.Response(text='{"line": 1}\n{"line": 2}\n', content_type="application/x-ndjson")

    async def feed(request: web.Request) -> web.WebSocketResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        async for message in socket:
            await socket.send_json({"echo": message.json()})
        return socket

    async def fail(_: web.Request) -> web.Response:
        await asyncio.sleep(0)
        return web.json_response({"detail": "closed"}, status=503)

    app = web.Application()
    graphql = GraphQLView(schema=strawberry.Schema(Query), keep_alive=False)
    app.router.add_get("/shop.json", document)
    app.router.add_get("/shop/{operation}", shop)
    app.router.add_post("/shop/order", order)
    app.router.add_post("/token", token)
    app.router.add_get("/weather/{city}", weather)
    app.router.add_get("/ticks", ticks)
    app.router.add_get("/lines", lines)
    app.router.add_get("/feed", feed)
    app.router.add_get("/fail", fail)
    app.router.add_route("*", "/graphql", graphql)
    return app


@contextmanager
def release_upstream() -> Iterator[ReleaseUpstream]:
    """Run the upstream at its fixed address until the block ends."""
    upstream = ReleaseUpstream()
    with beside(web_server(_application(upstream), port=PORT)):
        yield upstream
