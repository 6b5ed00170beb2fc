"""UTCP's udp: datagrams that come, that are lost, and that somebody else sends."""

import asyncio
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.core.errors import (
    CredentialMissing,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.credential_rendering import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import Adapter
from app.protocols.udp.adapter import UdpAdapter
from app.security.secret import Secret
from tests.protocols.calling import adapter_of, call_of, events_of, read_response
from tests.protocols.kits.base import free_port
from tests.protocols.peers.udp import UdpPeer, is_bound, udp_server

SECRET = "secret-in-a-datagram"


@pytest.fixture
async def udp() -> AsyncIterator[Adapter[Any]]:
    async with adapter_of(UdpAdapter, SECRET) as adapter:
        yield adapter


@pytest.fixture
async def peer() -> AsyncIterator[UdpPeer]:
    async with UdpPeer().serve() as running:
        yield running


async def test_one_datagram_is_the_response_by_default(udp, peer) -> None:
    peer.replies = ["grün".encode(), b"more"]
    result = await udp.call(call_of(udp, peer.template, {"a": "b", "n": 1}))
    assert (result.media_type, await result.read()) == ("text/plain; charset=utf-8", "grün".encode())
    assert peer.received == [b'{"a": "b", "n": 1}']


async def test_several_are_one_after_the_other(udp, peer) -> None:
    # The character is cut in two.
    peer.replies = [b"gr\xc3", b"\xbcn", b"!"]
    assert (
        await read_response(udp, {**peer.template, "number_of_response_datagrams": 3}, {}) == "grün!".encode()
    )


async def test_without_responses_nothing_is_waited_for(udp, peer) -> None:
    template = {**peer.template, "number_of_response_datagrams": 0, "timeout": 600_000}
    assert await read_response(udp, template, {"a": 1}, seconds=600) == b""
    async with asyncio.timeout(60):
        while not peer.received:  # noqa: ASYNC110 - a datagram has no event.
            await asyncio.sleep(0.01)


async def test_without_responses_no_peer_is_needed(udp) -> None:
    template = {"call_template_type": "udp", "host": "127.0.0.1", "port": free_port(socket.SOCK_DGRAM),
                "number_of_response_datagrams": 0}  # fmt: skip
    assert await read_response(udp, template, {"a": 1}) == b""


async def test_a_loss_reports_the_datagrams_that_arrived(udp, peer) -> None:
    peer.replies = [b"one ", None, f"{SECRET} three".encode()]
    template = {**peer.template, "number_of_response_datagrams": 3, "timeout": 300}
    with pytest.raises(UpstreamTimeout) as caught:
        await read_response(udp, template, {})
    problem = caught.value.as_problem()
    assert problem["detail"].startswith("2 of 3 datagrams arrived in time. Its response says: one *** three")
    assert (problem["datagrams"], problem["expected_datagrams"]) == (2, 3)
    assert problem["upstream_body"] == "one *** three [truncated]"


async def test_all_lost(udp, peer) -> None:
    with pytest.raises(UpstreamTimeout) as caught:
        await read_response(udp, {**peer.template, "timeout": 300}, {}, seconds=600)
    assert caught.value.detail == "0 of 1 datagrams arrived in time."
    assert caught.value.request_sent


async def test_a_lossy_network_brings_the_responses_of_those_that_get_through(udp, peer) -> None:
    count = 0

    async def every_third_is_lost(message: bytes, reply: Any, address: tuple[str, int]) -> None:
        nonlocal count
        count += 1
        if count % 3:
            reply(message)

    async def one(port: int, number: int) -> bool:
        template = {**peer.template, "port": port, "timeout": 500}
        try:
            return await read_response(udp, template, {"n": number}) == b'{"n": %d}' % number
        except UpstreamTimeout:
            return False

    async with udp_server(every_third_is_lost) as port:
        came = await asyncio.gather(*(one(port, number) for number in range(30)))
    assert came.count(True) == 20


async def test_datagrams_of_others_are_ignored(udp, peer) -> None:
    """Others send to the very port of the call, from another port and from another address."""
    spoofers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    spoofers[1].bind(("127.0.0.2", peer.template["port"]))

    async def slowly(message: bytes, reply: Any, address: tuple[str, int]) -> None:
        for spoofer in spoofers:
            for _ in range(3):
                spoofer.sendto(b"spoofed", address)
        await asyncio.sleep(0.1)
        reply(b"true")

    async with udp_server(slowly) as port:
        template = {**peer.template, "port": port}
        assert await read_response(udp, template, {}) == b"true"
    for spoofer in spoofers:
        spoofer.close()


async def test_a_closed_port_is_reported_at_once(udp) -> None:
    template = {"call_template_type": "udp", "host": "127.0.0.1", "port": free_port(socket.SOCK_DGRAM)}
    with pytest.raises(UpstreamUnreachable) as caught:
        await read_response(udp, template, {})
    assert not caught.value.request_sent


async def test_each_of_several_is_an_event(udp, peer) -> None:
    peer.replies, peer.interval = [b"one", b"\xff", b"three"], 0.03
    template = {**peer.template, "number_of_response_datagrams": 3}
    result = await udp.call(call_of(udp, template, {}, streaming=True))
    events = await events_of(result)
    assert [(event.kind, event.data) for event in events] == [
        ("text", b"one"),
        ("bytes", b"\xff"),
        ("text", b"three"),
    ]


async def test_the_last_event_of_a_lossy_response_is_an_error(udp, peer) -> None:
    peer.replies = [b"one"]
    template = {**peer.template, "number_of_response_datagrams": 2, "timeout": 300}
    result = await udp.call(call_of(udp, template, {}, streaming=True))
    events = aiter(result.events)
    assert (await anext(events)).data == b"one"
    with pytest.raises(UpstreamTimeout, match="1 of 2"):
        await anext(events)
    await result.aclose()


async def test_limits_hold_over_all_of_them(udp, peer) -> None:
    peer.replies = [b"x" * 900] * 3
    template = {**peer.template, "number_of_response_datagrams": 3}
    with pytest.raises(ResponseTooLarge):
        await read_response(udp, template, {}, limits=Limits(response_bytes=2000))


async def test_raw_bytes(udp, peer) -> None:
    peer.replies = [b"\x00\xff"]
    result = await udp.call(call_of(udp, {**peer.template, "response_byte_format": None}, {}))
    assert (result.media_type, await result.read()) == ("application/octet-stream", b"\x00\xff")


async def test_a_template_with_arguments_and_a_secret(udp, peer) -> None:
    peer.replies = [b"ok"]
    template = {**peer.template, "request_data_format": "text", "request_data_template": ""}
    wire = WireCredential("field", "/request_data_template", Secret(f"{SECRET} UTCP_ARG_a_UTCP_ARG"), "s")
    call = call_of(udp, template, {"a": [1]}, credentials=(wire,))
    assert udp.describe(call)["body"] == "***"
    await udp.call(call)
    assert peer.received == [f"{SECRET} [1]".encode()]


async def test_what_no_datagram_carries_is_rejected(udp, peer) -> None:
    with pytest.raises(InvalidArguments, match="too long"):
        await read_response(udp, peer.template, {"a": "x" * 66_000})
    wire = WireCredential("cookie", "a", Secret("b"), "default")
    with pytest.raises(CredentialMissing):
        await read_response(udp, peer.template, {}, credentials=(wire,))
    with pytest.raises(InvalidInput, match="proxy"):
        await read_response(
            udp, peer.template, {}, egress=EgressSettings(proxy_url=Secret("http://127.0.0.1:1"))
        )
    with pytest.raises(InvalidInput):
        udp.prepare({**peer.template, "response_byte_format": "hex"})


async def test_a_manual_of_several_datagrams(udp, peer) -> None:
    peer.replies = [b'{"tools"', b": []}"]
    found = await udp.discover(call_of(udp, {**peer.template, "number_of_response_datagrams": 2}))
    assert (found.raw, peer.received) == (b'{"tools": []}', [b'{"type": "utcp"}'])


async def test_closing_a_response_closes_the_socket(udp, peer) -> None:
    peer.replies = [b"one"]
    template = {**peer.template, "number_of_response_datagrams": 2}
    result = await udp.call(call_of(udp, template, {}, streaming=True))
    await result.aclose()
    async with asyncio.timeout(60):
        while is_bound(peer.client):  # noqa: ASYNC110 - the kernel has no event for it.
            await asyncio.sleep(0.01)
