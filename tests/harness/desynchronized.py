"""An upstream whose responses are desynchronized from its requests, in all known ways.

Each request carries `id=<nonce>` in its target, and a correct response echoes it. A client that gets another nonce has got
the response to another request.
"""

import asyncio
import contextlib
import re
import time
from typing import Final, Self

MODES: Final = {
    "sound": "correct responses, for comparison",
    "early": "responds before it has read the body, which it takes for the beginning of the next request",
    "head": "a body after HEAD",
    "second": "an unsolicited second response, at once",
    "second-1ms": "an unsolicited second response after 1 ms",
    "second-5ms": "... after 5 ms",
    "second-30ms": "... after 30 ms",
    "second-100ms": "... after 100 ms",
    "garbage": "bytes that are not HTTP after the response",
    "two-finals": "an interim response, then two final ones",
    "204": "a response after a 204",
    "304": "a body after a 304",
    "short": "a Content-Length that is too short; the tail looks like a response",
    "http-1.0": "HTTP/1.0 with keep-alive, then a second response",
    "both-lengths": "Content-Length and Transfer-Encoding, then a second response",
    "on-request": "a second response as soon as the next request arrives, before the response to that",
}

_NONCE: Final = re.compile(rb"[?&]id=([A-Za-z0-9-]+)")
_LENGTH: Final = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def response(nonce: bytes, status: bytes = b"200 OK", extra: bytes = b"") -> bytes:
    """Return the correct response to a request."""
    body = b'{"nonce": "' + nonce + b'"}'
    head = b"HTTP/1.1 " + status + b"\r\nContent-Type: application/json\r\n" + extra
    return head + b"Content-Length: %d\r\n\r\n" % len(body) + body


class DesynchronizedUpstream:
    """A server that responds to every `every`-th request according to the mode, and correctly to all others.

    For the first `sound_seconds` all responses are correct.
    Unsolicited responses repeat the nonce of the request before; `unsolicited` counts them, `connections` the connections.
    """

    def __init__(self, mode: str, *, every: int = 1, sound_seconds: float = 0.0) -> None:
        self._mode = mode
        self._every = every
        self._sound_seconds = sound_seconds
        self._began = 0.0
        self._server: asyncio.Server | None = None
        self._requests = 0
        self._late: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.connections = 0
        self.unsolicited = 0
        self.port = 0

    @property
    def url(self) -> str:
        """The origin of the server."""
        return f"http://127.0.0.1:{self.port}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, backlog=1024)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for task in self._late:
            task.cancel()
        for writer in self._writers:
            writer.transport.abort()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        self._writers.add(writer)
        pending = b""
        with contextlib.suppress(
            ConnectionError, asyncio.IncompleteReadError, asyncio.LimitOverrunError, asyncio.CancelledError
        ):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                self._began = self._began or time.monotonic()
                self._requests += 1
                bad = (
                    self._requests % self._every == 0
                    and time.monotonic() - self._began >= self._sound_seconds
                )
                mode = self._mode if bad else "sound"
                if pending:
                    self.unsolicited += 1
                    writer.write(pending)
                    pending = b""
                if mode != "early" and (length := _LENGTH.search(head)):
                    await reader.readexactly(int(length[1]))
                nonce = found[1] if (found := _NONCE.search(head)) else b"none"
                pending = self._respond(writer, head, nonce, mode)
                await writer.drain()
        self._writers.discard(writer)
        writer.close()

    def _respond(self, writer: asyncio.StreamWriter, head: bytes, nonce: bytes, mode: str) -> bytes:
        """Write the response, and return the bytes to write when the next request arrives."""
        right = response(nonce)
        is_head = b"HEAD " in head[:12]
        if is_head:
            writer.write(right if mode == "head" else right[: right.index(b"\r\n\r\n") + 4])
            self.unsolicited += mode == "head"
            return b""
        if mode in ("sound", "head", "early"):
            writer.write(right)
            return b""
        if mode == "on-request":
            writer.write(right)
            return right
        if mode.startswith("second-"):
            writer.write(right)
            self._later(writer, right, float(mode[7:-2]) / 1000)
            return b""
        self.unsolicited += 1
        body = right[right.index(b"\r\n\r\n") + 4 :]
        writer.write(
            {
                "second": right + right,
                "garbage": right + b"\x00\x01garbage " + nonce + b"\r\n\r\n",
                "two-finals": b"HTTP/1.1 103 Early Hints\r\nLink: </>\r\n\r\n" + right + right,
                "204": b"HTTP/1.1 204 No Content\r\n\r\n",
                "304": b"HTTP/1.1 304 Not Modified\r\n\r\n",
                "short": b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(body) + body + right,
                "http-1.0": right.replace(
                    b"HTTP/1.1 200 OK\r\n", b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\n"
                )
                + right,
                "both-lengths": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: %d\r\n\r\n"
                % len(body)
                + body
                + right,
            }[mode]
        )
        if mode in ("204", "304"):
            self.unsolicited -= 1
            self._later(writer, right, 0.001)
        return b""

    def _later(self, writer: asyncio.StreamWriter, data: bytes, seconds: float) -> None:
        async def send() -> None:
            await asyncio.sleep(seconds)
            if not writer.is_closing():
                self.unsolicited += 1
                writer.write(data)

        task = asyncio.get_running_loop().create_task(send())
        self._late.add(task)
        task.add_done_callback(self._late.discard)
