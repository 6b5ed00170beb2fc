"""The mistakes of newcomers over the HTTP API, with the exact text that they get (`mistakes.md`)."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import httpx2
import pytest
import websockets
from aiohttp import web
from sqlalchemy import update
from sqlmodel import col

from app.storage.models import Key, now
from tests.api.mistakes import as_text, expected_texts, with_placeholders
from tests.harness.application import Application
from tests.harness.beside import web_server
from tests.harness.cases import for_each
from tests.harness.plain_http import WITHOUT_CERTIFICATES

JSON = {"Content-Type": "application/json"}
SWAGGER_UI = "<!DOCTYPE html><html><head><title>Swagger UI</title></head><body><div id='swagger-ui'></div></body></html>"


def operation(name: str, **members: Any) -> dict[str, Any]:
    return {
        "operationId": name,
        "summary": f"The operation {name}.",
        "responses": {"200": {"description": "OK"}},
    } | members


def document(url: str | None, paths: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"openapi": "3.1.0", "info": {"title": "Books", "version": "1"}, "paths": paths}
    if url is not None:
        found["servers"] = [{"url": url}]
    return found


def parameter(name: str, kind: str, *, required: bool = False) -> dict[str, Any]:
    return {"name": name, "in": "query", "required": required, "schema": {"type": kind}}


class Upstream:
    """An API with the usual failures, and pages where its document could be."""

    def __init__(self) -> None:
        self.url = ""

    def document(self) -> dict[str, Any]:
        secured = {"security": [{"apiKey": []}]}
        paths = {
            "/books": {
                "get": operation(
                    "searchBooks",
                    parameters=[parameter("q", "string", required=True), parameter("limit", "integer")],
                )
            },
            "/members": {"get": operation("listMembers", **secured)},
            "/down": {"get": operation("nightly")},
            "/crash": {"post": operation("crash")},
            "/slow": {"post": operation("slow")},
        }
        found = document(self.url, paths)
        key = {"type": "apiKey", "in": "header", "name": "X-Key"}
        return found | {"components": {"securitySchemes": {"apiKey": key}}}

    def application(self) -> web.Application:
        made = web.Application()

        async def openapi(_: web.Request) -> web.Response:
            return web.json_response(self.document())

        async def page(_: web.Request) -> web.Response:
            return web.Response(text=SWAGGER_UI, content_type="text/html")

        async def tabs(_: web.Request) -> web.Response:
            return web.Response(
                text="openapi: 3.1.0\ninfo:\n\ttitle: Tabs\n", content_type="application/yaml"
            )

        async def rejected(_: web.Request) -> web.Response:
            return web.json_response({"error": "unknown key"}, status=401)

        async def crash(_: web.Request) -> web.Response:
            return web.Response(text="<h1>Internal Server Error</h1>", content_type="text/html", status=500)

        async def slow(_: web.Request) -> web.Response:
            await asyncio.sleep(60)
            return web.Response()

        async def books(_: web.Request) -> web.Response:
            return web.json_response([])

        made.router.add_get("/openapi.json", openapi)
        made.router.add_get("/docs", page)
        made.router.add_get("/", page)
        made.router.add_get("/tabs.yaml", tabs)
        made.router.add_get("/members", rejected)
        made.router.add_post("/crash", crash)
        made.router.add_post("/slow", slow)
        made.router.add_get("/books", books)
        return made


@dataclass
class Newcomer:
    """Someone with an admin key at a gateway with one provider, `library`."""

    gateway: Application
    client: httpx2.AsyncClient
    upstream: Upstream

    def anonymous(self, **headers: str) -> httpx2.AsyncClient:
        made = httpx2.AsyncClient(
            base_url=self.gateway.url, headers=headers, trust_env=False, verify=WITHOUT_CERTIFICATES
        )
        self.gateway.clients.append(made)
        return made

    async def call(self, tool: str, arguments: Any = None, **options: Any) -> httpx2.Response:
        return await self.client.post(f"/tools/{tool}/call", json=arguments or {}, **options)

    async def register(self, name: str = "another", **source: Any) -> httpx2.Response:
        return await self.client.post("/providers", json={"name": name, "source": source})

    async def expired_key(self) -> httpx2.AsyncClient:
        client = await self.gateway.client("tools:read")
        key_id = client.headers["Authorization"].split("_")[1]
        async with self.gateway.services.database.transaction() as session:
            past = now() - timedelta(days=1)
            await session.execute(update(Key).where(col(Key.key_id) == key_id).values(expires_at=past))
        return client


@pytest.fixture(scope="module")
async def newcomer(applications):
    gateway = await applications.get(
        public_base_url="https://tools.example.com",
        max_request_bytes=64 * 1024,
        max_document_bytes=128 * 1024,
    )
    upstream = Upstream()
    async with web_server(upstream.application()) as upstream.url:
        client = await gateway.client("admin")
        found = Newcomer(gateway, client, upstream)
        registered = await client.post(
            "/providers",
            json={
                "name": "library",
                "source": {"url": f"{upstream.url}/openapi.json"},
                "limits": {"attempts": 1, "breaker_failures": 0},
            },
        )
        assert registered.status_code == 201, registered.text
        yield found


Mistake = Callable[[Newcomer], Awaitable[httpx2.Response]]
MISTAKES: dict[str, Mistake] = {}


def mistake(name: str) -> Callable[[Mistake], Mistake]:
    def add(made: Mistake) -> Mistake:
        MISTAKES[name] = made
        return made

    return add


# --- keys ---


@mistake("no API key")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.anonymous().get("/tools")


@mistake("a wrong API key")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.anonymous(Authorization="Bearer my-key").get("/tools")


@mistake("the key without Bearer")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.anonymous(Authorization="ugw_abc").get("/tools")


@mistake("the key in a header of another name")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.anonymous(**{"Api-Key": "ugw_abc"}).get("/tools")


@mistake("the key in two headers")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/tools", headers={"X-API-Key": "ugw_abc"})


@mistake("an expired key")
async def _(one: Newcomer) -> httpx2.Response:
    return await (await one.expired_key()).get("/tools")


@mistake("a key without the scope")
async def _(one: Newcomer) -> httpx2.Response:
    return await (await one.gateway.client("tools:read")).post(
        "/tools/library.searchBooks/call", json={"q": "sea"}
    )


@mistake("a scope that does not exist")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.post("/keys", json={"name": "agent", "scopes": ["tool:call"]})


@mistake("a new key of a provider that does not exist")
async def _(one: Newcomer) -> httpx2.Response:
    body = {"name": "agent", "scopes": ["tools:call"], "providers": ["libary"]}
    return await one.client.post("/keys", json=body)


@mistake("a new key that expires in the past")
async def _(one: Newcomer) -> httpx2.Response:
    body = {"name": "agent", "scopes": ["tools:read"], "expires_at": "2020-01-01T00:00:00Z"}
    return await one.client.post("/keys", json=body)


# --- requests ---


@mistake("a wrong URL")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/api/v1/tools")


@mistake("a slash at the end of the URL")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/tools/")


@mistake("GET in place of POST for a call")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/tools/library.searchBooks/call?q=sea")


@mistake("a body without Content-Type")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.post("/keys", content=b'{"name": "agent", "scopes": []}')


@mistake("a form in place of JSON for a call")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.post("/tools/library.searchBooks/call", data={"q": "sea"})


@mistake("JSON with a trailing comma")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.post("/keys", content=b'{"name": "agent",}', headers=JSON)


@mistake("JSON with a trailing comma as arguments")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.post("/tools/library.searchBooks/call", content=b'{"q": "sea",}', headers=JSON)


@mistake("a body that is not UTF-8")
async def _(one: Newcomer) -> httpx2.Response:
    content = '{"q": "Grüße"}'.encode("latin-1")
    return await one.client.post("/tools/library.searchBooks/call", content=content, headers=JSON)


@mistake("JSON that is nested too deeply")
async def _(one: Newcomer) -> httpx2.Response:
    content = b'{"q": ' + b"[" * 5_000 + b"]" * 5_000 + b"}"
    return await one.client.post("/tools/library.searchBooks/call", content=content, headers=JSON)


@mistake("a body that is too large")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.searchBooks", {"q": "x" * 70_000})


@mistake("an unknown member of a body")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.patch("/providers/library", json={"descripton": "Books"})


@mistake("a cursor of another list")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/keys?cursor=6c696272617279")


@mistake("a limit that is too high")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/tools?limit=1000")


# --- calls ---


@mistake("a typo in the name of a tool")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.serchBooks", {"q": "sea"})


@mistake("a missing argument")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.searchBooks", {})


@mistake("a number as text")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.searchBooks", {"q": "sea", "limit": "5"})


@mistake("an unknown argument")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.searchBooks", {"q": "sea", "limits": 5})


@mistake("a list in place of the arguments object")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.searchBooks", ["sea"])


@mistake("a missing credential")
async def _(one: Newcomer) -> httpx2.Response:
    await one.client.delete("/providers/library/credentials/apiKey")
    return await one.call("library.listMembers")


@mistake("a credential that the upstream rejects")
async def _(one: Newcomer) -> httpx2.Response:
    stored = await one.client.put(
        "/providers/library/credentials/apiKey", json={"kind": "api_key", "value": "wrong-key"}
    )
    assert stored.status_code in (200, 201), stored.text
    return await one.call("library.listMembers")


@mistake("a variable without a value")
async def _(one: Newcomer) -> httpx2.Response:
    template = {"call_template_type": "http", "http_method": "GET", "url": f"{one.upstream.url}/${{REGOIN}}"}
    body = {"provider": "library", "name": "byRegion", "call_template": template}
    made = await one.client.post("/tools", json=body)
    return made if made.status_code >= 400 else await one.call("library.byRegion")


@mistake("an upstream that is not running")
async def _(one: Newcomer) -> httpx2.Response:
    template = {"call_template_type": "http", "http_method": "GET", "url": "http://127.0.0.1:9/"}
    await one.client.post("/tools", json={"provider": "library", "name": "closed", "call_template": template})
    return await one.call("library.closed")


@mistake("an upstream that fails with a page of HTML")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.crash")


@mistake("an upstream that does not respond")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.call("library.slow", headers={"X-Timeout-Ms": "200"})


@mistake("too many calls")
async def _(one: Newcomer) -> httpx2.Response:
    body = {"name": "once", "scopes": ["tools:call"], "rate_limit": {"requests": 1, "per_seconds": 3600}}
    made = await one.client.post("/keys", json=body)
    client = one.anonymous(Authorization=f"Bearer {made.json()['key']}")
    path = "/tools/library.searchBooks/call"
    assert (await client.post(path, json={"q": "sea"})).status_code == 200
    return await client.post(path, json={"q": "sea"})


@mistake("an Idempotency-Key that was used for another call")
async def _(one: Newcomer) -> httpx2.Response:
    headers = {"Idempotency-Key": "monday"}
    await one.call("library.searchBooks", {"q": "sea"}, headers=headers)
    return await one.call("library.searchBooks", {"q": "storm"}, headers=headers)


# --- registration ---


@mistake("a page of HTML in place of a document")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url=f"{one.upstream.url}/")


@mistake("the URL of a Swagger UI")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url=f"{one.upstream.url}/docs")


@mistake("a URL where nothing is")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url=f"{one.upstream.url}/swagger.json")


@mistake("YAML with tabs")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url=f"{one.upstream.url}/tabs.yaml")


@mistake("a host that does not exist, or no network")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url="http://api.invalid/openapi.json")


@mistake("a private address")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url="http://10.20.30.40/openapi.json")


@mistake("a URL without http")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(url="api.example.com/openapi.json")


@mistake("a document that is no OpenAPI document")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register(document={"name": "books", "version": "1.0.0"})


@mistake("a document that is too large")
async def _(one: Newcomer) -> httpx2.Response:
    found = document(
        "https://api.example.com", {"/books": {"get": operation("books", description="x" * 200_000)}}
    )
    return await one.register(document=found)


@mistake("a name with a space")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register("My Library", url=f"{one.upstream.url}/openapi.json")


@mistake("a name in capitals")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/providers/Library")


@mistake("registering twice")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.register("library", url=f"{one.upstream.url}/other.json")


@mistake("deleting twice")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.delete("/providers/archive")


@mistake("a stale ETag")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.patch("/providers/library", json={"enabled": True}, headers={"If-Match": '"99"'})


@mistake("a wrong name of a credential slot")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.put(
        "/providers/library/credentials/api_key", json={"kind": "api_key", "value": "secret"}
    )


# --- UBP ---


async def command(one: Newcomer, *scopes: str, **request: Any) -> httpx2.Response:
    """Send a command on a connection; return the problem in its response as a response over HTTP has it."""
    client = await one.gateway.client(*(scopes or ("admin",)))
    url = one.gateway.url.replace("http", "ws", 1) + "/ubp"
    headers = {"Authorization": client.headers["authorization"]}
    async with websockets.connect(url, additional_headers=headers, proxy=None) as socket:
        await socket.send(json.dumps({"messageId": "m1", "commandRequest": {"commandId": "c1", **request}}))
        problem = json.loads(await socket.recv())["commandResponse"]["result"]["value"]
    content = json.dumps(problem).encode()
    return httpx2.Response(
        problem["status"], content=content, headers={"Content-Type": "application/problem+json"}
    )


def registration(tool: str, **metadata: str) -> dict[str, Any]:
    arguments = {"tools": [{"name": tool, "description": "A tool."}]}
    return {"commandName": "agent.register_tools", "arguments": arguments, "metadata": metadata}


@mistake("a request to /ubp that is no WebSocket")
async def _(one: Newcomer) -> httpx2.Response:
    return await one.client.get("/ubp")


@mistake("a command with a member of another protocol")
async def _(one: Newcomer) -> httpx2.Response:
    body = {"method": "library.searchBooks", "params": {"q": "sea"}}
    return await one.client.post("/ubp/commands", json=body)


@mistake("the arguments of a command as text")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, commandName="library.searchBooks", arguments='{"q": "sea"}')


@mistake("a command that nobody executes")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, commandName="search_books", arguments={"q": "sea"})


@mistake("a reserved command that does not exist")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, commandName="agent.register")


@mistake("the time limit of a command with a unit")
async def _(one: Newcomer) -> httpx2.Response:
    request = {"commandName": "library.searchBooks", "arguments": {"q": "sea"}}
    return await command(one, **request, metadata={"timeout_ms": "5s"})


@mistake("an executor with the key of an agent")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, "tools:call", **registration("get_order_status", role="executor"))


@mistake("an executor whose tool has a reserved name")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, **registration("agent.help", role="executor"))


@mistake("an executor with a name of two words")
async def _(one: Newcomer) -> httpx2.Response:
    return await command(one, **registration("get_order_status", role="executor", executor="my orders"))


@for_each("name", list(MISTAKES))
async def test_a_mistake_over_http_gets_exactly_this_text(newcomer, name):
    response = await MISTAKES[name](newcomer)
    assert response.headers["content-type"] == "application/problem+json", response.text
    problem = json.loads(response.content)
    assert problem["status"] == response.status_code
    places = {
        newcomer.upstream.url.removeprefix("http://"): "upstream",
        str(response.headers.get("retry-after", "\0")): "seconds",
    }
    assert with_placeholders(as_text(problem), places) == expected_texts()[name]
