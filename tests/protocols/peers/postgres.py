"""A TCP port of loopback in front of a PostgreSQL, which may listen at a Unix socket only."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from urllib.parse import parse_qs, urlsplit

from tests.protocols.peers.tcp import tcp_server


async def _connect(dsn: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(dsn)
    given = parse_qs(parts.query)
    host = parts.hostname or given.get("host", ["127.0.0.1"])[0]
    port = parts.port or int(given.get("port", ["5432"])[0])
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    """Pass on what is read until it ends; return it."""
    passed = bytearray()
    with contextlib.suppress(OSError):
        while piece := await reader.read(65536):
            passed += piece
            writer.write(piece)
            await writer.drain()
    with contextlib.suppress(OSError):
        writer.close()
    return bytes(passed)


@contextlib.asynccontextmanager
async def postgres_port(dsn: str, *, note: Callable[[bytes], None] | None = None) -> AsyncIterator[int]:
    """Yield a port at which the server of the DSN is reached. `note` gets all that a client has sent, at the end
    of its connection.
    """

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        inner_reader, inner_writer = await _connect(dsn)
        sent, _ = await asyncio.gather(_forward(reader, inner_writer), _forward(inner_reader, writer))
        if note is not None:
            note(sent)

    async with tcp_server(handle) as port:
        yield port
