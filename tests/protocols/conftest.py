"""An engine that may go to loopback, and real upstreams there."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest
from aiohttp import web

from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.security.masking import Masker
from tests.harness.beside import web_server
from tests.protocols.kits.base import Kit, Upstream


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    yield engine
    await engine.aclose()


@pytest.fixture
def masker() -> Masker:
    return Masker()


@pytest.fixture
async def serve() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """`await serve(handler)` answers every path with an aiohttp handler, and gives the base URL."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(handler) -> str:
            app = web.Application()
            app.router.add_route("*", "/{path:.*}", handler)
            return await stack.enter_async_context(web_server(app))

        yield start


@pytest.fixture
async def respond() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """`await respond(*pieces)` writes raw bytes, one piece every 50 ms, to whoever comes; gives the URL.

    The event `respond.closed` tells when the caller's connection has ended.
    """
    servers: list[asyncio.Server] = []
    closed = asyncio.Event()

    async def start(*pieces: bytes, forever: bool = False) -> str:
        async def handler(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                await reader.readuntil(b"\r\n\r\n")
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
                    await asyncio.sleep(0.05)
                while forever:
                    writer.write(pieces[-1])
                    await writer.drain()
                    await asyncio.sleep(0.05)
            except (ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
                # asyncio logs a cancelled handler as an error when the loop ends.
                pass
            finally:
                closed.set()
                writer.close()

        server = await asyncio.start_server(handler, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    start.closed = closed
    yield start
    for server in servers:
        server.close()


@pytest.fixture(scope="module")
async def kept() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def upstream(kit: Kit, kept: contextlib.AsyncExitStack) -> AsyncIterator[Upstream]:
    async with kit.anew(kept) as running:
        yield running
