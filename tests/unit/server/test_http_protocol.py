"""The HTTP server's own part of a request, by raw bytes over a socket, in front of a small application."""

import asyncio
import contextlib
import itertools
import json
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import pytest
import uvicorn

from app.cli.server import build_server_config
from app.core.settings import Settings
from app.server.connections import MAX_ENDED_AT_ONCE, ConnectionTable, ServerLimits
from tests.harness.cases import for_each

# Its cases wait for limits of the server, one after the other.
pytestmark = pytest.mark.time_limit(60)

HOST = b"Host: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
GET = b"GET /ok HTTP/1.1\r\nHost: x\r\n\r\n"


@dataclass
class Site:
    """A server with small limits, and an application that notes what it was given."""

    table: ConnectionTable
    port: int = 0
    seen: list[dict[str, Any]] = field(default_factory=list)
    ended: list[str] = field(default_factory=list)
    writers: list[asyncio.StreamWriter] = field(default_factory=list)
    gate: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """`/early` responds before it reads, `/wait` after `gate`, `/large` with 4 MB; others read the body.

        `/fails` ends in an error within its response, `/medium` has 20 kB.
        """
        if scope["type"] == "lifespan":
            await receive()
            scope["state"]["connections"] = self.table
            await send({"type": "lifespan.startup.complete"})
            await receive()
            await send({"type": "lifespan.shutdown.complete"})
            return
        body = b""
        more = scope["path"] != "/early"
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.ended.append(scope["path"])
                return
            body += message["body"]
            more = message["more_body"]
        self.seen.append({**scope, "body": body})
        if scope["path"] == "/wait":
            await self.gate.wait()
        sizes = {"/large": 4 << 20, "/medium": 20_000, "/fails": 20_000}
        size = sizes.get(scope["path"])
        content = b"ok " + scope["path"].encode() if size is None else b"x" * size
        length = b"%d" % len(content)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        if scope["path"] == "/fails":
            await send({"type": "http.response.body", "body": content[:-1], "more_body": True})
            raise ConnectionError("The response is cut")
        await send({"type": "http.response.body", "body": content})
        self.ended.append(scope["path"])

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """A connection, closed with the site."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        self.writers.append(writer)
        return reader, writer

    async def exchange(self, *pieces: bytes, seconds: float = 20.0) -> bytes:
        """Everything that the server says to these bytes, until it closes or says nothing for a while."""
        reader, writer = await self.connect()
        found = b""
        try:
            with contextlib.suppress(ConnectionError):
                for piece in pieces:
                    writer.write(piece)
                    await writer.drain()
            with contextlib.suppress(TimeoutError, ConnectionError):
                async with asyncio.timeout(seconds):
                    while data := await reader.read(65536):
                        found += data
        finally:
            writer.close()
        return found


@asynccontextmanager
async def serving(**limits: Any) -> AsyncIterator[Site]:
    site = Site(ConnectionTable(ServerLimits(**limits)))
    config = build_server_config(site, Settings(_env_file=None), port=0, lifespan="on")
    server = uvicorn.Server(config)
    running = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it.
        await asyncio.sleep(0.01)
    site.port = server.servers[0].sockets[0].getsockname()[1]
    try:
        yield site
    finally:
        site.gate.set()
        for writer in site.writers:
            writer.transport.abort()
        server.should_exit = True
        await running
    assert site.table.open == 0
    assert not site.table._addresses


def status(response: bytes) -> int:
    return int(response.split(b" ", 2)[1]) if response else 0


async def until(condition: Callable[[], Any]) -> Any:
    """What the condition gives as soon as it is true, within 10 seconds."""
    async with asyncio.timeout(10):
        while not (found := condition()):  # noqa: ASYNC110 - there is no event for it.
            await asyncio.sleep(0.01)
    return found


def is_last_problem(response: bytes, expected: int) -> bool:
    """Whether these bytes are one problem of this status, after which the connection is closed."""
    head, _, body = response.partition(b"\r\n\r\n")
    lines = head.lower().split(b"\r\n")
    assert status(response) == expected, response[:300]
    assert b"content-type: application/problem+json" in lines
    assert b"connection: close" in lines
    assert lines.count(b"x-content-type-options: nosniff") == 1
    assert b"content-length: %d" % len(body) in lines
    assert json.loads(body)["status"] == expected
    return True


def fields(number: int, size: int = 1) -> bytes:
    return b"".join(b"a%d: %s\r\n" % (index, b"v" * size) for index in range(number))


@for_each(
    ("request_bytes", "expected"),
    [
        (b"GET / HTTP/1.1\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost:\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x, y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x/../y\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: u@x\r\n\r\n", 400),
        (b"GET / HTTP/1.0\r\nHost: x\r\nHost: y\r\n\r\n", 400),
        (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/0.9\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/1.2\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/1.10\r\n" + HOST + b"\r\n", 505),
        (b"GET / HTTP/3.0\r\n" + HOST + b"\r\n", 505),
        (b"GET /\r\n\r\n", 505),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nContent-Length: 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3, 3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: +3\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999999\r\n\r\nabc", 400),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\n", 501),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
        (b"POST / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\r\n c\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A : b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n Host: x\r\n\r\n", 400),
        (b"GET / HTTP/1.1\n" + HOST + b"\r\n", 400),
        (b"GET / HTTP/1.1\r\nHost: x\nA: b\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\rc\r\n\r\n", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: b\0c\r\n\r\n", 400),
        (b"GET http://y/p HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET http://u@x/p HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET ftp://x/p HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET http:///p HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"GET /a\xff HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
        (b"OPTIONS rtsp://x RTSP/1.0\r\n" + HOST + b"\r\n", 400),
        (b"CONNECT x:443 HTTP/1.1\r\n" + HOST + b"\r\n", 501),
        (b"\x16\x03\x01\x02\x00\x01", 400),
        (b"GET / HTTP/1.1\r\n" + HOST + fields(200) + b"\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + b"A: " + b"v" * 70_000 + b"\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + HOST + fields(100, 700) + b"\r\n", 431),
        (b"GET /" + b"p" * 70_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 414),
        (b"GET /" + b"p" * 40_000 + b" HTTP/1.1\r\n" + HOST + fields(1, 30_000) + b"\r\n", 431),
        (b"\r\n" * 40_000, 431),
    ],
)  # fmt: skip
async def test_a_request_that_is_rejected_before_the_application(request_bytes: bytes, expected: int) -> None:
    async with serving() as site:
        assert is_last_problem(await site.exchange(request_bytes), expected)
        assert site.seen == []
        assert sum(site.table.rejected.values()) == 1


@pytest.mark.parametrize(
    ("request_bytes", "path", "body"),
    [
        (GET, "/ok", b""),
        (b"\r\n" + GET, "/ok", b""),
        (b"GET /ok HTTP/1.0\r\n\r\n", "/ok", b""),
        (b"GET http://x/p?q=1 HTTP/1.1\r\n" + HOST + b"\r\n", "/p", b""),
        (b"GET HTTP://X?q=1 HTTP/1.1\r\n" + HOST + b"\r\n", "/", b""),
        (b"GET /a%20b HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", "/a b", b""),
        (CHUNKED + b"3;a=b\r\nabc\r\n0\r\nA: b\r\n\r\n", "/", b"abc"),
        (b"POST / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: Chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "/", b"abc"),
        (b"GET / HTTP/1.1\r\n" + HOST + fields(120, 400) + b"\r\n", "/", b""),
        (b"GET /" + b"p" * 60_000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", "/" + "p" * 60_000, b""),
        (b"GET / HTTP/1.1\r\n" + HOST + b"Connection: Upgrade\r\nUpgrade: h2c\r\n\r\n" + GET, "/", b""),
        (b"POST /l HTTP/1.1\r\n" + HOST + b"Content-Length: 300000\r\n\r\n" + b"z" * 300_000, "/l", b"z" * 300_000),
    ],
)  # fmt: skip
async def test_a_request_that_reaches_the_application(request_bytes: bytes, path: str, body: bytes) -> None:
    async with serving() as site:
        response = await site.exchange(request_bytes, seconds=0.5)
        assert status(response) == 200
        assert [(one["path"], one["body"]) for one in site.seen] == [(path, body)]
        assert response.count(b"HTTP/1.1") == 1


@pytest.mark.parametrize("step", [1, 7, 4096])
async def test_a_request_may_come_in_pieces(step: int) -> None:
    request = b"POST /p?q=a HTTP/1.1\r\nHost: x\r\nA: b\r\nContent-Length: 4\r\n\r\nabcd"
    async with serving() as site:
        reader, writer = await site.connect()
        for start in range(0, len(request), step):
            writer.write(request[start : start + step])
            await writer.drain()
            await asyncio.sleep(0.001)
        assert b"200 OK" in await reader.readline()
        [seen] = site.seen
        assert (seen["path"], seen["query_string"], seen["body"]) == ("/p", b"q=a", b"abcd")
        assert seen["headers"] == [(b"host", b"x"), (b"a", b"b"), (b"content-length", b"4")]
        writer.close()


UPGRADES = {
    "length": (
        b"POST /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade, HTTP2-Settings\r\nContent-Length: 13\r\n"
        b'HTTP2-Settings: AAEAAEAA\r\nUpgrade: h2c\r\n\r\n{"amount": 5}'
    ),
    "chunked": (
        b"POST /p HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nTransfer-Encoding: chunked\r\nConnection: upgrade\r\n"
        b'\r\n3\r\n{"a\r\na;b=c\r\nmount": 5}\r\n0\r\nUpgrade: h2c\r\n\r\n'
    ),
}


@pytest.mark.parametrize("request_bytes", UPGRADES.values(), ids=UPGRADES)
async def test_an_upgrade_is_ignored_and_its_body_read(request_bytes: bytes) -> None:
    async def send(site: Site, end: int) -> bytes:
        reader, writer = await site.connect()
        writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        writer.write(request_bytes[:end])
        await asyncio.sleep(0.02)
        writer.write(request_bytes[end:])
        async with asyncio.timeout(10):
            return await reader.read()

    async with serving() as site:
        offsets = range(1, len(request_bytes) + 1)
        responses = await asyncio.gather(*(send(site, offset) for offset in offsets))
        assert {status(one) for one in responses} == {200}
        assert all(one.count(b"HTTP/1.1") == 1 and b"connection: close" in one for one in responses)
        assert len(site.seen) == len(offsets)
        assert {one["body"] for one in site.seen} == {b'{"amount": 5}'}
        assert not any(name == b"upgrade" for one in site.seen for name, _ in one["headers"])
        assert not any(site.table.rejected.values())


@pytest.mark.parametrize("step", [1, 7, 4096])
async def test_a_large_body_after_an_upgrade_comes_whole(step: int) -> None:
    body = b"z" * (3_000 if step < 4096 else 300_000)
    head = b"POST /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\nContent-Length: %d\r\n\r\n"
    request = head % len(body) + body
    async with serving() as site:
        pieces = [request[start : start + step] for start in range(0, len(request), step)]
        assert status(await site.exchange(*pieces)) == 200
        assert [one["body"] for one in site.seen] == [body]


@for_each(
    ("rest", "expected"),
    [
        (b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
        (b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 501),
        (b"Transfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"Host: y\r\n\r\n", 400),
        (b"A: " + b"v" * 70_000 + b"\r\n\r\n", 431),
        (fields(200) + b"\r\n", 431),
        (b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\na\r\n" * 100_000, 400),
    ],
)
async def test_an_upgrade_loosens_no_bound(rest: bytes, expected: int) -> None:
    head = b"POST /p HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n"
    async with serving() as site:
        assert is_last_problem(await site.exchange(head, rest), expected)
        assert site.seen == []
        assert sum(site.table.rejected.values()) == 1


async def test_an_upgrade_behind_another_request_waits_for_it() -> None:
    async with serving() as site:
        requests = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + UPGRADES["length"]
        task = asyncio.create_task(site.exchange(requests))
        await until(lambda: len(site.seen) == 1)
        await asyncio.sleep(0.05)
        site.gate.set()
        response = await task
        assert response.index(b"ok /wait") < response.index(b"ok /p")
        assert [one["body"] for one in site.seen] == [b"", b'{"amount": 5}']


async def test_trailers_are_no_headers() -> None:
    request = b"GET / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n"
    async with serving() as site:
        reader, writer = await site.connect()
        writer.write(request + b"3\r\nabc\r\n")
        await asyncio.sleep(0.05)
        writer.write(b"0\r\nAuthorization: Bearer k\r\nHost: y\r\nX-Forwarded-For: 1.2.3.4\r\n\r\n" + GET)
        assert b"200 OK" in await reader.readline()
        assert (await reader.readuntil(b"ok /ok")).count(b"200 OK") == 1
    assert [len(one["headers"]) for one in site.seen] == [2, 1]
    assert site.seen[0]["body"] == b"abc"


@pytest.mark.parametrize(
    "framing",
    [
        b"0\r\n" + fields(60, 2000) + b"\r\n",
        b"0\r\nA: " + b"v" * 200_000 + b"\r\n\r\n",
        b"1;" + b"e" * 200_000 + b"\r\na\r\n0\r\n\r\n",
        b"1\r\na\r\n" * 100_000 + b"0\r\n\r\n",
    ],
)
async def test_framing_of_a_body_is_bounded(framing: bytes) -> None:
    async with serving() as site:
        assert is_last_problem(await site.exchange(CHUNKED, framing), 400)
        await asyncio.sleep(0.05)
        assert site.ended == ["/"]
        assert site.seen == []


async def test_many_chunks_of_a_usual_size_are_no_flood() -> None:
    async with serving() as site:
        response = await site.exchange(CHUNKED, b"10\r\n" + b"a" * 16 + b"\r\n", seconds=0.1)
        assert response == b""
        body = (b"10\r\n" + b"a" * 16 + b"\r\n") * 40_000
        assert (
            status(await site.exchange(CHUNKED + body + b"0\r\n\r\n" + CHUNKED + b"0\r\n\r\n", seconds=1))
            == 200
        )
        assert [len(one["body"]) for one in site.seen] == [640_000, 0]


async def test_heads_have_a_time_that_single_bytes_do_not_extend() -> None:
    async with serving(head_timeout=0.4) as site:
        reader, writer = await site.connect()
        trickled = 0
        while not reader.at_eof() and not reader._buffer and trickled < 200:  # type: ignore[attr-defined]
            with contextlib.suppress(ConnectionError):
                writer.write(GET[trickled % 20 : trickled % 20 + 1] if trickled < 20 else b"a")
                await writer.drain()
            trickled += 1
            await asyncio.sleep(0.05)
        assert trickled < 200
        assert is_last_problem(await reader.read(), 408)
        writer.close()
        assert site.table.rejected["head_timeout"] == 1


async def test_a_connection_that_says_nothing_is_closed_without_a_word() -> None:
    async with serving(head_timeout=0.3) as site:
        assert await site.exchange() == b""
        assert site.table.rejected["silent"] == 1


@pytest.mark.parametrize("first", [b"", GET], ids=["new", "idle"])
async def test_empty_lines_begin_no_request(first: bytes) -> None:
    async with serving(head_timeout=0.4, keep_alive_timeout=0.4) as site:
        reader, writer = await site.connect()
        if first:
            writer.write(first)
            await reader.readuntil(b"ok /ok")
        for _ in range(3):
            with contextlib.suppress(ConnectionError):
                writer.write(b"\r\n")
                await writer.drain()
            await asyncio.sleep(0.02)
        async with asyncio.timeout(10):
            with contextlib.suppress(ConnectionError):
                assert await reader.read() == b""
        assert site.table.rejected["head_timeout"] == 0
        assert site.table.rejected["silent"] == (0 if first else 1)


async def test_an_empty_line_during_a_response_is_not_the_start_of_a_request() -> None:
    async with serving(head_timeout=0.3) as site:
        reader, writer = await site.connect()
        writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(lambda: len(site.seen) == 1)
        for piece in (b"\r", b"\n"):
            writer.write(piece)
            await asyncio.sleep(0.6)
        site.gate.set()
        await reader.readuntil(b"ok /wait")
        writer.write(b"\r\n" + GET)
        await reader.readuntil(b"ok /ok")
        assert not any(site.table.rejected.values())


async def test_a_request_after_empty_lines_is_not_taken_for_silence() -> None:
    async with serving(head_timeout=0.3) as site:
        reader, writer = await site.connect()
        writer.write(b"\r\n")
        await asyncio.sleep(0.1)
        writer.write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
        await asyncio.sleep(1.2)
        site.gate.set()
        await reader.readuntil(b"ok /wait")
        assert not any(site.table.rejected.values())


async def test_many_that_expire_at_once_are_closed_in_several_turns_of_the_loop() -> None:
    async with serving(head_timeout=0.2) as site:
        for _ in range(150):
            await site.connect()
        # On a busy machine, some have expired before the last one is connected.
        steps = {site.table.rejected["silent"]}
        async with asyncio.timeout(10):
            while site.table.open:
                steps.add(site.table.rejected["silent"])
                await asyncio.sleep(0)
        ordered = sorted({*steps, site.table.rejected["silent"]})
        assert ordered[-1] == 150
        assert max(after - before for before, after in itertools.pairwise(ordered)) <= MAX_ENDED_AT_ONCE


async def test_an_idle_connection_is_closed_and_a_busy_one_is_not() -> None:
    async with serving(keep_alive_timeout=0.3, head_timeout=0.3) as site:
        first = asyncio.create_task(site.exchange(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"))
        assert status(await site.exchange(GET)) == 200
        await asyncio.sleep(1)
        assert not first.done()
        site.gate.set()
        assert status(await first) == 200


async def test_a_body_that_stops_arriving_gets_408() -> None:
    head = b"POST /p HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nabc"
    async with serving(stall_timeout=-1.8) as site:
        assert is_last_problem(await site.exchange(head), 408)
        await asyncio.sleep(0.05)
        assert site.ended == ["/p"]


async def test_a_response_that_nobody_takes_is_dropped() -> None:
    async with serving(stall_timeout=-1.8) as site:
        _, writer = await site.connect()
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        writer.write(b"GET /large HTTP/1.1\r\nHost: x\r\n\r\n" * 2)
        async with asyncio.timeout(10):
            while not site.table.rejected["response_timeout"]:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        writer.transport.abort()


def _more_ended(site: Site, before: int) -> bool:
    return len(site.ended) > before


async def fill(site: Site, last: bytes) -> socket.socket:
    """Make a connection whose client reads nothing; the response to `last` stays in the memory of the server."""
    loop = asyncio.get_running_loop()
    client = socket.socket()
    client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    client.setblocking(False)
    await loop.sock_connect(client, ("127.0.0.1", site.port))
    [protocol] = await until(lambda: list(site.table.fresh))
    # A small buffer in the kernel, so that what the client does not read stays here.
    protocol.transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4096)
    while not protocol.transport.get_write_buffer_size():
        responses = len(site.ended)
        await loop.sock_sendall(client, b"GET /medium HTTP/1.1\r\nHost: x\r\n\r\n")
        await until(partial(_more_ended, site, responses))
        await asyncio.sleep(0.01)
    assert not site.table.blocked
    await loop.sock_sendall(client, last)
    return client


@pytest.mark.parametrize(
    "last",
    [
        b"GET /ok HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n",
        b"GET /ok HTTP/1.0\r\n\r\n",
        b"GET /ok HTTP/1.1\r\nHost: x\r\nConnection: Upgrade\r\nUpgrade: h2c\r\n\r\n",
        b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\nExpect: 100-continue\r\n\r\n",
        b"GET /fails HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 192.0.2.1\r\n\r\n",
    ],
    ids=["close", "1.0", "upgrade", "expect", "cut"],
)
async def test_a_connection_that_closes_has_a_time_for_its_last_bytes(last: bytes) -> None:
    async with serving(stall_timeout=-1.5) as site:
        with await fill(site, last):
            async with asyncio.timeout(10):
                await until(lambda: not site.table.open)
            assert site.table.rejected["response_timeout"] == 1
            assert not site.table._addresses


async def test_a_connection_that_closes_and_was_blocked_has_a_time_for_its_last_bytes() -> None:
    async with serving(stall_timeout=-1.5) as site:
        with await fill(site, b"GET /large HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n") as client:
            [protocol] = await until(lambda: list(site.table.blocked))
            size = protocol.transport.get_write_buffer_size
            async with asyncio.timeout(10):
                # Below the low-water mark writing is no longer paused, and the connection still closes.
                while size() > 16 << 10:
                    with contextlib.suppress(BlockingIOError):
                        client.recv(4096)
                    await asyncio.sleep(0)
                await until(lambda: not site.table.open)


async def test_pipelined_requests_are_responded_to_in_order() -> None:
    paths = [b"/wait", *(b"/%d" % number for number in range(10))]
    requests = b"".join(b"GET %s HTTP/1.1\r\nHost: x\r\n\r\n" % path for path in paths)
    async with serving() as site:
        task = asyncio.create_task(site.exchange(requests, seconds=1))
        await asyncio.sleep(0.2)
        site.gate.set()
        response = await task
        assert [one["path"].encode() for one in site.seen] == paths
        assert [part.partition(b"HTTP")[0] for part in response.split(b"ok ")[1:]] == paths


async def test_more_pipelined_requests_than_allowed_end_the_connection_in_order() -> None:
    requests = b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n" + GET * 5000
    async with serving(pipelined=4) as site:
        task = asyncio.create_task(site.exchange(requests))
        await asyncio.sleep(0.2)
        site.gate.set()
        response = await task
        assert response.count(b"HTTP/1.1 200 OK") == 5
        assert is_last_problem(response[response.index(b"HTTP/1.1 429") :], 429)
        assert len(site.seen) == 5


async def test_a_malformed_request_does_not_break_the_response_before_it() -> None:
    async with serving() as site:
        task = asyncio.create_task(site.exchange(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\nBAD\r\n\r\n"))
        await asyncio.sleep(0.2)
        site.gate.set()
        response = await task
        first, _, second = response.partition(b"ok /wait")
        assert status(first) == 200
        assert is_last_problem(second, 400)


async def test_a_body_after_its_response_is_read_so_far_and_the_connection_used_again() -> None:
    early = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 300000\r\n\r\n"
    async with serving() as site:
        reader, writer = await site.connect()
        writer.write(early)
        await reader.readuntil(b"ok /early")
        writer.write(b"z" * 300_000 + GET)
        await reader.readuntil(b"ok /ok")
        writer.close()
        assert site.table.rejected["body_after_response"] == 0


async def test_a_body_after_its_response_that_does_not_end_is_cut_off() -> None:
    early = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 900000000\r\n\r\n"
    async with serving() as site:
        assert status(await site.exchange(early, *[b"z" * (1 << 20)] * 40)) in (0, 200)
        assert site.table.rejected["body_after_response"] == 1


async def test_a_connection_with_expect_is_closed_when_the_body_was_not_requested() -> None:
    early = b"POST /early HTTP/1.1\r\nHost: x\r\nContent-Length: 30\r\nExpect: 100-continue\r\n\r\n"
    later = early.replace(b"/early", b"/later")
    async with serving() as site:
        response = await site.exchange(early)
        assert status(response) == 200
        assert b"connection: close" in response
        reader, writer = await site.connect()
        writer.write(later)
        assert await reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        writer.write(b"z" * 30)
        assert b"ok /later" in await reader.read()
        writer.close()


async def test_a_proxy_has_no_limit_and_those_behind_it_have() -> None:
    def forwarded(address: bytes, path: bytes = b"/wait") -> bytes:
        return b"GET %s HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: %s\r\n\r\n" % (path, address)

    async with serving(per_address=2) as site:
        waiting = [
            asyncio.create_task(site.exchange(forwarded(address), seconds=3))
            for address in (b"2001:db8::1", b"2001:db8::2", b"192.0.2.1", b"192.0.2.1", b"192.0.2.2")
        ]
        await asyncio.sleep(0.2)
        reader, writer = await site.connect()
        writer.write(forwarded(b"2001:db8:0:0:ffff::3", b"/ok") + forwarded(b"2001:db8:0:1::3", b"/ok"))
        writer.write(forwarded(b"192.0.2.1", b"/ok") + forwarded(b"192.0.2.3", b"/ok"))
        found = await reader.readuntil(b"ok /ok") + await reader.readuntil(b"ok /ok")
        # The connection belongs to the proxy, and goes on.
        assert found.count(b"HTTP/1.1 429") == found.count(b"HTTP/1.1 200 OK") == 2
        assert b"connection: close" not in found
        writer.close()
        site.gate.set()
        assert [status(one) for one in await asyncio.gather(*waiting)] == [200] * 5
        assert site.table.rejected["address"] == 2


async def test_an_address_that_is_no_proxy_has_a_limit_of_connections() -> None:
    async with serving(per_address=3, forwarded_allow_ips="192.0.2.9") as site:
        kept = [await site.connect() for _ in range(3)]
        await asyncio.sleep(0.05)
        assert is_last_problem(await site.exchange(), 429)
        kept[0][1].close()
        await asyncio.sleep(0.05)
        assert status(await site.exchange(b"GET /ok HTTP/1.0\r\n\r\n")) == 200
        for _, writer in kept:
            writer.close()


async def test_500_agents_behind_one_address_are_served_by_the_defaults() -> None:
    async with serving(forwarded_allow_ips="192.0.2.9") as site:
        kept = [await site.connect() for _ in range(500)]
        for _, writer in kept:
            writer.write(GET)
        found = await asyncio.gather(*(reader.readuntil(b"ok /ok") for reader, _ in kept))
        assert {status(one) for one in found} == {200}
        for _, writer in kept:
            writer.close()


async def test_a_full_table_makes_room_by_closing_who_does_nothing() -> None:
    async with serving(connections=4) as site:
        idle = await site.connect()
        idle[1].write(GET)
        await idle[0].readuntil(b"ok /ok")
        busy = asyncio.create_task(
            site.exchange(b"GET /wait HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", seconds=30)
        )
        silent, unfinished = await site.connect(), await site.connect()
        unfinished[1].write(b"GET / HT")
        await asyncio.sleep(0.05)
        assert is_last_problem(await site.exchange(), 503)
        await asyncio.sleep(1.1)
        for gone in (silent, unfinished, idle):
            kept = await site.connect()
            kept[1].write(b"GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")
            async with asyncio.timeout(5):
                with contextlib.suppress(ConnectionError):
                    assert await gone[0].read() == b""
        assert site.table.rejected["evicted"] == 3
        assert is_last_problem(await site.exchange(), 503)
        site.gate.set()
        assert status(await busy) == 200


async def test_unfinished_heads_share_a_memory_of_which_the_oldest_give_back() -> None:
    part = b"GET / HTTP/1.1\r\nHost: x\r\nA: " + b"v" * 60_000
    async with serving() as site:
        kept = [await site.connect() for _ in range(160)]
        for _, writer in kept:
            writer.write(part)
            await writer.drain()
        async with asyncio.timeout(10):
            while site.table.rejected["head_timeout"] < 20:  # noqa: ASYNC110
                await asyncio.sleep(0.05)
        assert is_last_problem(await kept[0][0].read(), 408)
        assert len(site.table.heads) < 145
        last = kept[-1]
        last[1].write(b"\r\n\r\n")
        assert b"200 OK" in await last[0].readline()
        for _, writer in kept:
            writer.close()


async def test_a_client_that_leaves_ends_all_its_requests() -> None:
    async with serving() as site:
        _, writer = await site.connect()
        writer.write(b"POST /a HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc")
        await asyncio.sleep(0.1)
        writer.close()
        async with asyncio.timeout(5):
            while site.ended != ["/a"]:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
