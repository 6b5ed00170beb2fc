"""A TCP port in front of PostgreSQL that counts the transactions of its clients as they end."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from urllib.parse import parse_qs, urlsplit

from tests.harness.beside import beside, raw_server


@dataclass(slots=True)
class PostgresProxy:
    """A running proxy. Connect to `dsn`; `transactions` were committed or rolled back through it so far.

    While `is_open` is False it closes each new connection; it has closed `rejected` so far.

    A statement outside a transaction block counts as one, and so does each step of preparing one: whatever
    PostgreSQL ends with ReadyForQuery in the state "idle"
    (https://www.postgresql.org/docs/current/protocol-message-formats.html).
    """

    dsn: str = ""
    transactions: int = 0
    is_open: bool = True
    rejected: int = 0


async def _connect(dsn: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    parts = urlsplit(dsn)
    query = parse_qs(parts.query)
    host = parts.hostname or query.get("host", ["127.0.0.1"])[0]
    port = parts.port or int(query.get("port", ["5432"])[0])
    if host.startswith("/"):
        return await asyncio.open_unix_connection(f"{host}/.s.PGSQL.{port}")
    return await asyncio.open_connection(host, port)


async def _forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()


async def _forward_and_count(
    proxy: PostgresProxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
) -> None:
    while True:
        head = await reader.readexactly(5)
        body = await reader.readexactly(int.from_bytes(head[1:]) - 4)
        if head[:1] == b"Z" and body == b"I":
            proxy.transactions += 1
        writer.write(head + body)
        await writer.drain()


@contextmanager
def postgres_proxy(dsn: str) -> Iterator[PostgresProxy]:
    """Run a proxy to the database of this DSN until the block ends."""
    proxy = PostgresProxy()

    async def serve(client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        if not proxy.is_open:
            proxy.rejected += 1
            client_writer.close()
            return
        reader, writer = await _connect(dsn)
        directions = (
            asyncio.ensure_future(_forward(client_reader, writer)),
            asyncio.ensure_future(_forward_and_count(proxy, reader, client_writer)),
        )
        with suppress(asyncio.CancelledError):
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        for direction in directions:
            direction.cancel()
        await asyncio.gather(*directions, return_exceptions=True)
        for end in (writer, client_writer):
            end.close()

    parts = urlsplit(dsn)
    account = parts.netloc.rpartition("@")[0]
    with beside(raw_server(serve)) as url:
        address = urlsplit(url).netloc
        proxy.dsn = f"postgresql://{account or 'postgres'}@{address}{parts.path}?sslmode=disable"
        yield proxy
