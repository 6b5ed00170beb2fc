"""An upstream that decodes nothing, and captures requests as received on the socket."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tests.harness.beside import beside, raw_server

_HEAD = "HTTP/1.1 {} OK\r\nContent-Type: {}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Captured:
    """One request: the request line's own target, every field line in order, and the bytes of the body."""

    method: str
    target: str
    headers: tuple[tuple[str, str], ...]
    body: bytes


@dataclass(slots=True)
class Capture:
    """A running server, which sends the same response to each request."""

    url: str = ""
    status: int = 200
    media_type: str = "application/json"
    content: bytes = b"{}"
    requests: list[Captured] = field(default_factory=list)

    def only(self) -> Captured:
        """Return the one request since the last call of this method."""
        [one] = self.requests
        self.requests.clear()
        return one

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one request and close the connection, as the response announces."""
        head = await reader.readuntil(b"\r\n\r\n")
        line, *lines = head.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
        method, target, version = line.split(" ")
        assert version == "HTTP/1.1"
        headers = tuple((name, value) for name, _, value in (one.partition(": ") for one in lines))
        length = {name.lower(): value for name, value in headers}.get("content-length", "0")
        body = await reader.readexactly(int(length))
        self.requests.append(Captured(method, target, headers, body))
        head_of_response = _HEAD.format(self.status, self.media_type, len(self.content))
        writer.write(head_of_response.encode() + self.content)
        writer.close()
        await writer.wait_closed()


@contextmanager
def capture() -> Iterator[Capture]:
    """Run a server on a loop of its own until the block ends."""
    site = Capture()
    with beside(raw_server(site.serve)) as site.url:
        yield site
