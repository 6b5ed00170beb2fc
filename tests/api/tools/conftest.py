"""The routes of `tools` and `discovery` behind a real server, with real upstreams, PostgreSQL and Redis."""

import asyncio
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace

import pytest
from aiohttp import web

from app.catalog.feed import ChangeNotice, record_change
from app.core.uuid7 import uuid7
from app.security.sealed_credentials import SealedCredential, SealedVariable, seal_credential, seal_variable
from app.storage.models import Credential, Variable
from tests.harness.application import Application, serve_with
from tests.harness.beside import web_server
from tests.stored import clear, store_provider, store_tool

BASE_URL = "https://gateway.example"


class Api:
    """A running gateway and what is behind it."""

    def __init__(self, application: Application) -> None:
        self.application = application
        self.services = application.services
        self.url = application.url

    async def client(self, *scopes, **limits):
        """A client with a new key; the scopes default to reading and calling."""
        scopes = scopes or ("tools:read", "tools:call")
        return await self.application.client(*scopes, seconds=20, **limits)

    @asynccontextmanager
    async def with_services(self, *, calls=None, **others):
        """The same gateway on another port, with other services there; `calls` are fields of `CallServices`."""
        changed = {"calls": replace(self.services.calls, **calls)} if calls else {}
        async with serve_with(self.application, **changed, **others) as application:
            yield Api(application)

    async def provider(self, name="api", **fields):
        row = await store_provider(self.services.database, name, **fields)
        await self.services.feed.catch_up()
        return row

    async def tool(self, provider, name, template, **fields):
        template = {"call_template_type": "http", "http_method": "GET", **template}
        row = await store_tool(self.services.database, provider, name, call_template=template, **fields)
        await self.services.feed.catch_up()
        return row

    async def credential(self, provider, slot, kind, fields, *, origins, public=None, variables=()):
        sealed = seal_credential(
            SealedCredential(
                uuid7(), provider.tenant_id, provider.id, slot, 1, kind, public or {}, tuple(origins), b""
            ),
            vault=self.services.vault,
            fields=fields,
        )
        async with self.services.database.transaction() as session:
            session.add(
                Credential(
                    id=sealed.id,
                    provider_id=provider.id,
                    slot=slot,
                    kind=kind,
                    public=dict(sealed.public),
                    allowed_origins=list(origins),
                    sealed=sealed.sealed,
                    variable_names=list(variables),
                    fingerprint="f",
                )
            )
            await session.flush()
            await record_change(session, kind="credential", provider_id=provider.id, object_id=slot)
        await self.services.feed.catch_up()

    async def variable(self, name, value, *, provider=None, secret=True):
        owner = None if provider is None else provider.id
        made = seal_variable(
            SealedVariable(uuid7(), Variable(name="x").tenant_id, name, secret, None, None, 1, owner),
            vault=self.services.vault,
            value=value,
        )
        async with self.services.database.transaction() as session:
            session.add(
                Variable(
                    id=made.id,
                    provider_id=owner,
                    name=name,
                    secret=secret,
                    value=made.value,
                    sealed=made.sealed,
                )
            )
            await session.flush()
            await record_change(session, kind="variable", provider_id=owner, object_id=name)
        await self.services.feed.catch_up()

    async def calls(self):
        """The stored call records, the newest first."""
        await self.services.call_log.flush()
        reader = await self.client("calls:read")
        return (await reader.get("/calls")).json()["items"]

    async def recorded_call(self):
        """The newest call record, once there is one."""
        async with asyncio.timeout(10):
            while not (calls := await self.calls()):  # noqa: ASYNC110 - a record has no event.
                await asyncio.sleep(0.02)
        return calls[0]


@pytest.fixture(scope="module")
async def served(applications):
    with pytest.MonkeyPatch.context() as environment:
        environment.setenv("FROM_ENV", "env-value")
        environment.setenv("OTHER", "no")
        application = await applications.get(
            # Upstreams on probation rest after each response, which would hide how connections are shared.
            probation=0.0,
            public_base_url=BASE_URL,
            max_request_bytes=64 * 1024,
            variable_env_names=("FROM_ENV",),
            breaker_open_seconds=2,
        )
        yield Api(application)


@pytest.fixture
async def api(served):
    services = served.services
    await services.call_log.flush()
    await clear(services.database)
    manuals = served.application.manuals
    for reader in (services.search, services.words, manuals, services.catalog, services.collections):
        await reader.on_changes([ChangeNotice("all")])
    yield served
    await served.application.close_clients()


@dataclass
class Upstream:
    """An upstream that records its requests; `left` is set once a client has disconnected early."""

    url: str = ""
    requests: list = field(default_factory=list)
    arrived: asyncio.Event = field(default_factory=asyncio.Event)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    second_part: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: int = 0
    accepted: str = "token-1"

    async def echo(self, request):
        body = await request.read()
        self.requests.append((request.method, request.raw_path, dict(request.headers), body))
        return web.json_response({"method": request.method, "path": request.raw_path, "body": body.decode()})

    async def respond(self, request):
        """`/respond/{status}/{kind}`"""
        kind = request.match_info["kind"]
        media, body = RESPONSES[kind]
        headers = {"ETag": '"1"', "Set-Cookie": "a=b", "Link": '</next>; rel="next"'}
        if media:
            headers["Content-Type"] = media
        return web.Response(status=int(request.match_info["status"]), body=body, headers=headers)

    async def redirect(self, request):
        """To `to` with `status`."""
        self.requests.append((request.method, request.raw_path, dict(request.headers), await request.read()))
        headers = {"Location": request.query["to"]}
        body = request.query.get("text")
        return web.Response(status=int(request.query["status"]), headers=headers, text=body)

    async def slow(self, request):
        self.arrived.set()
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            self.left.set()
            raise

    async def drip(self, request):
        response = web.StreamResponse(headers={"Content-Type": request.query.get("type", "text/plain")})
        await response.prepare(request)
        try:
            for _ in range(int(request.query.get("count", 1000))):
                await response.write(b"x" * int(request.query.get("size", 10)))
                await asyncio.sleep(float(request.query.get("pause", 0.05)))
        except (asyncio.CancelledError, ConnectionResetError):
            self.left.set()
            raise
        return response

    async def pieces(self, request):
        """The query's `body`, in chunks of 7 bytes or of `size`, without a length."""
        response = web.StreamResponse(headers={"Content-Type": request.query.get("type", "application/json")})
        await response.prepare(request)
        body = request.query["body"].encode(request.query.get("coded", "utf-8")) * int(
            request.query.get("times", 1)
        )
        size = int(request.query.get("size", 7))
        if "bom" in request.query:
            body = b"\xef\xbb\xbf" + body
        for start in range(0, len(body), size):
            await response.write(body[start : start + size])
            await asyncio.sleep(0.001)
        return response

    async def in_two_parts(self, request):
        """10 bytes, and 20 more once `second_part` is set."""
        response = web.StreamResponse(headers={"Content-Type": "text/plain"})
        await response.prepare(request)
        await response.write(b"x" * 10)
        self.arrived.set()
        await self.second_part.wait()
        await response.write(b"x" * 20)
        return response

    async def broken(self, request):
        length = request.query.get("length")
        response = web.StreamResponse(headers={"Content-Length": length} if length else {})
        await response.prepare(request)
        await response.write(b"half")
        await asyncio.sleep(0.2)
        request.transport.abort()
        return response

    async def token(self, request):
        self.tokens += 1
        return web.json_response(
            {"access_token": f"token-{self.tokens}", "token_type": "Bearer", "expires_in": 3600}
        )

    async def guarded(self, request):
        if request.headers.get("Authorization") != f"Bearer {self.accepted}":
            return web.json_response({"error": "expired"}, status=401)
        return await self.echo(request)


RESPONSES = {
    "json": ("application/json", b'{"a": 1}'),
    "large": ("application/json", b'{"a": "' + b"x" * 70_000 + b'"}'),
    "hal": ("application/hal+json; charset=utf-8", b'{"a": 1}'),
    "problem": ("application/problem+json", b'{"detail": "no"}'),
    "text": ("text/plain; charset=utf-8", "grüß".encode()),
    "latin": ("text/plain; charset=iso-8859-1", "grüß".encode("latin-1")),
    "html": ("text/html", b"<script>alert(1)</script>"),
    "binary": ("image/png", b"\x89PNG\x00\xff"),
    "empty": ("", b""),
    "emptyjson": ("application/json", b""),
    "nojson": ("application/json", b"<oops>"),
}


@pytest.fixture
async def upstream():
    site = Upstream()
    application = web.Application()
    application.router.add_route("*", "/respond/{status}/{kind}", site.respond)
    application.router.add_route("*", "/redirect", site.redirect)
    application.router.add_get("/slow", site.slow)
    application.router.add_get("/drip", site.drip)
    application.router.add_get("/pieces", site.pieces)
    application.router.add_get("/in-two-parts", site.in_two_parts)
    application.router.add_get("/broken", site.broken)
    application.router.add_post("/slow-token", site.slow)
    application.router.add_post("/slow-post", site.slow)
    application.router.add_post("/token", site.token)
    application.router.add_route("*", "/guarded", site.guarded)
    application.router.add_route("*", "/{rest:.*}", site.echo)
    async with web_server(application, handler_cancellation=True) as site.url:
        yield site
