"""The routes of `tools` and `discovery` behind a real server, with real upstreams, PostgreSQL and Redis."""

import asyncio
import contextlib
from dataclasses import dataclass, field
from types import SimpleNamespace

import httpx2
import pytest
import uvicorn
from aiohttp import web
from fastapi import FastAPI

from app import redis_client
from app.access import KeyVerifier
from app.access.data_keys import open_vault
from app.access.repository import create_key
from app.call_api.endpoint import CALL_ROUTE
from app.call_log.batch_writer import CallWriter
from app.calls.event_stream import Streams
from app.calls.execution import Rooms
from app.calls.quota import Quota
from app.catalog import Catalog
from app.catalog.feed import Change, Feed, record_change
from app.catalog.loader import Loader
from app.cli.server import server_config
from app.database import Database
from app.discovery import Manuals
from app.discovery import router as discovery_router
from app.models import Credential, Variable, new_id
from app.outbound.credentials import CredentialResolver
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenEndpoint
from app.outbound.tokens import TokenCache
from app.protocols.base import AdapterContext
from app.protocols.registry import Adapters
from app.resilience import Origins
from app.search import SearchIndex
from app.security.credentials import SealedCredential, SealedVariable, seal_credential, seal_variable
from app.security.masking import Masker
from app.security.vault import KeyRing
from app.server import problems
from app.settings import Settings
from app.telemetry.metrics import Metrics
from app.tools import router as tools_router
from tests.stored import clear, store_provider, store_tool

BASE_URL = "https://gateway.example"


@dataclass
class Api:
    """A running gateway and what is behind it."""

    url: str
    state: SimpleNamespace
    app: FastAPI
    opened: list[httpx2.AsyncClient] = field(default_factory=list)

    async def client(self, *scopes, **limits):
        """A client with a new key; the scopes default to reading and calling."""
        async with self.state.database.writing() as session:
            minted = await create_key(
                session,
                self.state.vault,
                name="test",
                scopes=scopes or ("tools:read", "tools:call"),
                actor="test",
                **limits,
            )
        await self.state.feed.catch_up()
        made = httpx2.AsyncClient(
            base_url=self.url,
            headers={"Authorization": f"Bearer {minted.text.reveal()}"},
            trust_env=False,
            timeout=20,
        )
        self.opened.append(made)
        return made

    async def provider(self, name="api", **fields):
        row = await store_provider(self.state.database, name, **fields)
        await self.state.feed.catch_up()
        return row

    async def tool(self, provider, name, template, **fields):
        template = {"call_template_type": "http", "http_method": "GET", **template}
        row = await store_tool(self.state.database, provider, name, call_template=template, **fields)
        await self.state.feed.catch_up()
        return row

    async def credential(self, provider, slot, kind, fields, *, origins, public=None, variables=()):
        sealed = seal_credential(
            SealedCredential(
                new_id(), provider.tenant_id, provider.id, slot, 1, kind, public or {}, tuple(origins), b""
            ),
            vault=self.state.vault,
            fields=fields,
        )
        async with self.state.database.writing() as session:
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
        await self.state.feed.catch_up()

    async def variable(self, name, value, *, provider=None, secret=True):
        owner = None if provider is None else provider.id
        made = seal_variable(
            SealedVariable(new_id(), Variable(name="x").tenant_id, name, secret, None, None, 1, owner),
            vault=self.state.vault,
            value=value,
        )
        async with self.state.database.writing() as session:
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
        await self.state.feed.catch_up()

    async def calls(self):
        """The stored call records, the newest first."""
        await self.state.calls.flush()
        reader = await self.client("calls:read")
        return (await reader.get("/calls")).json()["items"]


async def _state(database_url, redis_url):
    settings = Settings(
        _env_file=None,
        public_base_url=BASE_URL,
        max_request_bytes=64 * 1024,
        variable_env_names=("FROM_ENV",),
        breaker_open_seconds=2,
    )
    database = Database(database_url, pool_size=5)
    redis = redis_client.connect(redis_url)
    masker = Masker()
    vault = await open_vault(database, KeyRing.parse(KeyRing.generate("test")))
    engine = Engine(Guard(allow_networks=("127.0.0.0/8",), allow_ports=None, own_addresses=()), probation=0)
    shared = redis_client.Cache(redis)
    tokens = TokenCache(vault, TokenEndpoint(engine), shared)
    adapters = Adapters(AdapterContext(engine, engine.network, masker, settings))
    metrics = Metrics()
    origins = Origins(engine.clock)
    quota = Quota.of(settings, database=database, cache=shared, vault=vault, clock=engine.clock)
    streams = Streams(engine.clock, asyncio.Event())
    loader = Loader(
        database, vault, adapters, origins, settings,
        environment={"FROM_ENV": "env-value", "OTHER": "no"},
    )  # fmt: skip
    catalog = Catalog(loader.load, capacity=1000)
    resolver = CredentialResolver(vault, tokens, masker)
    calls = CallWriter(database, flush_seconds=30)
    return SimpleNamespace(
        settings=settings,
        database=database,
        redis=redis,
        vault=vault,
        engine=engine,
        tokens=tokens,
        feed=Feed(database, listen_dsn=None, poll_seconds=30),
        catalog=catalog,
        resolver=resolver,
        search=SearchIndex(database, base_url=settings.base_url),
        manuals=Manuals(database, base_url=settings.base_url),
        keys=KeyVerifier(database, vault),
        calls=calls,
        metrics=metrics,
        origins=origins,
        rooms=Rooms(
            catalog=catalog,
            resolver=resolver,
            clock=engine.clock,
            calls=calls,
            metrics=metrics,
            body_bytes=settings.max_request_bytes,
            longest_wait=settings.retry_after_most,
            streams=streams,
            quota=quota,
        ),
        quota=quota,
        streams=streams,
    )


@contextlib.asynccontextmanager
async def _served(app):
    server = uvicorn.Server(
        server_config(app, Settings(_env_file=None), port=0, log_level="error", lifespan="on")
    )
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it.
        await asyncio.sleep(0.01)
    yield f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    server.should_exit = True
    await running


@pytest.fixture(scope="module")
async def gateway_state(database_url, redis_url):
    state = await _state(database_url, redis_url)
    for room in (state.catalog, state.search, state.manuals):
        state.feed.subscribe(room.on_changes)
    await state.feed.start()
    await state.search.start()
    yield state
    await state.quota.aclose()
    await state.search.aclose()
    await state.feed.aclose()
    await state.tokens.aclose()
    await state.engine.aclose()
    await state.redis.aclose()
    await state.redis.connection_pool.disconnect()
    await state.database.aclose()


@pytest.fixture(scope="module")
async def served(gateway_state):
    @contextlib.asynccontextmanager
    async def lifespan(_app):
        yield dict(vars(gateway_state))

    app = FastAPI(lifespan=lifespan, openapi_url=None)
    problems.install(app)
    app.router.routes.append(CALL_ROUTE)
    app.include_router(tools_router)
    app.include_router(discovery_router)
    async with _served(app) as url:
        yield Api(url, gateway_state, app)


@pytest.fixture
async def api(served):
    await served.state.calls.flush()
    await clear(served.state.database)
    await served.state.search.on_changes([Change("all")])
    await served.state.manuals.on_changes([Change("all")])
    await served.state.catalog.on_changes([Change("all")])
    yield served
    for client in served.opened:
        await client.aclose()
    served.opened.clear()


@dataclass
class Upstream:
    """An upstream that remembers what came, and what it was told of leaving callers."""

    url: str = ""
    requests: list = field(default_factory=list)
    left: asyncio.Event = field(default_factory=asyncio.Event)
    tokens: int = 0
    accepted: str = "token-1"

    async def echo(self, request):
        body = await request.read()
        self.requests.append((request.method, request.raw_path, dict(request.headers), body))
        return web.json_response({"method": request.method, "path": request.raw_path, "body": body.decode()})

    async def answer(self, request):
        """`/answer/{status}/{kind}`"""
        kind = request.match_info["kind"]
        media, body = ANSWERS[kind]
        headers = {"ETag": '"1"', "Set-Cookie": "a=b", "Link": '</next>; rel="next"'}
        if media:
            headers["Content-Type"] = media
        return web.Response(status=int(request.match_info["status"]), body=body, headers=headers)

    async def slow(self, request):
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


ANSWERS = {
    "json": ("application/json", b'{"a": 1}'),
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
    application.router.add_route("*", "/answer/{status}/{kind}", site.answer)
    application.router.add_get("/slow", site.slow)
    application.router.add_get("/drip", site.drip)
    application.router.add_get("/pieces", site.pieces)
    application.router.add_get("/broken", site.broken)
    application.router.add_post("/slow-token", site.slow)
    application.router.add_post("/token", site.token)
    application.router.add_route("*", "/guarded", site.guarded)
    application.router.add_route("*", "/{rest:.*}", site.echo)
    runner = web.AppRunner(application, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
    await runner.setup()
    listener = web.TCPSite(runner, "127.0.0.1", 0)
    await listener.start()
    site.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    yield site
    await runner.cleanup()
