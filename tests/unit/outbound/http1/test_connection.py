"""A connection reads what real servers send, in whatever pieces it comes, and is kept only where that is safe."""

import asyncio
import gzip
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.outbound.http1.connection import Http1Connection
from app.outbound.http1.exchange import (
    HIGH_WATER_MARK,
    MAX_INTERIM_RESPONSES,
    Exchange,
    ExchangeFailed,
    FailureReason,
)
from app.outbound.http1.head_repair import repair_heads
from tests.harness.cases import for_each

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"


class Wire(asyncio.Transport):
    """A transport that keeps what is written; the other side is the test."""

    def __init__(self, protocol: Http1Connection, *, unsent: int = 0) -> None:
        super().__init__()
        self.protocol = protocol
        self.written = b""
        self.closed = False
        self.reading = True
        self.unsent = unsent
        protocol.connection_made(self)

    def write(self, data) -> None:
        self.written += data

    def writelines(self, pieces) -> None:
        self.written += b"".join(pieces)

    def get_write_buffer_size(self) -> int:
        return self.unsent

    def is_closing(self) -> bool:
        return self.closed

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def abort(self) -> None:
        self.closed = True

    def lost(self, error: Exception | None = None) -> None:
        self.closed = True
        self.protocol.connection_lost(error)


def hear(connection: Http1Connection, data: bytes) -> None:
    """As an event loop hands over what it has read."""
    for at in range(0, len(data), 50_000):
        part = data[at : at + 50_000]
        connection.get_buffer(-1)[: len(part)] = part
        connection.buffer_updated(len(part))
        if not connection.usable and connection._lost:
            return


class Opened:
    """A connection on a wire, and what it told its pool."""

    def __init__(self, *, unsent: int = 0) -> None:
        self.freed = 0
        self.gone = 0
        self.connection = Http1Connection(
            asyncio.get_running_loop(), memoryview(bytearray(1 << 16)), on_free=self._free, on_lost=self._lost
        )
        self.wire = Wire(self.connection, unsent=unsent)

    def _free(self, _connection: Http1Connection) -> None:
        self.freed += 1

    def _lost(self, _connection: Http1Connection) -> None:
        self.gone += 1

    def send(self, *, no_body: bool = False) -> Exchange:
        return self.connection.send(b"GET / HTTP/1.1\r\n\r\n", None, no_body=no_body)

    def hear(self, *pieces: bytes) -> None:
        for piece in pieces:
            hear(self.connection, piece)


def body_of(exchange: Exchange) -> bytes:
    pieces = []
    while piece := exchange.read_nowait():
        pieces.append(piece)
    return b"".join(pieces)


def reason(exchange: Exchange) -> FailureReason:
    error = exchange.head.exception()
    assert isinstance(error, ExchangeFailed)
    return error.reason


def cut(whole: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(place % len(whole) for place in places), len(whole)]
    return [whole[one:two] for one, two in pairwise(marks) if one != two]


ANSWERS = {
    "length": b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nX-A: 1\r\n\r\nhello",
    "chunks": b"HTTP/1.1 200 OK\r\nX-A: 1\r\nTransfer-Encoding: chunked\r\n\r\n3;x=y\r\nhel\r\n2 \r\nlo\r\n0\r\nT: 1\r\n\r\n",
    "interim": b"HTTP/1.1 100 Continue\r\nX-B: 2\r\n\r\nHTTP/1.1 103 Hints\r\nLink: <x>\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nX-A: 1\r\nContent-Length: 5\r\n\r\nhello",
    "line feeds": b"HTTP/1.1 200 OK\nContent-Length: 5\nX-A: 1\n\nhello",
    "repaired": b"HTTP/1.1 103 Hints\r\nX-B : 2\r\n\r\n"
    b"HTTP/1.1 200 OK\r\nX-A : 1\r\nContent-Length: 5, 5\r\nContent-Length: 5\r\n\r\nhello",
    "no reason": b"HTTP/1.1 200\r\nContent-Length: 5\r\nX-A:1\r\n\r\nhello",
}


@pytest.mark.parametrize("name", ANSWERS)
@given(places=st.lists(st.integers(0, 400), max_size=12))
def test_response_is_parsed_the_same_in_any_pieces(name: str, places: list[int]) -> None:
    async def read() -> None:
        opened = Opened()
        exchange = opened.send()
        opened.hear(*cut(ANSWERS[name], places))
        await exchange.head
        assert (exchange.status, exchange.headers["x-a"]) == (200, "1")
        assert "x-b" not in exchange.headers
        assert "t" not in exchange.headers
        assert body_of(exchange) == b"hello"
        assert exchange.complete
        # What sent an interim response that nobody asked for may have more of that kind, and nobody knows how
        # the upstream itself reads a head that had to be repaired.
        reused = name not in ("interim", "repaired")
        assert (opened.freed, opened.gone, opened.connection.usable) == (reused, not reused, reused)

    asyncio.run(read())


def test_heads_beyond_the_limit_of_interim_responses_are_not_repaired() -> None:
    head = b"HTTP/1.1 103 Hints\r\nA : 1\r\n\r\n"
    repaired = repair_heads(head * (MAX_INTERIM_RESPONSES + 3))
    assert repaired == head.replace(b" :", b":") * (MAX_INTERIM_RESPONSES + 1) + head * 2


@given(text=st.binary(max_size=3000), places=st.lists(st.integers(0, 4000), max_size=8))
def test_a_body_that_ends_with_the_connection(text: bytes, places: list[int]) -> None:
    async def read() -> None:
        opened = Opened()
        exchange = opened.send()
        opened.hear(*cut(b"HTTP/1.1 200 OK\r\n\r\n" + text, places))
        assert not exchange.complete
        opened.wire.lost()
        assert body_of(exchange) == text
        assert exchange.complete
        assert (opened.freed, opened.gone) == (0, 1)

    asyncio.run(read())


@given(
    text=st.binary(min_size=1, max_size=300_000),
    members=st.integers(1, 3),
    places=st.lists(st.integers(0), max_size=6),
)
def test_gzip_in_whatever_pieces_and_members(text: bytes, members: int, places: list[int]) -> None:
    async def read() -> None:
        size = len(text) // members + 1
        packed = b"".join(gzip.compress(text[at : at + size]) for at in range(0, len(text), size))
        opened = Opened()
        exchange = opened.send()
        exchange.decode("gzip")
        head = b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(packed)
        opened.hear(*cut(head + packed, places))
        assert body_of(exchange) == text
        assert exchange.coding_complete

    asyncio.run(read())


@pytest.mark.parametrize("length", [0, 500])
async def test_head_has_no_body_whatever_its_length_says_and_its_connection_is_not_reused(
    length: int,
) -> None:
    # Upstreams exist that send the body all the same, at once or later.
    opened = Opened()
    exchange = opened.send(no_body=True)
    opened.hear(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % length)
    assert exchange.complete
    assert (opened.freed, opened.gone, opened.wire.closed) == (0, 1, True)


async def test_a_head_that_has_a_response_with_a_body_costs_the_connection() -> None:
    # Else the rest of that body would be the answer to the next request.
    opened = Opened()
    exchange = opened.send(no_body=True)
    opened.hear(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nthe beginning of a body")
    assert exchange.complete
    assert (opened.freed, opened.gone, opened.wire.closed) == (0, 1, True)


@pytest.mark.parametrize("status", [204, 304])
async def test_statuses_without_a_body(status: int) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 %d X\r\n\r\n" % status)
    assert exchange.complete
    assert opened.freed == 1


@pytest.mark.parametrize("status", [204, 304])
@pytest.mark.parametrize("field", [b"Content-Length: 5", b"Transfer-Encoding: chunked"])
async def test_bodiless_response_that_announces_a_body_is_not_reused(status: int, field: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 %d X\r\n%s\r\n\r\n" % (status, field))
    assert (exchange.complete, opened.freed, opened.wire.closed) == (True, 0, True)


@for_each(
    "answer",
    [
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 2\r\n\r\nok",
        b"HTTP/1.1 102 P\r\n\r\n" + OK,
        b"HTTP/1.1 100 Continue\r\nContent-Length: 2\r\n\r\n" + OK,
        OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil",
        OK + b"rubbish",
    ],
)
async def test_connection_with_more_data_or_close_is_not_reused(answer: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(answer)
    assert body_of(exchange) == b"ok"
    assert exchange.complete
    assert (opened.freed, opened.gone, opened.wire.closed) == (0, 1, True)


@pytest.mark.parametrize(
    ("said", "desynchronized"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil", True),
        (b"rubbish", True),
        (b"HTTP/1.1 408 Request Timeout\r\nConnection: close\r\n\r\n", False),
        (b"\r\n", False),
    ],
)
async def test_unsolicited_bytes_close_the_connection(said: bytes, desynchronized: bool) -> None:
    opened = Opened()
    opened.send()
    opened.hear(OK)
    opened.hear(said)
    assert opened.wire.closed
    assert not opened.connection.usable
    assert opened.connection.desynchronized is desynchronized


@pytest.mark.parametrize("after", [OK, b"rubbish"])
async def test_bytes_after_a_complete_response_mark_the_upstream_as_desynchronized(after: bytes) -> None:
    opened = Opened()
    opened.send()
    opened.hear(OK + after)
    assert opened.connection.desynchronized


async def test_a_response_that_fills_the_buffer_costs_its_connection() -> None:
    # A TLS layer may hold more, which no poll of the socket shows.
    opened = Opened()
    head = b"HTTP/1.1 200 OK\r\nContent-Length: 65000\r\nX: %s\r\n\r\n"
    whole = head % (b"x" * (65536 - len(head) + 2 - 65000)) + b"b" * 65000
    assert len(whole) == len(opened.connection.get_buffer(-1))
    exchange = opened.send()
    opened.connection.get_buffer(-1)[:] = whole
    opened.connection.buffer_updated(len(whole))
    assert (exchange.complete, opened.freed, opened.wire.closed) == (True, 0, True)


async def test_a_response_that_begins_before_the_request_was_sent_costs_the_connection_however_it_ends() -> (
    None
):
    opened = Opened(unsent=10)
    exchange = opened.send()
    opened.hear(OK[:10])
    opened.wire.unsent = 0
    opened.hear(OK[10:])
    assert (body_of(exchange), opened.freed, opened.wire.closed) == (b"ok", 0, True)


async def test_response_before_the_request_was_sent_is_returned_but_the_connection_is_not_reused() -> None:
    opened = Opened(unsent=10)
    exchange = opened.send()
    opened.hear(OK)
    assert body_of(exchange) == b"ok"
    assert (opened.freed, opened.wire.closed) == (0, True)


@for_each(
    "answer",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n",
        b"HTTP/1.1 102 P\r\n\r\n" * 20,
        b"HTTP/1.1 104 P\r\nContent-Length: 2\r\n\r\nno" + OK,
        b"\x00" * 10,
        *(
            b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\nhello"
            for fields in (
                b"Content-Length: 5\r\nContent-Length: 6",
                b"Content-Length: 5, 6",
                b"X: a\rContent-Length: 5\r\nContent-Length: 5",
                b"X: a\rY : b\r\nContent-Length: 5",
                b"Content-Length: 5,",
                b"Content-Length: +5, +5",
                b"Content-Length: 5\r\nContent-Length: 5\r\n 6",
                b"Content-Length: 5\r\nContent-Length: 5\r\nTransfer-Encoding: identity, chunked",
                b"A b : 1",
            )
        ),
    ],
)
async def test_invalid_heads_are_malformed(answer: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(answer)
    assert reason(exchange) in (FailureReason.MALFORMED, FailureReason.TRANSFER_CODING)
    assert opened.gone == 1


@for_each(
    ("fields", "length"),
    [
        (b"Content-Length: 5\r\nContent-Length: 5", "5"),
        (b"Content-Length: 5, 5 ,5", "5"),
        (b"content-length: 5\r\nX: 1\r\nCONTENT-LENGTH:5\nContent-Length: 5,5", "5"),
        (b"Content-Length \t: 5\r\nX  : 1", "5"),
        (b"Content-Length : 5\r\nContent-Length: 5", "5"),
        (b"X : 1\r\nTransfer-Encoding : chunked", None),
    ],
)
async def test_what_a_recipient_may_read_is_read(fields: bytes, length: str | None) -> None:
    """RFC 9110 section 8.6, RFC 9112 section 5.1."""
    body = b"hello" if length else b"5\r\nhello\r\n0\r\n\r\n"
    answer = b"HTTP/1.1 103 Hints\r\nLink : </a>\r\n\r\nHTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + body
    for pieces in ((answer,), tuple(answer[at : at + 1] for at in range(len(answer)))):
        opened = Opened()
        exchange = opened.send()
        opened.hear(*pieces)
        assert (exchange.status, exchange.complete, body_of(exchange)) == (200, True, b"hello")
        assert exchange.headers.getall("Content-Length", []) == ([length] if length else [])
        assert exchange.headers.get("X", "1") == "1"
        # Nobody knows how the upstream itself reads such a head.
        assert (opened.freed, opened.wire.closed) == (0, True)


@for_each(
    ("fields", "is_read"),
    [
        (b"A: b\r\n" * 299, True),
        (b"A: b\r\n" * 300, False),
        (b"A: " + b"b" * 65_000 + b"\r\n", True),
        (b"A: " + b"b" * 66_000 + b"\r\n", False),
        ((b"A: " + b"b" * 60_000 + b"\r\n") * 4, True),
        ((b"A: " + b"b" * 60_000 + b"\r\n") * 5, False),
    ],
)
async def test_heads_are_bounded(fields: bytes, is_read: bool) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n" + fields + b"\r\n")
    assert exchange.complete is is_read
    if not is_read:
        assert (reason(exchange), opened.gone) == (FailureReason.HEAD_TOO_LARGE, 1)


async def test_an_end_before_the_head_says_whether_a_response_had_started() -> None:
    for pieces, response_started in (((), False), ((b"HTTP/1.1 2",), True)):
        opened = Opened()
        exchange = opened.send()
        opened.hear(*pieces)
        opened.wire.lost(ConnectionResetError())
        error = exchange.head.exception()
        assert isinstance(error, ExchangeFailed)
        assert (error.reason, error.response_started) == (FailureReason.CLOSED, response_started)


async def test_truncated_body_is_an_error_after_the_data() -> None:
    for head in (b"Content-Length: 10\r\n", b"Transfer-Encoding: chunked\r\n"):
        opened = Opened()
        exchange = opened.send()
        opened.hear(
            b"HTTP/1.1 200 OK\r\n" + head + b"\r\n" + (b"3\r\nabc\r\n" if b"chunked" in head else b"abc")
        )
        opened.wire.lost()
        assert body_of(exchange) == b"abc"
        assert (exchange.complete, exchange.error, exchange.ended) == (False, FailureReason.CLOSED, True)


CHUNKS = b"2\r\nok\r\n0\r\n\r\n"


@pytest.mark.parametrize("value", [b"chunked", b"Chunked", b" chunked ", b"\tCHUNKED"])
async def test_chunked_is_decoded_in_whatever_case_and_blanks(value: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nTransfer-Encoding:%s\r\n\r\n" % value + CHUNKS)
    assert (body_of(exchange), exchange.complete, opened.freed) == (b"ok", True, 1)


@for_each(
    "fields",
    [
        b"Transfer-Encoding: chunked\t",
        b"Transfer-Encoding: chunked \t ",
        b"Transfer-Encoding: xchunked",
        b"Transfer-Encoding: gzip, chunked",
        b"Transfer-Encoding: gzip,chunked",
        b"Transfer-Encoding: chunked, chunked",
        b"Transfer-Encoding: chunked, identity",
        b"Transfer-Encoding: identity",
        b"Transfer-Encoding: gzip",
        b"Transfer-Encoding: , chunked",
        b"Transfer-Encoding: chunked,",
        b"Transfer-Encoding: chunked;a=b",
        b'Transfer-Encoding: "chunked"',
        b"Transfer-Encoding: chunked\x0b",
        b"Transfer-Encoding:",
        b"Transfer-Encoding : gzip, chunked",
        b"Transfer-Encoding: gzip,\r\n chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: identity\r\nTransfer-Encoding: chunked",
        b"Transfer-Encoding: chunked\r\nTransfer-Encoding: identity",
        b"Transfer-Encoding: chunked\r\nContent-Length: 2",
        b"Content-Length: 2\r\nTransfer-Encoding: chunked",
        b"Content-Length: 12\r\nTransfer-Encoding: xchunked",
    ],
)
async def test_no_other_transfer_coding_ends_as_a_body_with_framing_in_it(fields: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\n" + fields + b"\r\n\r\n" + CHUNKS)
    opened.wire.lost()
    assert reason(exchange) in (FailureReason.TRANSFER_CODING, FailureReason.MALFORMED)
    assert (exchange.buffered, opened.freed) == (0, 0)


async def test_an_http_1_0_response_has_no_transfer_coding() -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + CHUNKS)
    assert reason(exchange) is FailureReason.TRANSFER_CODING


# RFC 9113 section 4.1: length, type, flags, stream.
SETTINGS = b"\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x64"
GOAWAY = b"\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x01"


@for_each(
    "said",
    [
        b"\x00\x00\x00\x04\x00\x00\x00\x00\x00",
        SETTINGS,
        GOAWAY,
        SETTINGS + GOAWAY,
        SETTINGS[:7],
        b"HTTP/2.0 200 OK\r\n\r\n",
    ],
)
async def test_http2_is_recognized(said: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(said)
    assert reason(exchange) is FailureReason.HTTP2
    assert opened.wire.closed


async def test_http2_before_the_request_is_recognized() -> None:
    opened = Opened()
    opened.hear(SETTINGS)
    assert (opened.connection.speaks_http2, opened.connection.desynchronized, opened.gone) == (True, False, 1)


@pytest.mark.parametrize("more", [b"0\r\nA: ", b"0\r\n", b"9;a="], ids=["trailer", "trailers", "extension"])
async def test_trailers_and_chunk_extensions_are_bounded(more: bytes) -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n" + more)
    for _ in range(20):
        opened.hear(b"A: b\r\n" * 5_000 if more == b"0\r\n" else b"a" * 30_000)
    assert (exchange.error, opened.wire.closed) == (FailureReason.MALFORMED, True)


async def test_a_long_stream_of_small_pieces_is_none_the_worse_for_their_frames() -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
    for _ in range(2_000):
        opened.hear(b"1;" + b"e" * 200 + b"\r\n", b"x\r\n")
        assert exchange.read_nowait() == b"x"
    opened.hear(b"0\r\n\r\n")
    assert (exchange.complete, opened.freed) == (True, 1)


async def test_unread_data_pauses_the_connection() -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000\r\n\r\n")
    sent = 0
    while opened.wire.reading:
        opened.hear(b"x" * 10_000)
        sent += 10_000
    assert HIGH_WATER_MARK < sent <= HIGH_WATER_MARK + 10_000
    while exchange.buffered:
        exchange.read_nowait()
    assert opened.wire.reading


async def test_a_paused_connection_is_kept_reading() -> None:
    opened = Opened()
    exchange = opened.send()
    opened.hear(b"HTTP/1.1 200 OK\r\nContent-Length: 200000\r\n\r\n" + b"x" * 100_000)
    assert not opened.wire.reading
    opened.hear(b"x" * 100_000)
    assert opened.freed == 1
    assert opened.wire.reading
    assert len(body_of(exchange)) == 200_000


async def test_only_an_incomplete_response_costs_its_connection() -> None:
    whole, half = Opened(), Opened()
    first, second = whole.send(), half.send()
    whole.hear(OK)
    half.hear(OK[:-1])
    first.abort()
    second.abort()
    assert (whole.wire.closed, half.wire.closed) == (False, True)


@pytest.mark.parametrize(("early", "status"), [(True, 200), (True, 413), (False, 200), (False, 422)])
async def test_body_is_delayed_to_see_whether_the_head_alone_gets_a_response(
    early: bool, status: int
) -> None:
    opened = Opened()
    opened.connection.body_delay = 30 if early else 0.001
    exchange = opened.connection.send(b"HEAD|", b"body")
    assert opened.wire.written == b"HEAD|"
    if not early:
        await asyncio.sleep(0.05)
        assert opened.wire.written == b"HEAD|body"
    opened.hear(OK.replace(b"200", b"%d" % status))
    assert opened.wire.written == b"HEAD|body"
    assert (body_of(exchange), exchange.status, exchange.early) == (b"ok", status, early)
    reused = not early and status == 200
    assert (opened.freed, opened.wire.closed) == (reused, not reused)
    # An early error is what RFC 9110 lets a server send; an early success has not seen the body.
    assert opened.connection.desynchronized is (early and status == 200)
