"""UTCP's udp: datagrams that come, that are lost, and that somebody else sends."""

import asyncio
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.errors import (
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
from tests.protocols.calling import adapter_of, answer_to, call_of, events_of
from tests.protocols.kits.base import free_port
from tests.protocols.kits.sockets import datagram_server

SECRET = "secret-in-a-datagram"


@pytest.fixture
async def udp() -> AsyncIterator[Adapter[Any]]:
    async with adapter_of(UdpAdapter, SECRET) as adapter:
        yield adapter


class Peer:
    """A server that answers each datagram with those of `replies` that are not None: those are lost."""

    def __init__(self) -> None:
        self.template: dict[str, Any] = {}
        self.got: list[bytes] = []
        self.replies: list[bytes | None] = []
        self.pause = 0.0

    async def answer(self, message: bytes, reply: Any, peer: tuple[str, int]) -> None:
        self.got.append(message)
        self.peer = peer
        for one in self.replies:
            if one is not None:
                reply(one)
            await asyncio.sleep(self.pause)


@pytest.fixture
async def peer() -> AsyncIterator[Peer]:
    found = Peer()
    async with datagram_server(found.answer) as port:
        found.template = {"call_template_type": "udp", "host": "127.0.0.1", "port": port, "timeout": 3000}
        yield found


async def test_one_datagram_is_the_answer_by_default(udp, peer) -> None:
    peer.replies = ["grün".encode(), b"more"]
    result = await udp.call(call_of(udp, peer.template, {"a": "b", "n": 1}))
    assert (result.media_type, await result.read()) == ("text/plain; charset=utf-8", "grün".encode())
    assert peer.got == [b'{"a": "b", "n": 1}']


async def test_several_are_one_after_the_other(udp, peer) -> None:
    # The character is cut in two.
    peer.replies = [b"gr\xc3", b"\xbcn", b"!"]
    assert await answer_to(udp, {**peer.template, "number_of_response_datagrams": 3}, {}) == "grün!".encode()


async def test_with_none_to_come_nothing_is_waited_for(udp, peer) -> None:
    template = {**peer.template, "number_of_response_datagrams": 0, "timeout": 20_000}
    began = time.monotonic()
    assert await answer_to(udp, template, {"a": 1}) == b""
    assert time.monotonic() - began < 5
    async with asyncio.timeout(5):
        while not peer.got:  # noqa: ASYNC110 - a datagram has no event.
            await asyncio.sleep(0.01)


async def test_nobody_is_needed_for_no_answer(udp) -> None:
    template = {"call_template_type": "udp", "host": "127.0.0.1", "port": free_port(socket.SOCK_DGRAM),
                "number_of_response_datagrams": 0}  # fmt: skip
    assert await answer_to(udp, template, {"a": 1}) == b""


async def test_loss_says_what_came(udp, peer) -> None:
    peer.replies = [b"one ", None, f"{SECRET} three".encode()]
    template = {**peer.template, "number_of_response_datagrams": 3, "timeout": 300}
    with pytest.raises(UpstreamTimeout) as caught:
        await answer_to(udp, template, {})
    problem = caught.value.as_problem()
    assert problem["detail"] == "2 of 3 datagrams came in time."
    assert (problem["datagrams"], problem["expected_datagrams"]) == (2, 3)
    assert problem["upstream_body"] == "one *** three [cut off here]"


async def test_all_lost(udp, peer) -> None:
    began = time.monotonic()
    with pytest.raises(UpstreamTimeout) as caught:
        await answer_to(udp, {**peer.template, "timeout": 300}, {})
    assert caught.value.detail == "0 of 1 datagrams came in time."
    assert time.monotonic() - began < 5
    assert caught.value.request_sent


async def test_a_lossy_network_brings_the_answers_of_those_that_get_through(udp, peer) -> None:
    count = 0

    async def every_third_is_lost(message: bytes, reply: Any, address: tuple[str, int]) -> None:
        nonlocal count
        count += 1
        if count % 3:
            reply(message)

    async def one(port: int, number: int) -> bool:
        template = {**peer.template, "port": port, "timeout": 500}
        try:
            return await answer_to(udp, template, {"n": number}) == b'{"n": %d}' % number
        except UpstreamTimeout:
            return False

    async with datagram_server(every_third_is_lost) as port:
        came = await asyncio.gather(*(one(port, number) for number in range(30)))
    assert came.count(True) == 20


async def test_only_the_peer_is_heard(udp, peer) -> None:
    """Others send to the very port of the call, from another port and from another address."""
    spoofers = [socket.socket(socket.AF_INET, socket.SOCK_DGRAM) for _ in range(2)]
    spoofers[1].bind(("127.0.0.2", peer.template["port"]))

    async def slowly(message: bytes, reply: Any, address: tuple[str, int]) -> None:
        for spoofer in spoofers:
            for _ in range(3):
                spoofer.sendto(b"spoofed", address)
        await asyncio.sleep(0.1)
        reply(b"true")

    async with datagram_server(slowly) as port:
        template = {**peer.template, "port": port}
        assert await answer_to(udp, template, {}) == b"true"
    for spoofer in spoofers:
        spoofer.close()


async def test_a_closed_port_is_told_at_once(udp) -> None:
    template = {"call_template_type": "udp", "host": "127.0.0.1", "port": free_port(socket.SOCK_DGRAM)}
    with pytest.raises(UpstreamUnreachable) as caught:
        await answer_to(udp, template, {})
    assert not caught.value.request_sent


async def test_each_of_several_is_an_event(udp, peer) -> None:
    peer.replies, peer.pause = [b"one", b"\xff", b"three"], 0.03
    template = {**peer.template, "number_of_response_datagrams": 3}
    result = await udp.call(call_of(udp, template, {}, streaming=True))
    events = await events_of(result)
    assert [(event.kind, event.data) for event in events] == [
        ("text", b"one"),
        ("bytes", b"\xff"),
        ("text", b"three"),
    ]


async def test_the_last_event_of_a_lossy_answer_says_so(udp, peer) -> None:
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
        await answer_to(udp, template, {}, limits=Limits(response_bytes=2000))


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
    assert peer.got == [f"{SECRET} [1]".encode()]


async def test_what_no_datagram_carries_is_refused(udp, peer) -> None:
    with pytest.raises(InvalidArguments, match="too long"):
        await answer_to(udp, peer.template, {"a": "x" * 66_000})
    wire = WireCredential("cookie", "a", Secret("b"), "default")
    with pytest.raises(CredentialMissing):
        await answer_to(udp, peer.template, {}, credentials=(wire,))
    with pytest.raises(InvalidInput, match="proxy"):
        await answer_to(udp, peer.template, {}, egress=EgressSettings(proxy_url=Secret("http://127.0.0.1:1")))
    with pytest.raises(InvalidInput):
        udp.prepare({**peer.template, "response_byte_format": "hex"})


async def test_a_manual_of_several_datagrams(udp, peer) -> None:
    peer.replies = [b'{"tools"', b": []}"]
    found = await udp.discover(call_of(udp, {**peer.template, "number_of_response_datagrams": 2}))
    assert (found.raw, peer.got) == (b'{"tools": []}', [b'{"type": "utcp"}'])


async def test_closing_an_answer_closes_the_socket(udp, peer) -> None:
    peer.replies = [b"one"]
    template = {**peer.template, "number_of_response_datagrams": 2}
    result = await udp.call(call_of(udp, template, {}, streaming=True))
    await result.aclose()
    async with asyncio.timeout(5):
        while True:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
                try:
                    probe.bind(peer.peer)
                    break
                except OSError:
                    await asyncio.sleep(0.01)
