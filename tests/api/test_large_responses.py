"""Large and endless responses through a gateway process: memory, back-pressure, clients that disconnect or stall."""

import json
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.api.flood import Flood, flood
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

HUNDRED_MB = 100 * 1000 * 1000
MIB = 1 << 20
KINDS = ("bytes", "chunks", "lines")


@pytest.fixture(scope="module")
def site() -> Iterator[Flood]:
    with flood() as running:
        yield running


@pytest.fixture(scope="module")
def running(servers: Pair, site: Flood, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a tool for each kind of response, and one more whose responses may have 1 MB."""
    settings = {"CLIENT_IDLE_TIMEOUT": "2", "CALL_LOG_FLUSH_SECONDS": "0.05"}
    with serve(servers, tmp_path_factory.mktemp("large"), **settings) as gateway, gateway.client() as client:
        for name, limits in (("flood", {}), ("bounded", {"response_bytes": 1_000_000})):
            made = client.post(
                "/providers", json={"name": name, "limits": limits, "source": {"document": _document(site)}}
            )
            assert made.status_code == 201, made.text
        yield gateway


def _document(site: Flood) -> dict[str, Any]:
    count = {"name": "count", "in": "path", "required": True, "schema": {"type": "integer"}}
    paths = {
        **{f"/{kind}/{{count}}": {"get": {"operationId": kind, "parameters": [count], "responses": {"200": {"description": "ok"}}}} for kind in KINDS},
        **{f"/{kind}": {"get": {"operationId": kind, "responses": {"200": {"description": "ok"}}}} for kind in ("events", "silent")},
    }  # fmt: skip
    return {
        "openapi": "3.1.0",
        "info": {"title": "Flood", "version": "1"},
        "servers": [{"url": site.url}],
        "paths": paths,
    }


class Peak:
    """The most memory that a process had resident since this was made, by the kernel's own count."""

    def __init__(self, pid: int) -> None:
        self._folder = Path(f"/proc/{pid}")
        self._folder.joinpath("clear_refs").write_text("5")
        self.before = self._read("VmRSS")

    def _read(self, name: str) -> int:
        for line in self._folder.joinpath("status").read_text().splitlines():
            if line.startswith(f"{name}:"):
                return int(line.split()[1]) << 10
        raise KeyError(name)

    def rise(self) -> int:
        return self._read("VmHWM") - self.before


@contextmanager
def calling(
    gateway: RunningGateway, tool: str, count: int | None = None, accept: str = "*/*"
) -> Iterator[socket.socket]:
    """A raw connection that has sent a call; the test reads from it."""
    host, _, port = gateway.url.removeprefix("http://").partition(":")
    body = b"{}" if count is None else json.dumps({"count": count}).encode()
    head = (
        f"POST /tools/{tool}/call HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {gateway.key}\r\nAccept: {accept}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    with socket.socket() as raw:
        # A small buffer in the kernel, so that the gateway soon has to wait for the client.
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16 << 10)
        raw.settimeout(10)
        raw.connect((host, int(port)))
        raw.sendall(head.encode() + body)
        yield raw


def read_all(raw: socket.socket) -> bytes:
    """All bytes until the connection ends, in whichever way."""
    pieces = []
    try:
        while piece := raw.recv(65536):
            pieces.append(piece)
    except ConnectionError:
        pass
    return b"".join(pieces)


def latest(gateway: RunningGateway, outcome: str) -> dict[str, Any]:
    """The newest call record, once it has this outcome."""
    deadline = time.monotonic() + 10
    with gateway.client() as client:
        while True:
            [record] = client.get("/calls", params={"limit": 1}).json()["items"]
            if record["outcome"] == outcome or time.monotonic() > deadline:
                assert record["outcome"] == outcome
                return record
            time.sleep(0.05)


@pytest.mark.parametrize(
    ("kind", "accept"),
    [
        ("bytes", "*/*"),
        ("chunks", "*/*"),
        ("chunks", "application/json"),
        ("lines", "application/x-ndjson"),
        ("lines", "text/event-stream"),
        ("bytes", "application/x-ndjson"),
    ],
)
def test_a_hundred_megabytes_take_little_memory(running: RunningGateway, kind: str, accept: str) -> None:
    def take(count: int) -> int:
        with running.client() as client:
            body, headers = {"count": count}, {"Accept": accept}
            with client.stream("POST", f"/tools/flood.{kind}/call", json=body, headers=headers) as response:
                assert response.status_code == 200
                return sum(map(len, response.iter_raw()))

    take(MIB)
    peak = Peak(running.process.pid)
    assert take(HUNDRED_MB) >= HUNDRED_MB
    assert peak.rise() <= 16 * MIB


@pytest.mark.parametrize(("kind", "accept"), [("chunks", "*/*"), ("lines", "text/event-stream")])
def test_a_client_that_reads_nothing_slows_its_upstream_down_and_is_disconnected(
    running: RunningGateway, site: Flood, kind: str, accept: str
) -> None:
    peak = Peak(running.process.pid)
    site.left.clear()
    before = site.written
    with calling(running, f"flood.{kind}", HUNDRED_MB, accept) as raw:
        assert site.left.wait(10)
        assert len(read_all(raw)) < 20 * MIB
    assert site.written - before < 20 * MIB
    assert peak.rise() <= 4 * MIB
    assert latest(running, "client-timeout")["response_bytes"] < 20 * MIB


@pytest.mark.parametrize(
    ("tool", "count", "accept"),
    [
        ("silent", None, "*/*"),
        ("silent", None, "text/event-stream"),
        ("chunks", HUNDRED_MB, "*/*"),
        ("lines", HUNDRED_MB, "application/x-ndjson"),
        ("events", None, "text/event-stream"),
    ],
)
def test_the_upstream_connection_ends_with_the_clients(
    running: RunningGateway, site: Flood, tool: str, count: int | None, accept: str
) -> None:
    site.left.clear()
    with calling(running, f"flood.{tool}", count, accept) as raw:
        if tool == "silent":
            time.sleep(0.3)
        else:
            assert raw.recv(1000)
    assert site.left.wait(10)
    latest(running, "cancelled")


@pytest.mark.parametrize("accept", ["*/*", "application/json"])
def test_a_response_that_grows_too_large_is_never_mistaken_for_complete(
    running: RunningGateway, accept: str
) -> None:
    with calling(running, "bounded.chunks", HUNDRED_MB, accept) as raw:
        response = read_all(raw)
    assert response.startswith(b"HTTP/1.1 200 ")
    assert b"transfer-encoding: chunked" in response.lower()
    # The chunk that ends a body is missing.
    assert not response.endswith(b"0\r\n\r\n")
    assert latest(running, "response-too-large")["upstream_status"] == 200


def test_a_response_with_a_content_length_above_the_limit_is_a_problem(running: RunningGateway) -> None:
    with running.client() as client:
        response = client.post("/tools/bounded.bytes/call", json={"count": 2_000_000})
    assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (502, "response-too-large")
    latest(running, "response-too-large")


def test_a_stream_that_grows_too_large_ends_with_an_error_event(running: RunningGateway) -> None:
    with running.client() as client:
        headers = {"Accept": "text/event-stream"}
        response = client.post("/tools/bounded.lines/call", json={"count": HUNDRED_MB}, headers=headers)
    last = list(httpx2.EventSource(response))[-1]
    assert (last.event, last.json()["type"].rpartition(":")[2]) == ("gateway-error", "response-too-large")
    latest(running, "response-too-large")
