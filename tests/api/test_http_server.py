"""The first bytes of a connection to `serve` itself, without a proxy in front: what is bounded, and what is rejected."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

HEAD_SECONDS = 2.0
LIVE = b"GET /health/live HTTP/1.1\r\nHost: x\r\n"


@pytest.fixture(scope="module", params=[1, 2], ids=["one worker", "two workers"])
def edge(
    request: pytest.FixtureRequest, servers: Pair, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningGateway]:
    """A gateway with a short time for heads."""
    folder = tmp_path_factory.mktemp("edge")
    settings = {"HEAD_TIMEOUT": str(HEAD_SECONDS), "FORWARDED_ALLOW_IPS": "127.0.0.1"}
    with serve(servers, folder, workers=request.param, **settings) as running:
        yield running


def connect(gateway: RunningGateway, *, source: str = "127.0.0.1") -> socket.socket:
    port = urlsplit(gateway.url).port
    assert port is not None
    return socket.create_connection(("127.0.0.1", port), timeout=30, source_address=(source, 0))


def read(connection: socket.socket) -> bytes:
    """Everything until the server closes, or the connection is reset."""
    found = b""
    with contextlib.suppress(ConnectionError):
        while data := connection.recv(65536):
            found += data
    return found


def exchange(gateway: RunningGateway, *pieces: bytes) -> bytes:
    with connect(gateway) as connection:
        with contextlib.suppress(ConnectionError):
            for piece in pieces:
                connection.sendall(piece)
        return read(connection)


def problem(response: bytes) -> tuple[int, str]:
    """The status and the slug of a problem that ends its connection."""
    head, _, body = response.partition(b"\r\n\r\n")
    assert b"\r\ncontent-type: application/problem+json" in head, response[:300]
    assert b"\r\nconnection: close" in head
    document = json.loads(body)
    assert int(head.split(b" ", 2)[1]) == document["status"]
    return document["status"], document["type"].rpartition(":")[2]


@for_each(
    ("pieces", "expected"),
    [
        ([b"GET /" + b"u" * 100_000], (414, "uri-too-long")),
        ([LIVE, b"A: " + b"v" * 100_000], (431, "request-header-fields-too-large")),
        ([LIVE, b"a: b\r\n" * 1000], (431, "request-header-fields-too-large")),
        ([b"GET /health/live HTTP/1.1\r\n\r\n"], (400, "bad-request")),
        ([LIVE + b"Host: x\r\n\r\n"], (400, "bad-request")),
        ([b"GET /health/live HTTP/2.0\r\nHost: x\r\n\r\n"], (505, "http-version-not-supported")),
        ([LIVE + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"], (501, "not-implemented")),
        ([b"GET http://y/health/live HTTP/1.1\r\nHost: x\r\n\r\n"], (400, "bad-request")),
    ],
)
def test_an_invalid_request_head_is_rejected(
    edge: RunningGateway, pieces: list[bytes], expected: tuple[int, str]
) -> None:
    assert problem(exchange(edge, *pieces)) == expected


@for_each("attack", ["value", "headers", "url", "trailers"])
def test_a_head_or_trailer_of_48_mb_is_not_read(edge: RunningGateway, attack: str) -> None:
    small = b"".join(b"a%05d: b\r\n" % number for number in range(90_000))
    chunked = b"POST /tools/none/call HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n"
    first, block = {
        "value": (LIVE + b"A: ", b"v" * (1 << 20)),
        "headers": (LIVE, small),
        "url": (b"GET /", b"u" * (1 << 20)),
        "trailers": (chunked, small),
    }[attack]
    sent = 0
    with connect(edge) as connection, contextlib.suppress(ConnectionError):
        connection.sendall(first)
        for _ in range(48):
            connection.sendall(block)
            sent += 1
    # The rest is not read: the client's and the server's buffers take some of it.
    assert sent < 40
    with connect(edge) as connection:
        connection.sendall(LIVE + b"Connection: close\r\n\r\n")
        assert read(connection).startswith(b"HTTP/1.1 200 OK\r\n")


def test_an_api_key_in_the_trailers_is_ignored(edge: RunningGateway) -> None:
    key = b"Authorization: Bearer " + edge.key.encode() + b"\r\n"
    head = b"GET /tools HTTP/1.1\r\nHost: x\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n"
    assert exchange(edge, head + key + b"\r\n0\r\n\r\n").startswith(b"HTTP/1.1 200 ")
    assert exchange(edge, head + b"\r\n0\r\n" + key + b"\r\n").startswith(b"HTTP/1.1 401 ")
    with connect(edge) as connection:
        # Not together with the head either: the application would have seen the list grow.
        connection.sendall(head + b"\r\n")
        time.sleep(0.1)
        with contextlib.suppress(ConnectionError):
            connection.sendall(b"0\r\n" + key + b"\r\n")
        assert read(connection).startswith(b"HTTP/1.1 401 ")


def test_a_request_head_sent_byte_by_byte_gets_408(edge: RunningGateway) -> None:
    began = time.monotonic()
    with connect(edge) as connection:
        connection.sendall(LIVE)
        connection.settimeout(0.2)
        response = b""
        while not response and time.monotonic() - began < HEAD_SECONDS + 20:
            try:
                connection.sendall(b"a")
                response = connection.recv(65536)
            except TimeoutError:
                continue
    assert problem(response) == (408, "request-timeout")
    assert time.monotonic() - began >= HEAD_SECONDS


def test_a_silent_connection_is_closed(edge: RunningGateway) -> None:
    with connect(edge) as connection:
        assert read(connection) == b""


def test_500_connections_from_one_address_are_served(edge: RunningGateway) -> None:
    with contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(edge, source="127.0.0.3")) for _ in range(500)]
        for connection in connections:
            connection.sendall(LIVE + b"\r\n")
        assert all(connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n") for connection in connections)


def test_rejections_are_counted_by_reason(edge: RunningGateway) -> None:
    exchange(edge, b"GET /health/live HTTP/1.1\r\n\r\n")
    exchange(edge, b"GET /" + b"u" * 100_000)
    expected = [
        'utcp_gateway_http_server_rejected_total{reason="host"}',
        'utcp_gateway_http_server_rejected_total{reason="uri"}',
        'utcp_gateway_client_connections{state="busy"}',
    ]
    # Each worker publishes its metrics every half second.
    deadline = time.monotonic() + 20
    with edge.client() as client:
        while True:
            lines = client.get("/metrics").text.splitlines()
            values = {
                name: float(value)
                for name, _, value in (line.rpartition(" ") for line in lines if not line.startswith("#"))
            }
            if all(values.get(name, 0) >= 1 for name in expected):
                break
            assert time.monotonic() < deadline, {name: values.get(name) for name in expected}
            time.sleep(0.1)


def test_a_limit_per_address_applies_to_that_address_only(servers: Pair, tmp_path: Path) -> None:
    with (
        serve(servers, tmp_path, MAX_CONNECTIONS_PER_ADDRESS="5") as running,
        contextlib.ExitStack() as stack,
    ):
        for _ in range(5):
            connection = stack.enter_context(connect(running, source="127.0.0.2"))
            connection.sendall(LIVE + b"\r\n")
            assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n")
        with connect(running, source="127.0.0.2") as connection:
            assert problem(read(connection)) == (429, "too-many-requests")
        # 127.0.0.1 is a proxy here, and has no limit of its own.
        proxies = [stack.enter_context(connect(running)) for _ in range(20)]
        for proxy in proxies:
            proxy.sendall(LIVE + b"\r\n")
        assert all(proxy.recv(65536).startswith(b"HTTP/1.1 200 OK\r\n") for proxy in proxies)
