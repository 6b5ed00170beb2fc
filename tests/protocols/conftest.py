"""An engine that may go to loopback, and real upstreams there."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.security.masking import Masker
from tests.protocols.kits.base import Kit, Upstream
from tests.protocols.peers.http import Handler, http_server
from tests.protocols.peers.tcp import tcp_server


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
    """`await serve(handler)` responds on every path with an aiohttp handler, and returns the base URL."""
    async with contextlib.AsyncExitStack() as stack:

        async def start(handler: Handler) -> str:
            return await stack.enter_async_context(http_server(handler))

        yield start


@pytest.fixture
async def respond() -> AsyncIterator[Callable[..., Awaitable[str]]]:
    """`await respond(*pieces)` writes raw bytes, one piece every 50 ms, after each request, and returns the URL.

    The event `respond.closed` is set when the connection of the client has ended.
    """
    closed = asyncio.Event()
    async with contextlib.AsyncExitStack() as stack:

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
                finally:
                    closed.set()

            return f"http://127.0.0.1:{await stack.enter_async_context(tcp_server(handler))}"

        start.closed = closed
        yield start


@pytest.fixture(scope="session")
async def session_stack() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def upstream(kit: Kit, session_stack: contextlib.AsyncExitStack) -> AsyncIterator[Upstream]:
    async with kit.anew(session_stack) as running:
        yield running
