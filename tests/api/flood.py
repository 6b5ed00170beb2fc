"""An upstream in a thread of its own that writes raw HTTP: large, endless and silent responses."""

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

from tests.harness.beside import beside, raw_server

_BLOCK = b'{"fill":"' + b"x" * 65_524 + b'"}\n'


@dataclass(slots=True)
class Flood:
    """A running server.

    The response to `GET /bytes/{count}` has a length, that to `/chunks/{count}` none, `/lines/{count}` is
    NDJSON, `/events` an event stream that is silent after one event, `/silent` never responds.
    """

    url: str = ""
    written: int = 0
    """The number of bytes written to its connections so far."""
    open: int = 0
    left: threading.Event = field(default_factory=threading.Event)
    """Set when a client has disconnected before its response was complete."""


_CHUNKED = b"HTTP/1.1 200 OK\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\nConnection: close\r\n\r\n"


async def _respond(site: Flood, kind: str, count: int, writer: asyncio.StreamWriter) -> None:
    if kind == "bytes":
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/octet-stream\r\nContent-Length: %d\r\n\r\n"
        writer.write(head % count)
        while count > 0:
            writer.write(_BLOCK[:count])
            await writer.drain()
            site.written += min(len(_BLOCK), count)
            count -= len(_BLOCK)
        return
    if kind == "silent":
        await asyncio.sleep(600)
    media = {"lines": b"application/x-ndjson", "events": b"text/event-stream"}.get(kind, b"application/json")
    writer.write(_CHUNKED % media)
    if kind == "events":
        writer.write(b"9\r\ndata: 1\n\n\r\n")
        await asyncio.sleep(600)
    while count > 0:
        writer.write(b"%x\r\n%b\r\n" % (len(_BLOCK), _BLOCK))
        await writer.drain()
        site.written += len(_BLOCK)
        count -= len(_BLOCK)
    writer.write(b"0\r\n\r\n")
    await writer.drain()


@contextmanager
def flood() -> Iterator[Flood]:
    """Run the server until the block ends."""
    site = Flood()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        site.open += 1
        with suppress(ConnectionError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                _, kind, *count = head.split(b" ")[1].decode().split("/")
                responding = asyncio.ensure_future(
                    _respond(site, kind, int(count[0]) if count else 0, writer)
                )
                # The next thing to read is the end of the connection, unless the response is complete.
                leaving = asyncio.ensure_future(reader.read(1))
                await asyncio.wait({responding, leaving}, return_when=asyncio.FIRST_COMPLETED)
                complete = responding.done() and not responding.cancelled() and responding.exception() is None
                if not complete:
                    site.left.set()
                responding.cancel()
                leaving.cancel()
                await asyncio.gather(responding, leaving, return_exceptions=True)
                if not complete or kind != "bytes":
                    break
        site.open -= 1
        writer.close()

    with beside(raw_server(serve)) as site.url:
        yield site
