"""The fault proxy itself: what each toxic does to a connection, at the byte where it should."""

import asyncio
import time
from collections.abc import AsyncIterator

import pytest

from tests.faults.proxy import FaultProxy, Toxic, proxied


@pytest.fixture
async def echo() -> AsyncIterator[tuple[str, int]]:
    """A server that sends back what it gets, and ends when the client does."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    yield server.sockets[0].getsockname()
    server.close()


async def dial(proxy: FaultProxy) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    return await asyncio.open_connection("127.0.0.1", proxy.port)


async def drained(reader: asyncio.StreamReader) -> None:
    """Reads piece by piece, since `read(-1)` would raise before it gives what came."""
    while await reader.read(1):
        pass


async def test_without_a_toxic_bytes_and_the_end_pass(echo):
    async with proxied(echo) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"x" * 300_000)
        writer.write_eof()
        assert await reader.read(-1) == b"x" * 300_000
        writer.close()
        for _ in range(300):
            await asyncio.sleep(0.01 if len(proxy) else 0)
        assert len(proxy) == 0


@pytest.mark.parametrize("way", ["up", "down"])
async def test_latency_delays(echo, way):
    async with proxied(echo, Toxic("latency", way, value=0.2)) as proxy:
        reader, writer = await dial(proxy)
        began = time.monotonic()
        writer.write(b"hello")
        assert await reader.readexactly(5) == b"hello"
        assert time.monotonic() - began >= 0.2
        writer.close()


async def test_bandwidth_keeps_to_its_rate(echo):
    async with proxied(echo, Toxic("bandwidth", value=10_000)) as proxy:
        reader, writer = await dial(proxy)
        began = time.monotonic()
        writer.write(b"x" * 3_000)
        await reader.readexactly(3_000)
        assert time.monotonic() - began >= 0.25
        writer.close()


async def test_a_slicer_cuts_into_pieces(echo):
    async with proxied(echo, Toxic("slicer", value=2)) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"abcdef")
        assert await reader.read(100) in (b"ab", b"abcd")
        writer.close()


@pytest.mark.parametrize("after", [0, 4])
async def test_a_byte_limit_ends_the_connection_in_order(echo, after):
    async with proxied(echo, Toxic("limit_data", after=after, value=6)) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"0123456789ABCDEF")
        assert await reader.read(-1) == b"0123456789ABCDEF"[: after + 6]
        writer.close()


async def test_slow_close_holds_the_end_back(echo):
    async with proxied(echo, Toxic("slow_close", value=0.2)) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"ab")
        writer.write_eof()
        assert await reader.readexactly(2) == b"ab"
        began = time.monotonic()
        assert await reader.read(-1) == b""
        assert time.monotonic() - began >= 0.15
        writer.close()


@pytest.mark.parametrize("after", [0, 3])
async def test_a_black_hole_gives_nothing_until_it_is_healed(echo, after):
    async with proxied(echo, Toxic("timeout", after=after)) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"hello")
        assert await reader.readexactly(after) == b"hello"[:after]
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.1):
                await reader.read(1)
        proxy.poison(None)
        assert await reader.readexactly(5 - after) == b"hello"[after:]
        writer.close()


@pytest.mark.parametrize("kind", ["reset_peer", "down"])
async def test_a_reset_comes_at_its_byte(echo, kind):
    async with proxied(echo, Toxic(kind, after=3)) as proxy:
        reader, writer = await dial(proxy)
        writer.write(b"ab")
        assert await reader.readexactly(2) == b"ab"
        writer.write(b"cd")
        with pytest.raises(ConnectionResetError):
            await drained(reader)
        writer.close()


async def test_a_proxy_that_is_down_refuses_connections_until_it_is_healed(echo):
    async with proxied(echo, Toxic("down")) as proxy:
        port = proxy.port
        reader, writer = await dial(proxy)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
        with pytest.raises(ConnectionRefusedError):
            await dial(proxy)
        await proxy.heal()
        assert proxy.port == port
        reader, writer = await dial(proxy)
        writer.write(b"x")
        assert await reader.readexactly(1) == b"x"
        await proxy.cut()
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()


async def test_a_server_that_is_not_there_resets(echo):
    async with proxied(("127.0.0.1", 1)) as proxy:
        reader, writer = await dial(proxy)
        with pytest.raises(ConnectionResetError):
            await reader.read(1)
        writer.close()
