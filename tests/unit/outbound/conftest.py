"""Real upstreams on loopback: well-behaved ones (aiohttp.web) and hostile ones (raw sockets)."""

import asyncio
import base64
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from urllib.parse import unquote_plus
from uuid import uuid4

import pytest
from aiohttp import web
from redis.asyncio import Redis

from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.oauth2 import TokenRequest
from app.security.secret import Secret
from app.security.vault import KeyRing, Vault
from tests.harness.beside import web_server

Handler = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


class RawUpstream:
    """A listener that speaks whatever its handler writes, and counts connections and their ends."""

    def __init__(self, handler: Handler) -> None:
        self._handler = handler
        self.connections = 0
        self.closed = asyncio.Event()
        self.heads: list[bytes] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            self.heads.append(await reader.readuntil(b"\r\n\r\n"))
            await self._handler(reader, writer)
            await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            self.closed.set()
            writer.close()


@asynccontextmanager
async def raw_upstream(handler: Handler) -> AsyncIterator[RawUpstream]:
    upstream = RawUpstream(handler)
    server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0)
    upstream.port = server.sockets[0].getsockname()[1]
    try:
        yield upstream
    finally:
        server.close()


@pytest.fixture
async def raw() -> AsyncIterator[Callable[[Handler], Awaitable[RawUpstream]]]:
    async with AsyncExitStack() as stack:
        yield lambda handler: stack.enter_async_context(raw_upstream(handler))


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """`await serve(routes...)` starts an aiohttp application and gives its base URL."""
    async with AsyncExitStack() as stack:

        async def start(*routes: web.RouteDef) -> str:
            app = web.Application(client_max_size=64 * 2**20)
            app.add_routes(routes)
            return await stack.enter_async_context(web_server(app))

        yield start


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    """An engine that may go to loopback."""
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    yield engine
    await engine.aclose()


@pytest.fixture
async def strict_engine() -> AsyncIterator[Engine]:
    """An engine with nothing allowed beyond the public internet."""
    engine = Engine(Guard())
    yield engine
    await engine.aclose()


@pytest.fixture
def vault() -> Vault:
    vault = Vault(KeyRing.parse(KeyRing.generate("k")))
    vault.load([vault.new_data_key("data"), vault.new_data_key("digest")])
    return vault


def quick_redis(url: str) -> Redis:
    """A client that answers or fails within 100 ms, as the gateway's own does."""
    return Redis.from_url(url, socket_timeout=0.1, socket_connect_timeout=0.1, retry=None)


@pytest.fixture
async def redis(redis_url: str) -> AsyncIterator[Redis]:
    # What is no test of time-outs must not meet one on a busy machine.
    client = Redis.from_url(redis_url, socket_timeout=5, socket_connect_timeout=5, retry=None)
    yield client
    await client.aclose()


class IdentityProvider:
    """A token endpoint with one client, that counts what it is asked."""

    def __init__(self) -> None:
        self.url = ""
        self.client = ("client", "s3cr3t-of-the-client")
        self.accepts = {"body", "basic"}
        self.requests: list[dict[str, str]] = []
        self.ways: list[str] = []
        self.reply: dict[str, object] = {"token_type": "Bearer", "expires_in": 3600}
        self.delay = 0.0
        self.failure: web.Response | None = None

    async def token(self, request: web.Request) -> web.Response:
        form = {name: str(value) for name, value in (await request.post()).items()}
        self.requests.append(form)
        basic = request.headers.get("Authorization", "")
        way = "basic" if basic else "body"
        self.ways.append(way)
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.failure is not None:
            return self.failure
        given = (form.get("client_id"), form.get("client_secret"))
        if basic:
            pair = base64.b64decode(basic.removeprefix("Basic ")).decode()
            given = tuple(unquote_plus(part, errors="strict") for part in pair.split(":", 1))
        if way not in self.accepts or given != self.client:
            body = {"error": "invalid_client", "error_description": f"unknown: {self.client[1]}"}
            return web.json_response(body, status=401)
        return web.json_response({"access_token": f"token-number-{len(self.requests)}", **self.reply})


@pytest.fixture
async def provider(serve) -> IdentityProvider:
    provider = IdentityProvider()
    provider.url = await serve(web.post("/token", provider.token)) + "/token"
    return provider


@pytest.fixture
def token_request(provider: IdentityProvider) -> TokenRequest:
    return TokenRequest(
        tenant_id=uuid4(),
        credential_id=uuid4(),
        version=1,
        token_url=provider.url,
        client_id=Secret(provider.client[0]),
        client_secret=Secret(provider.client[1]),
        scope="read write",
    )


@pytest.fixture
async def quick() -> AsyncIterator[Callable[[str], Redis]]:
    clients: list[Redis] = []

    def make(url: str) -> Redis:
        clients.append(quick_redis(url))
        return clients[-1]

    yield make
    for client in clients:
        await client.aclose()
