"""HTTP/2 upstreams: real frames of `h2` on the other side, over TLS and in clear text."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path

import h2.config
import h2.connection
import h2.errors
import h2.events
import pytest

from app.core.errors import UpstreamMalformed, UpstreamTimeout, UpstreamUnreachable
from app.outbound.egress import EgressSettings
from app.outbound.guard import Guard
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse
from tests.harness.cases import for_each
from tests.harness.certificates import certificate

BIG = bytes(range(256)) * 1200
FIELDS = {
    "/many": [(f"x-{index}", "1") for index in range(301)],
    "/long": [("x", "1" * 66_000)],
    "/large": [(f"x-{index}", "1" * 60_000) for index in range(5)],
    "/bomb": [("x", "1" * 3_900)] * 100,
    "/most": [(f"x-{index}", "1") for index in range(297)]
    + [(f"y-{index}", "1" * 65_000) for index in range(3)],
    **{
        f"/length={lengths}": [
            ("content-length", length) for length in lengths.replace("%20", " ").split(";")
        ]
        for lengths in ("5;5", "5,%205", "5,5;5", "5;6", "5,%206", "5,")
    },
}


class Upstream:
    """A server of HTTP/2 that responds as the path says."""

    def __init__(self) -> None:
        self.url = ""
        self.authority = ""
        self.is_http2_only = False
        self.context: ssl.SSLContext | None = None
        self.connections = 0
        self.requests: list[tuple[dict[str, str], bytes]] = []

    def accept(self, alpn: list[str]) -> None:
        """Accept these protocols on new connections."""
        assert self.context is not None
        self.is_http2_only = alpn == ["h2"]
        self.context.set_alpn_protocols(alpn)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        tls = writer.get_extra_info("ssl_object")
        try:
            if self.is_http2_only or (tls is not None and tls.selected_alpn_protocol() == "h2"):
                await self._speak(reader, writer)
            else:
                head = await reader.readuntil(b"\r\n\r\n")
                self.requests.append(({":version": "1.1"}, head))
                writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\none")
                await writer.drain()
        except (ConnectionError, asyncio.IncompleteReadError, ssl.SSLError):
            pass
        finally:
            writer.close()

    async def _speak(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = h2.connection.H2Connection(
            h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        )
        # Its Huffman coding of a long value takes the square of its length.
        connection.encoder.encode = partial(connection.encoder.encode, huffman=False)
        connection.initiate_connection()
        writer.write(connection.data_to_send())
        heads: dict[int, dict[str, str]] = {}
        bodies: dict[int, bytes] = {}
        pending: dict[int, bytes] = {}
        while data := await reader.read(65536):
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    heads[event.stream_id] = dict(event.headers)
                    bodies[event.stream_id] = b""
                elif isinstance(event, h2.events.DataReceived):
                    bodies[event.stream_id] += event.data
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    stream = event.stream_id
                    self.requests.append((heads[stream], bodies[stream]))
                    pending[stream] = self.respond(connection, stream, heads[stream], bodies[stream])
            for stream in list(pending):
                while rest := pending[stream]:
                    size = min(len(rest), connection.local_flow_control_window(stream), 16384)
                    if size <= 0:
                        break
                    connection.send_data(stream, rest[:size], end_stream=size == len(rest))
                    pending[stream] = rest[size:]
            writer.write(connection.data_to_send())
            await writer.drain()

    def respond(self, connection, stream: int, head: dict[str, str], body: bytes) -> bytes:
        """Send the head of the response, and return its body."""
        match head[":path"]:
            case "/big":
                connection.send_headers(stream, [(":status", "200")])
                return BIG
            case "/empty":
                connection.send_headers(stream, [(":status", "204")], end_stream=True)
            case "/reset":
                connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            case "/cut":
                connection.send_headers(stream, [(":status", "200"), ("content-length", "10")])
                connection.send_data(stream, b"abc")
                connection.reset_stream(stream, h2.errors.ErrorCodes.INTERNAL_ERROR)
            case "/leave":
                connection.close_connection(last_stream_id=stream)
                # `h2` sends nothing after a GOAWAY unless it is told to.
                connection.state_machine.state = h2.connection.ConnectionState.SERVER_OPEN
                connection.send_headers(stream, [(":status", "200")])
                return b"bye"
            case "/silent":
                pass
            case path if path in FIELDS:
                connection.send_headers(stream, [(":status", "200"), *FIELDS[path]])
                return b"hello"
            case "/status":
                connection.send_headers(stream, [(":status", "9" * 5000)], end_stream=True)
            case "/interim":
                connection.send_headers(stream, [(":status", "103"), ("link", "</a>")])
                connection.send_headers(stream, [(":status", "200"), ("x-final", "yes")])
                return b"final"
            case _:
                has_no_body = head[":method"] == "HEAD"
                fields = [(":status", "200"), ("content-type", "text/plain"), ("content-length", "5")]
                connection.send_headers(stream, fields, end_stream=has_no_body)
                return b"" if has_no_body else b"hello"
        return b""


Start = Callable[..., Awaitable[Upstream]]


@pytest.fixture
async def start(tmp_path: Path) -> AsyncIterator[Start]:
    """`await start(alpn)` starts an upstream with TLS that accepts these protocols; with None, without TLS."""
    servers: list[asyncio.Server] = []

    async def run(alpn: list[str] | None) -> Upstream:
        upstream = Upstream()
        upstream.is_http2_only = alpn is None or alpn == ["h2"]
        context = None
        if alpn is not None:
            upstream.authority, key, *_ = certificate("127.0.0.1")
            files = tmp_path / "certificate.pem"
            await asyncio.to_thread(files.write_text, upstream.authority + key)
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(files)
            upstream.context = context
            if alpn:
                upstream.accept(alpn)
        server = await asyncio.start_server(upstream.serve, "127.0.0.1", 0, ssl=context)
        servers.append(server)
        port = server.sockets[0].getsockname()[1]
        upstream.url = f"{'http' if context is None else 'https'}://127.0.0.1:{port}"
        return upstream

    yield run
    for server in servers:
        server.close()


@pytest.fixture
async def engine() -> AsyncIterator[Engine]:
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]), probation=0)
    yield engine
    await engine.aclose()


async def send(
    engine: Engine,
    upstream: Upstream,
    path: str = "/",
    *,
    version: str | None = "2",
    method: str = "GET",
    scope: bytes = b"scope",
    **more,
) -> OutboundResponse:
    egress = EgressSettings(ca_bundle=upstream.authority or None, http_version=version)
    return await engine.request(
        OutboundRequest(method=method, url=upstream.url + path, egress=egress, scope=scope, **more)
    )


@pytest.mark.parametrize("alpn", [None, ["h2"], ["h2", "http/1.1"]])
async def test_a_provider_that_asks_for_it_is_called_by_http2(engine: Engine, start: Start, alpn) -> None:
    upstream = await start(alpn)
    for _ in range(3):
        response = await send(
            engine, upstream, "/a?b=%20", method="POST", headers=[("X-Key", "v")], body=b'{"a":1}'
        )
        assert (response.status, response.headers["Content-Type"]) == (200, "text/plain")
        assert await response.read(100) == b"hello"
    assert upstream.connections == 1
    head, body = upstream.requests[-1]
    assert body == b'{"a":1}'
    assert (head[":method"], head[":path"], head[":authority"]) == (
        "POST",
        "/a?b=%20",
        upstream.url.split("//")[1],
    )
    assert (head["x-key"], head["content-length"]) == ("v", "7")
    assert {"host", "connection", "transfer-encoding"} & head.keys() == set()


@pytest.mark.parametrize("alpn", [None, ["h2"]])
async def test_an_upstream_that_accepts_nothing_else_is_called_by_http2(
    engine: Engine, start: Start, alpn
) -> None:
    upstream = await start(alpn)
    for _ in range(2):
        response = await send(engine, upstream, version=None, method="POST", body=b"once")
        assert await response.read(100) == b"hello"
    assert [head[":path"] for head, _ in upstream.requests] == ["/", "/"]


async def test_an_upstream_that_goes_back_to_http_1_1_is_called_by_it(engine: Engine, start: Start) -> None:
    upstream = await start(["h2"])
    response = await send(engine, upstream, version=None)
    assert await response.read(100) == b"hello"
    upstream.accept(["http/1.1"])
    response = await send(engine, upstream, version=None, scope=b"", method="POST", body=b"once")
    assert await response.read(100) == b"one"
    upstream.accept(["h2"])
    response = await send(engine, upstream, version=None, scope=b"")
    assert await response.read(100) == b"hello"


async def test_an_upstream_without_tls_that_goes_back_to_http_1_1_is_called_by_it(
    engine: Engine, start: Start
) -> None:
    upstream = await start(None)
    response = await send(engine, upstream, version=None, scope=b"")
    assert await response.read(100) == b"hello"
    upstream.is_http2_only = False
    with pytest.raises((UpstreamMalformed, UpstreamUnreachable)):
        await send(engine, upstream, version=None, scope=b"", method="POST", body=b"once")
    response = await send(engine, upstream, version=None, scope=b"", method="POST", body=b"once")
    assert await response.read(100) == b"one"


async def test_http_1_1_is_preferred_unless_the_provider_asks(engine: Engine, start: Start) -> None:
    upstream = await start(["h2", "http/1.1"])
    response = await send(engine, upstream, version=None)
    assert await response.read(100) == b"one"


@pytest.mark.parametrize("alpn", [["http/1.1"], []])
async def test_an_upstream_that_does_not_agree_to_http2_is_not_called(
    engine: Engine, start: Start, alpn
) -> None:
    upstream = await start(alpn)
    with pytest.raises(UpstreamUnreachable, match="version of HTTP") as raised:
        await send(engine, upstream, version="2")
    assert not raised.value.request_sent
    assert upstream.requests == []


@pytest.mark.parametrize("alpn", [None, ["h2"]])
async def test_a_provider_that_rules_http2_out_gets_an_error_that_says_so(
    engine: Engine, start: Start, alpn
) -> None:
    upstream = await start(alpn)
    with pytest.raises((UpstreamUnreachable, UpstreamMalformed), match="HTTP/2"):
        await send(engine, upstream, version="1.1")
    assert upstream.requests == []


async def test_bodies_larger_than_the_windows(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    for _ in range(2):
        response = await send(engine, upstream, "/big", method="POST", body=BIG)
        assert await response.read(1 << 20) == BIG
        assert upstream.requests[-1][1] == BIG
    assert upstream.connections == 1


async def test_a_body_that_is_not_read_is_not_buffered(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    response = await send(engine, upstream, "/big")
    await asyncio.sleep(0.2)
    assert response._exchange.buffered <= 96 << 10
    assert await response.read(1 << 20) == BIG


async def test_responses_without_a_body(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    response = await send(engine, upstream, method="HEAD")
    assert (response.headers["Content-Length"], await response.read(10)) == ("5", b"")
    response = await send(engine, upstream, "/empty")
    assert (response.status, await response.read(10)) == (204, b"")
    assert upstream.connections == 1


async def test_interim_responses_are_skipped(engine: Engine, start: Start) -> None:
    response = await send(engine, await start(None), "/interim")
    assert (response.status, response.headers["X-Final"], await response.read(10)) == (200, "yes", b"final")


async def test_a_connection_that_the_upstream_leaves_is_not_used_again(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    for count in (1, 2):
        response = await send(engine, upstream, "/leave")
        assert await response.read(10) == b"bye"
        assert upstream.connections == count


async def test_a_reset_stream_is_an_error(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    with pytest.raises(UpstreamUnreachable):
        await send(engine, upstream, "/reset", method="POST", body=b"x")
    response = await send(engine, upstream, "/cut")
    with pytest.raises(UpstreamUnreachable):
        await response.read(10)


@for_each("path", ["/many", "/long", "/large", "/bomb"])
async def test_heads_are_bounded(engine: Engine, start: Start, path: str) -> None:
    url = await start(None)
    with pytest.raises(UpstreamMalformed, match="300 fields, 64 KiB in each and 256 KiB in all"):
        await send(engine, url, path)
    assert (await send(engine, url, "/most")).headers["X-296"] == "1"


@for_each(
    ("lengths", "is_read"),
    [("5;5", True), ("5,%205", True), ("5,5;5", True), ("5;6", False), ("5,%206", False), ("5,", False)],
)
async def test_a_repeated_length_is_one(engine: Engine, start: Start, lengths: str, is_read: bool) -> None:
    url = await start(None)
    if not is_read:
        with pytest.raises(UpstreamMalformed):
            await send(engine, url, f"/length={lengths}")
        return
    response = await send(engine, url, f"/length={lengths}")
    assert (response.headers.getall("Content-Length"), await response.read(10)) == (["5"], b"hello")


async def test_a_status_of_more_digits_is_rejected(engine: Engine, start: Start) -> None:
    with pytest.raises(UpstreamMalformed):
        await send(engine, await start(None), "/status")
    assert engine.pool.open == 0


async def test_a_deadline_ends_the_exchange(engine: Engine, start: Start) -> None:
    upstream = await start(None)
    with pytest.raises(UpstreamTimeout):
        await send(engine, upstream, "/silent", limits=Limits(first_byte=0.3))
    assert engine.pool.open == 0
    response = await send(engine, upstream)
    assert await response.read(10) == b"hello"


@for_each(
    "said",
    [
        b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n",
        b"\xff" * 64,
        b"\x00\x00\x06\x04\x00\x00\x00\x00\x00" * 3,
        b"\x00\x00\x04\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00",
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00" + b"\x00\x00\x08\x06\x00\x00\x00\x00\x00pingping" * 40_000,
    ],
    ids=["http/1.1", "noise", "settings", "window", "pings"],
)
async def test_what_is_not_http2_ends_the_connection(engine: Engine, raw, said: bytes) -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(said)
        await writer.drain()
        await reader.read(65536)

    upstream = await raw(talk)
    url = f"{upstream.url}/"
    egress = EgressSettings(http_version="2")
    with pytest.raises((UpstreamMalformed, UpstreamUnreachable)):
        await engine.request(OutboundRequest(method="GET", url=url, egress=egress, scope=b"s"))
    assert engine.pool.open == 0
