"""The engine keeps nothing, follows nothing, sends what it is told, and ends in time."""

import asyncio
import contextlib
import gzip
import random
import resource
import time
import zlib

import brotli
import pytest
import uvloop
from aiohttp import web

from app.core.errors import (
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.egress import EgressSettings
from app.outbound.guard import Guard
from app.outbound.http import Engine, OutboundRequest
from app.outbound.http1.decoding import zstd
from app.outbound.limits import Limits
from tests.harness.cases import for_each
from tests.unit.outbound.conftest import RawUpstream

PACK = {
    "gzip": gzip.compress,
    "x-gzip": gzip.compress,
    "deflate": zlib.compress,
    "br": lambda text: brotli.compress(text, quality=3),
    "zstd": zstd.compress,
}
PATIENT = Limits(connect=30, first_byte=30, total=60, idle=30, response_bytes=2**20)
QUICK = Limits(connect=1, first_byte=0.3, total=0.6, idle=0.2, response_bytes=2**20)
OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


def answer(payload: bytes, *, pause: float = 0.0):
    async def handler(_reader, writer) -> None:
        writer.write(payload)
        await writer.drain()
        await asyncio.sleep(pause)

    return handler


def dripping(head: bytes, drop: bytes, *, every: float):
    async def handler(_reader, writer) -> None:
        writer.write(head)
        while True:
            writer.write(drop)
            await writer.drain()
            await asyncio.sleep(every)

    return handler


async def get(engine: Engine, url: str, **fields) -> bytes:
    response = await engine.request(
        OutboundRequest("GET", url, limits=fields.pop("limits", PATIENT), **fields)
    )
    return await response.read(2**20)


class TestWhatIsSent:
    @for_each(
        "target",
        [
            "/a/../b",
            "/a/./b",
            "/a//b",
            "/a/%2e%2e/b",
            "/%2F%2f%5C",
            "/a;b=c,d",
            "/~user/!$&'()*+,;=:@",
            "/p?x=%20+%2B&y=a%26b&z",
            "/p?q=[1]&w=a|b",
            "/p?",
            "/%E2%82%AC%FF",
            "/?a=1&a=2&=&&",
        ],
    )
    async def test_the_target_goes_out_byte_for_byte(self, raw, engine: Engine, target: str) -> None:
        upstream = await raw(answer(OK))
        assert await get(engine, upstream.url + target) == b"ok"
        sent = upstream.heads[0].split(b" ")[1].decode()
        assert sent == (target if target != "/p?" else sent)
        assert sent.rstrip("?") == target.rstrip("?")

    async def test_headers_and_body_go_out_and_no_content_type_is_made_up(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(OK))
        headers = [("X-One", "1"), ("X-One", "2"), ("Cookie", "a=b")]
        await engine.request(OutboundRequest("POST", upstream.url, headers=headers, body=b"{}"))
        head = upstream.heads[0].decode()
        assert "X-One: 1\r\nX-One: 2\r\n" in head
        assert "Cookie: a=b\r\n" in head
        assert "Content-Length: 2\r\n" in head
        assert "content-type" not in head.lower()
        assert "User-Agent: utcp-gateway/" in head

    @for_each("body", [None, b"{}"])
    @for_each("method", ["GET", "OPTIONS", "POST", "PUT", "PATCH", "DELETE", "REPORT"])
    async def test_no_method_makes_up_a_content_type(self, raw, engine: Engine, method: str, body) -> None:
        upstream = await raw(answer(OK))
        await engine.request(OutboundRequest(method, upstream.url, body=body))
        assert b"content-type" not in upstream.heads[0].lower()

    async def test_a_body_of_several_megabytes_arrives_whole(self, serve, engine: Engine) -> None:
        async def measure(request: web.Request) -> web.Response:
            return web.json_response({"length": len(await request.read())})

        url = await serve(web.post("/", measure))
        response = await engine.request(OutboundRequest("POST", url, body=b"x" * (5 * 2**20)))
        assert await response.read(100) == b'{"length": 5242880}'

    @for_each(
        "name",
        ["Host", "content-length", "Transfer-Encoding", "Connection", "TE", "Upgrade", "Proxy-Authorization"],
    )
    async def test_headers_of_the_connection_are_rejected(self, engine: Engine, name: str) -> None:
        with pytest.raises(InvalidInput):
            await engine.request(OutboundRequest("GET", "http://127.0.0.1:9/", headers=[(name, "x")]))

    @for_each("pair", [("X", "a\r\nEvil: 1"), ("X", "a\nb"), ("X", "a\0b"), ("X\r\nEvil", "1"), ("X Y", "1")])
    async def test_no_header_breaks_out_of_its_line(self, raw, engine: Engine, pair: tuple[str, str]) -> None:
        upstream = await raw(answer(OK))
        with pytest.raises(InvalidInput):
            await engine.request(OutboundRequest("GET", upstream.url, headers=[pair]))
        assert not upstream.heads

    @pytest.mark.parametrize("method", ["GET /x HTTP/1.1\r\nEvil: 1\r\n\r\nGET", "G ET", "", "GÉT"])
    async def test_a_method_is_a_token(self, raw, engine: Engine, method: str) -> None:
        upstream = await raw(answer(OK))
        with pytest.raises(InvalidInput):
            await engine.request(OutboundRequest(method, upstream.url))
        assert not upstream.heads

    @for_each(
        "url",
        [
            "",
            "x",
            "ftp://h/",
            "http://",
            "http://h:99999/",
            "http://h:x/",
            "http://u@h/",
            "http://h/\\",
            "http://h/ü",
        ],
    )
    async def test_what_is_no_url_is_rejected(self, engine: Engine, url: str) -> None:
        with pytest.raises(InvalidInput):
            await engine.request(OutboundRequest("GET", url))


class TestWhatIsNotKept:
    @for_each("status", [301, 302, 303, 307, 308])
    async def test_redirects_are_not_followed(self, raw, engine: Engine, status: int) -> None:
        there = await raw(answer(OK))
        here = await raw(
            answer(f"HTTP/1.1 {status} Go\r\nLocation: {there.url}/\r\nContent-Length: 0\r\n\r\n".encode())
        )
        response = await engine.request(OutboundRequest("GET", here.url, headers=[("Authorization", "x")]))
        assert response.status == status
        assert await response.read(10) == b""
        assert there.connections == 0

    async def test_cookies_are_not_stored(self, serve, engine: Engine) -> None:
        seen: list[str | None] = []

        async def handler(request: web.Request) -> web.Response:
            seen.append(request.headers.get("Cookie"))
            return web.Response(headers={"Set-Cookie": "session=tenant-a; Path=/"})

        url = await serve(web.get("/", handler))
        for _ in range(3):
            await get(engine, url)
        assert seen == [None] * 3

    async def test_the_environment_sets_no_proxy(self, raw, engine: Engine, monkeypatch) -> None:
        proxy, upstream = await raw(answer(OK)), await raw(answer(OK))
        for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY"):
            monkeypatch.setenv(name, proxy.url)
        await get(engine, upstream.url)
        assert (proxy.connections, upstream.connections) == (0, 1)

    @pytest.mark.parametrize(("scope", "connections"), [(b"one", 1), (b"", 5)])
    async def test_connections_are_reused_within_a_scope(self, serve, scope: bytes, connections: int) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), probation=0)
        peers: set[object] = set()
        closing: set[str | None] = set()

        async def handler(request: web.Request) -> web.Response:
            peers.add(request.transport.get_extra_info("peername"))
            closing.add(request.headers.get("Connection"))
            return web.Response(text="ok")

        url = await serve(web.get("/", handler))
        for _ in range(5):
            await get(engine, url, scope=scope)
        assert len(peers) == connections
        assert closing == ({None} if scope else {"close"})
        await engine.aclose()


class TestTime:
    async def times_out(self, coroutine) -> None:
        # These upstreams never end; a timeout of less than a second ends the exchange.
        async with asyncio.timeout(60):
            with pytest.raises(UpstreamTimeout):
                await coroutine

    async def test_silent_upstream_times_out(self, raw, engine: Engine) -> None:
        async def listen_only(reader, _writer) -> None:
            await reader.read()

        upstream = await raw(listen_only)
        await self.times_out(get(engine, upstream.url, limits=QUICK))
        async with asyncio.timeout(1):
            await upstream.closed.wait()

    async def test_headers_sent_byte_by_byte_time_out(self, raw, engine: Engine) -> None:
        upstream = await raw(dripping(b"HTTP/1.1 200 OK\r\nX-Slow: ", b"a", every=0.02))
        await self.times_out(get(engine, upstream.url, limits=QUICK))

    async def test_body_sent_byte_by_byte_times_out(self, raw, engine: Engine) -> None:
        upstream = await raw(dripping(b"HTTP/1.1 200 OK\r\nContent-Length: 10000\r\n\r\n", b"a", every=0.02))
        await self.times_out(get(engine, upstream.url, limits=QUICK))
        async with asyncio.timeout(1):
            await upstream.closed.wait()

    async def test_stalled_body_times_out(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc", pause=600))
        await self.times_out(get(engine, upstream.url, limits=QUICK))

    async def test_endless_body_without_pauses_times_out(self, raw, engine: Engine) -> None:
        async def flood(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()

        upstream = await raw(flood)
        response = await engine.request(OutboundRequest("GET", upstream.url, limits=QUICK))

        async def drain() -> None:
            async for _ in response.iterate(2**62):
                pass

        await self.times_out(drain())

    async def test_chunks_without_data(self, raw, engine: Engine) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        upstream = await raw(dripping(head + b"1;", b"x" * 10, every=0.02))
        async with asyncio.timeout(60):
            with pytest.raises((UpstreamTimeout, UpstreamMalformed)):
                await get(engine, upstream.url, limits=QUICK)

    async def test_deadline_overrides_the_limits(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(b"", pause=600))
        deadline = asyncio.get_running_loop().time() + 0.1
        await self.times_out(get(engine, upstream.url, limits=Limits(), deadline=deadline))

    async def test_port_that_never_responds_to_a_handshake_times_out(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(b"", pause=600))
        url = upstream.url.replace("http:", "https:")
        await self.times_out(get(engine, url, limits=QUICK))

    async def test_waiting_for_a_free_connection_times_out(self, raw) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), connections_per_origin=1)
        upstream = await raw(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n", pause=600))
        first = await engine.request(OutboundRequest("GET", upstream.url))
        limits = Limits(connect=0.1, first_byte=5)
        await self.times_out(get(engine, upstream.url, limits=limits))
        first.close()
        await engine.aclose()


class TestCancellation:
    async def test_cancellation_while_waiting_for_headers_closes_the_connection(
        self, raw, engine: Engine
    ) -> None:
        arrived = asyncio.Event()

        async def wait_for_end(reader, _writer) -> None:
            arrived.set()
            await reader.read()

        upstream = await raw(wait_for_end)
        call = asyncio.create_task(get(engine, upstream.url, limits=Limits()))
        await arrived.wait()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        async with asyncio.timeout(1):
            await upstream.closed.wait()

    async def test_cancellation_while_streaming_closes_the_connection(self, raw, engine: Engine) -> None:
        head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
        upstream = await raw(dripping(head, b"3\r\nabc\r\n", every=0.05))
        response = await engine.request(OutboundRequest("GET", upstream.url))
        arrived = asyncio.Event()

        async def consume() -> None:
            async for _ in response.iterate(2**20):
                arrived.set()

        consumer = asyncio.create_task(consume())
        await arrived.wait()
        consumer.cancel()
        with pytest.raises(asyncio.CancelledError):
            await consumer
        async with asyncio.timeout(1):
            await upstream.closed.wait()

    async def test_a_hundred_cancelled_calls_leave_the_pool_usable(self, serve, raw) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), connections_per_origin=4)

        async def slow(request: web.Request) -> web.Response:
            await asyncio.sleep(0.05 if "slow" in request.query else 0)
            return web.Response(text="ok")

        url = await serve(web.get("/", slow))
        for number in range(100):
            call = asyncio.create_task(get(engine, f"{url}/?slow={number}", limits=Limits()))
            await asyncio.sleep(0.001 * (number % 7))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
        assert await asyncio.gather(*(get(engine, url, limits=Limits()) for _ in range(8))) == [b"ok"] * 8
        await engine.aclose()


class TestSize:
    async def test_a_declared_length_is_rejected_before_the_body(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 9999999\r\n\r\n", pause=2))
        response = await engine.request(OutboundRequest("GET", upstream.url))
        with pytest.raises(ResponseTooLarge):
            await response.read(1000)

    async def test_an_undeclared_length_is_cut_off(self, raw, engine: Engine) -> None:
        upstream = await raw(dripping(b"HTTP/1.1 200 OK\r\n\r\n", b"x" * 100_000, every=0))
        response = await engine.request(OutboundRequest("GET", upstream.url))
        with pytest.raises(ResponseTooLarge):
            await response.read(1_000_000)
        async with asyncio.timeout(1):
            await upstream.closed.wait()

    async def test_a_limit_is_reached_but_not_passed(self, serve, engine: Engine) -> None:
        async def handler(_: web.Request) -> web.Response:
            return web.Response(body=b"x" * 1000)

        url = await serve(web.get("/", handler))
        assert len(await (await engine.request(OutboundRequest("GET", url))).read(1000)) == 1000
        with pytest.raises(ResponseTooLarge):
            await (await engine.request(OutboundRequest("GET", url))).read(999)

    @pytest.mark.parametrize("coding", ["gzip", "deflate"])
    async def test_a_bomb_is_stopped_without_being_inflated(self, raw, engine: Engine, coding: str) -> None:
        packer = zlib.compressobj(9, zlib.DEFLATED, 31 if coding == "gzip" else 15)
        bomb = b"".join([packer.compress(bytes(2**20)) for _ in range(128)]) + packer.flush()
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(bomb)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + bomb))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        response = await engine.request(OutboundRequest("GET", upstream.url))
        with pytest.raises(ResponseTooLarge):
            await response.read(2**20)
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 32 * 1024

    async def test_gzip_is_decoded(self, raw, engine: Engine) -> None:
        packed = gzip.compress(b"hello " * 10)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: {len(packed)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + packed))
        assert await get(engine, upstream.url) == b"hello " * 10

    @pytest.mark.parametrize("coding", ["br", "zstd"])
    async def test_a_bomb_of_another_coding_is_stopped_within_its_window(
        self, raw, engine: Engine, coding: str
    ) -> None:
        # Zeros. A decoder may hold what its format lets a later byte refer to: 16 MiB (br), 8 MiB (zstd).
        bomb = PACK[coding](bytes(2**25)) if coding == "br" else PACK[coding](bytes(2**25)) * 8
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(bomb)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + bomb))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        response = await engine.request(OutboundRequest("GET", upstream.url))
        size = 0

        async def drain() -> None:
            nonlocal size
            async for piece in response.iterate(2**24):
                size += len(piece)

        with pytest.raises(ResponseTooLarge):
            await drain()
        assert 2**24 - 2**18 < size <= 2**24
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 48 * 1024

    @for_each("coding", ["gzip", "x-gzip", "X-GZIP", "deflate", "br", "BR", "zstd"])
    async def test_every_coding_that_is_requested_is_decoded(self, raw, engine: Engine, coding: str) -> None:
        text = bytes(range(256)) * 2000
        packed = PACK[coding.lower()](text)
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + packed))
        assert await get(engine, upstream.url) == text
        asked = upstream.heads[0].decode().lower().partition("accept-encoding: ")[2].partition("\r\n")[0]
        assert asked == "gzip, deflate, br, zstd"

    @pytest.mark.parametrize("coding", ["gzip", "zstd"])
    async def test_members_and_frames_of_any_size_are_decoded(self, raw, engine: Engine, coding: str) -> None:
        noise = random.Random(1).randbytes(100_000)
        members = [b"", b"x", noise, b"", bytes(600_000), noise[:8192]]
        packed = b"".join(map(PACK[coding], members)) + PACK[coding](b"") * 2_000 + PACK[coding](b"end")
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + packed))
        assert await get(engine, upstream.url) == b"".join(members) + b"end"

    @for_each("coding", ["gzip", "br", "zstd"])
    @for_each("spoil", [lambda packed: packed[:-4], lambda _: b"plain text", lambda packed: packed[4:]])
    async def test_a_body_that_is_not_what_its_coding_says_is_malformed(
        self, raw, engine: Engine, coding: str, spoil
    ) -> None:
        packed = spoil(PACK[coding](bytes(range(256)) * 20))
        head = f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: {len(packed)}\r\n\r\n"
        upstream = await raw(answer(head.encode() + packed))
        with pytest.raises(UpstreamMalformed):
            await get(engine, upstream.url)

    @for_each("coding", ["gzip, gzip", "compress", "x-compress", "x-deflate", "dcb", "x"])
    async def test_a_coding_that_was_not_requested_is_malformed(
        self, raw, engine: Engine, coding: str
    ) -> None:
        upstream = await raw(
            answer(f"HTTP/1.1 200 OK\r\nContent-Encoding: {coding}\r\nContent-Length: 2\r\n\r\nok".encode())
        )
        with pytest.raises(UpstreamMalformed):
            await get(engine, upstream.url)

    async def test_bytes_of_an_upstream_that_a_header_repeats_are_sent_as_they_came(
        self, raw, engine: Engine
    ) -> None:
        challenge = (
            b'HTTP/1.1 401 No\r\nWWW-Authenticate: Digest realm="Ger\xe4t"\r\nContent-Length: 0\r\n\r\n'
        )
        upstream = await raw(answer(challenge))
        response = await engine.request(OutboundRequest("GET", upstream.url))
        realm = response.headers["WWW-Authenticate"]
        await engine.request(OutboundRequest("GET", upstream.url, headers=[("Authorization", realm)]))
        assert b'Authorization: Digest realm="Ger\xe4t"\r\n' in upstream.heads[-1]

    async def test_headers_without_end(self, raw, engine: Engine) -> None:
        upstream = await raw(dripping(b"HTTP/1.1 200 OK\r\n", b"X-H: " + b"y" * 1000 + b"\r\n", every=0))
        with pytest.raises(UpstreamMalformed):
            await get(engine, upstream.url, limits=Limits())


ONLY_HTTP1 = EgressSettings(http_version="1.1")


class TestHttp2Only:
    # Where the provider does not rule HTTP/2 out, see test_http2.py.
    # RFC 9113 section 3.4: what such a server sends first, and what it says to a request of HTTP/1.1.
    SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
    GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"

    @pytest.mark.parametrize("said", [SETTINGS, GOAWAY, SETTINGS + GOAWAY])
    async def test_by_prior_knowledge(self, raw, engine: Engine, said: bytes) -> None:
        upstream = await raw(answer(said))
        with pytest.raises(UpstreamMalformed, match="HTTP/2 only"):
            await get(engine, upstream.url, egress=ONLY_HTTP1)

    async def test_one_that_speaks_at_once(self, engine: Engine) -> None:
        async def speak(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(self.SETTINGS)
            await reader.read(1)
            writer.close()

        server = await asyncio.start_server(speak, "127.0.0.1", 0)
        with pytest.raises((UpstreamMalformed, UpstreamUnreachable), match="HTTP/2 only"):
            await get(engine, f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/", egress=ONLY_HTTP1)
        server.close()

    @pytest.mark.parametrize("loop", [asyncio.run, uvloop.run])
    def test_by_the_handshake_of_tls(self, loop) -> None:
        # RFC 7301 section 3.2: a server of h2 alone ends the handshake with no_application_protocol (120).
        ended = asyncio.Event()

        async def reject(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await reader.read(100)
            writer.write(b"\x15\x03\x03\x00\x02\x02\x78")
            with contextlib.suppress(ConnectionError):
                await writer.drain()
                await reader.read()
            writer.close()
            ended.set()

        async def run() -> None:
            server = await asyncio.start_server(reject, "127.0.0.1", 0)
            engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
            with pytest.raises(UpstreamUnreachable, match="HTTP/2 only") as caught:
                await get(
                    engine,
                    f"https://127.0.0.1:{server.sockets[0].getsockname()[1]}/",
                    limits=Limits(connect=30),
                    egress=ONLY_HTTP1,
                )
            assert not caught.value.request_sent
            await ended.wait()
            await engine.aclose()
            server.close()

        loop(run())


class TestHowOftenItIsSent:
    async def stale(self, raw) -> RawUpstream:
        """Each connection carries one response; the second request on it is read, and the connection closed."""

        async def once(reader, writer) -> None:
            writer.write(OK)
            await writer.drain()
            await reader.readuntil(b"\r\n\r\n")

        return await raw(once)

    @pytest.mark.parametrize(("resend", "connections"), [(True, 2), (False, 1)])
    async def test_a_connection_that_closes_on_the_request(self, raw, resend: bool, connections: int) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), probation=0)
        upstream = await self.stale(raw)
        await get(engine, upstream.url, scope=b"one")
        request = OutboundRequest("GET", upstream.url, scope=b"one", resend=resend)
        if resend:
            await (await engine.request(request)).read(100)
        else:
            with pytest.raises(UpstreamUnreachable):
                await engine.request(request)
        assert (request.resent, upstream.connections) == (resend, connections)
        await engine.aclose()

    async def test_a_connection_that_was_closed_before_is_not_used_at_all(self, raw) -> None:
        engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), probation=0)
        upstream = await raw(answer(OK))
        for _ in range(3):
            request = OutboundRequest("POST", upstream.url, scope=b"one", resend=False)
            await (await engine.request(request)).read(100)
            # The end of the connection is here, though this loop has not read it.
            await asyncio.sleep(0)
            time.sleep(0.01)  # noqa: ASYNC251
        await engine.aclose()


class TestBrokenUpstreams:
    @pytest.mark.parametrize("first", [b"220 ready\r\n", b"HTTP/1.1 503 Full\r\nContent-Length: 0\r\n\r\n"])
    def test_one_that_speaks_before_it_is_asked(self, first: bytes) -> None:
        # In the gateway's own loop, where what was sent at once is read before the request goes out.
        async def speak(_reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.write(first)
            writer.close()

        async def run() -> None:
            server = await asyncio.start_server(speak, "127.0.0.1", 0)
            engine = Engine(Guard(allow_networks=("127.0.0.0/8",)))
            url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/"
            for _ in range(5):
                with pytest.raises(UpstreamUnreachable) as caught:
                    await get(engine, url)
                assert not caught.value.request_sent
            assert engine.pool.open == 0
            await engine.aclose()
            server.close()

        uvloop.run(run())

    async def test_closed_port_is_unreachable(self, raw, engine: Engine) -> None:
        with pytest.raises(UpstreamUnreachable) as refused:
            await get(engine, "http://127.0.0.1:1/")
        assert "127" not in refused.value.detail

    async def test_a_name_that_does_not_exist(self, engine: Engine) -> None:
        with pytest.raises(UpstreamUnreachable, match="resolved"):
            await get(engine, "http://does-not-exist.invalid/", limits=Limits())

    async def test_a_reset_before_the_response(self, raw, engine: Engine) -> None:
        async def reset(_reader, writer) -> None:
            writer.transport.abort()

        upstream = await raw(reset)
        with pytest.raises(UpstreamUnreachable):
            await get(engine, upstream.url)

    @pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
    async def test_requests_with_effects_are_sent_once(self, raw, engine: Engine, method: str) -> None:
        async def reset(_reader, writer) -> None:
            writer.transport.abort()

        upstream = await raw(reset)
        with pytest.raises(UpstreamUnreachable):
            await engine.request(OutboundRequest(method, upstream.url, body=b"x"))
        assert len(upstream.heads) == 1

    async def test_an_end_in_the_middle_of_the_body(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc"))
        with pytest.raises((UpstreamUnreachable, UpstreamMalformed)):
            await get(engine, upstream.url)

    async def test_a_reset_in_the_middle_of_the_body(self, raw, engine: Engine) -> None:
        async def handler(_reader, writer) -> None:
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nabc")
            await writer.drain()
            await asyncio.sleep(0.05)
            writer.transport.abort()

        upstream = await raw(handler)
        with pytest.raises((UpstreamUnreachable, UpstreamMalformed)):
            await get(engine, upstream.url)

    @for_each(
        "payload",
        [
            b"SSH-2.0-OpenSSH_9.6\r\n",
            b"\x16\x03\x01\x00\xa5",
            b"HTTP/1.1 abc OK\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nBad Header\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
            b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 5\r\n\r\nplain",
        ],
    )
    async def test_response_that_is_not_http_is_malformed(self, raw, engine: Engine, payload: bytes) -> None:
        upstream = await raw(answer(payload))
        with pytest.raises((UpstreamMalformed, UpstreamUnreachable)):
            await get(engine, upstream.url)

    async def test_plain_http_where_tls_is_expected(self, raw, engine: Engine) -> None:
        upstream = await raw(answer(OK))
        with pytest.raises((UpstreamUnreachable, UpstreamTimeout)):
            await get(engine, upstream.url.replace("http:", "https:"), limits=QUICK)
