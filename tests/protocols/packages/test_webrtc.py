"""WebRTC: signalling in both ways, addresses of answers, channels that are shared and that end."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
from utcp_gateway_webrtc.adapter import WebrtcAdapter
from utcp_gateway_webrtc.connection import MAX_MESSAGE_BYTES
from websockets.asyncio.server import ServerConnection

from app.core.errors import (
    BlockedAddress,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamError,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credential_rendering import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.manuals import read_manual
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import call_of, read_response
from tests.protocols.kits.base import free_port
from tests.protocols.peers.webrtc import MANUAL, WebrtcPeer, send_reply
from tests.protocols.peers.websocket import websocket_server


def template(peer: WebrtcPeer, **fields: Any) -> dict[str, Any]:
    return {
        "call_template_type": "webrtc", "signaling_server": f"{peer.url}/peers/", "peer_id": "a/b c",
        "tool_name": "echo", **fields,
    }  # fmt: skip


@pytest.fixture
async def peer() -> AsyncIterator[WebrtcPeer]:
    """A peer that does what the name of the tool says."""

    async def respond(message: dict[str, Any], channel: Any) -> None:
        await _respond(running, message, channel)

    running = WebrtcPeer(respond)
    async with running.serve():
        yield running


async def _respond(peer: WebrtcPeer, message: dict[str, Any], channel: Any) -> None:
    if message["type"] == "utcp":
        return send_reply(channel, message, result=MANUAL)
    match message["tool"]:
        case "echo":
            send_reply(channel, {"id": "of nobody"}, result=1)
            channel.send("no json")
            send_reply(channel, message, result=message["arguments"])
        case "late":
            await asyncio.sleep(message["arguments"]["seconds"])
            send_reply(channel, message, result=message["arguments"])
        case "error":
            send_reply(channel, message, error=message["arguments"]["error"])
        case "neither":
            send_reply(channel, message, more=1)
        case "half":
            send_reply(channel, message, event=1)
            send_reply(channel, message, error={"message": "no more"})
        case "odd":
            send_reply(channel, message, event=1)
            send_reply(channel, message, result=2)
        case "empty":
            send_reply(channel, message, done=True)
        case "huge":
            channel.transport._remote_max_message_size = 0
            # More than the receive window, which is 1 MiB larger than a message.
            channel.send("x" * (MAX_MESSAGE_BYTES + (1 << 20) + (1 << 16)))
        case "channels":
            for n in range(20):
                peer.connections[-1].createDataChannel(f"more {n}")
            await asyncio.sleep(10)
    return None


@pytest.fixture
async def adapter(engine, masker) -> AsyncIterator[WebrtcAdapter]:
    made = WebrtcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield made
    await made.aclose()


async def called(adapter: WebrtcAdapter, template: Any, arguments: Any = None, **fields: Any) -> Any:
    return orjson.loads(await read_response(adapter, template, arguments, **fields))


async def test_the_offer_is_posted_for_the_peer_and_the_session_ends_with_the_channel(
    peer: WebrtcPeer, adapter
) -> None:
    assert await called(adapter, template(peer, data_channel_name="mine"), {"a": 1}) == {"a": 1}
    assert peer.labels == ["mine"]
    [offer] = peer.requests
    assert (offer.method, offer.target) == ("POST", "/peers/a%2Fb%20c")
    assert offer.headers["content-type"] == "application/sdp"
    await adapter.aclose()
    assert (peer.requests[1].method, peer.requests[1].target) == ("DELETE", "/s/1")


async def test_calls_share_a_channel_and_streams_do_not(peer: WebrtcPeer, adapter) -> None:
    late = template(peer, tool_name="late")
    calls = [called(adapter, late, {"seconds": 0.01 * (9 - n), "n": n}) for n in range(9)]
    assert [answer["n"] for answer in await asyncio.gather(*calls)] == list(range(9))
    assert len(peer.connections) == 1
    first = await adapter.call(call_of(adapter, template(peer), {"a": 1}, streaming=True))
    assert [event.data async for event in first.events] == [b'{"a":1}']
    assert len(peer.connections) == 1
    slow = asyncio.create_task(called(adapter, late, {"seconds": 5}))
    await asyncio.sleep(0.1)
    streamed = await adapter.call(call_of(adapter, template(peer, tool_name="half"), streaming=True))
    assert len(peer.connections) == 2
    with pytest.raises(UpstreamRejected):
        async for _ in streamed.events:
            pass
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    other = WireCredential("header", "X-Key", Secret("other"), "mine")
    await called(adapter, template(peer), credentials=(other,))
    assert len(peer.connections) == 3


async def test_a_channel_that_ends_fails_its_calls_and_the_next_gets_another(
    peer: WebrtcPeer, adapter
) -> None:
    late = asyncio.create_task(called(adapter, template(peer, tool_name="late"), {"seconds": 9}))
    async with asyncio.timeout(10):
        while not peer.running:  # noqa: ASYNC110 - the peer's side has no event for it.
            await asyncio.sleep(0.02)
    await peer.connections[0].close()
    with pytest.raises(UpstreamUnreachable) as caught:
        await late
    assert caught.value.request_sent
    assert await called(adapter, template(peer), {"a": 2}) == {"a": 2}
    assert len(peer.connections) == 2


@for_each(
    ("answer", "error", "status"),
    [
        ({"status": 404, "message": "of hidden-value"}, UpstreamRejected, 404),
        ({"message": "of hidden-value"}, UpstreamRejected, 422),
        ({"status": 503}, UpstreamRejected, 502),
        ({"status": 200}, UpstreamRejected, 422),
        ({"status": 401}, UpstreamUnauthorized, 502),
        ("of hidden-value", UpstreamRejected, 422),
    ],
    ids=["its-status", "without", "server", "no-error", "unauthorized", "text"],
)
async def test_errors_of_the_peer(peer: WebrtcPeer, adapter, masker, answer, error, status) -> None:
    masker.add("hidden-value")
    with pytest.raises(error) as caught:
        await called(adapter, template(peer, tool_name="error"), {"error": answer})
    assert caught.value.status == status
    assert "hidden-value" not in orjson.dumps(caught.value.as_problem()).decode()


@pytest.mark.parametrize("tool", ["neither", "odd"])
async def test_invalid_replies_are_malformed(peer: WebrtcPeer, adapter, tool) -> None:
    with pytest.raises(UpstreamMalformed):
        await called(adapter, template(peer, tool_name=tool))


async def test_a_stream_without_events_is_an_empty_list(peer: WebrtcPeer, adapter) -> None:
    assert await called(adapter, template(peer, tool_name="empty")) == []


async def test_a_message_above_what_a_peer_may_send_ends_the_channel(peer: WebrtcPeer, adapter) -> None:
    # The library takes seconds for that much.
    limits = Limits(first_byte=240, idle=240, total=240)
    with pytest.raises(ResponseTooLarge):
        await called(adapter, template(peer, tool_name="huge"), seconds=240, limits=limits)


async def test_a_peer_that_opens_channel_after_channel_is_left(peer: WebrtcPeer, adapter) -> None:
    with pytest.raises(UpstreamMalformed):
        await called(adapter, template(peer, tool_name="channels"))


async def test_arguments_that_the_peer_does_not_take(peer: WebrtcPeer, adapter) -> None:
    with pytest.raises(InvalidArguments):
        await called(adapter, template(peer), {"a": "x" * (1 << 20)})
    assert await called(adapter, template(peer), {"a": 1}) == {"a": 1}


def only(candidate: str) -> Callable[[str], str]:
    """The answer with this candidate alone."""

    def change(sdp: str) -> str:
        lines = [line for line in sdp.splitlines() if not line.startswith("a=candidate")]
        return "\r\n".join([*lines, "a=candidate:1 1 " + candidate, ""])

    return change


@for_each(
    "candidate",
    [
        "udp 1 10.0.0.1 5000 typ host", "udp 1 169.254.169.254 80 typ host", "tcp 1 127.0.0.1 9 typ host tcptype active",
        "udp 1 4f5a.local 5000 typ host", "udp 1 localhost 5000 typ host", "udp 1 ::ffff:10.0.0.1 5000 typ host",
        "udp 1 fe80::1%eth0 5000 typ host", "udp 1 127.0.0.1 0 typ host", "udp 1 127.0.0.1 x typ host",
        "udp 1 10.0.0.2 5000 typ srflx raddr 127.0.0.1 rport 1", "udp",
    ],
    ids=["private", "metadata", "tcp", "mdns", "name", "mapped", "link-local", "no-port", "bad-port", "srflx", "short"],
)  # fmt: skip
async def test_an_answer_without_an_allowed_address_is_rejected(peer: WebrtcPeer, adapter, candidate) -> None:
    peer.edit_answer = only(candidate)
    with pytest.raises(BlockedAddress):
        await called(adapter, template(peer))


async def test_nothing_is_sent_to_an_address_that_a_packet_came_from(peer: WebrtcPeer, masker) -> None:
    """A peer at a denied address that names an allowed one, and then checks from its own."""
    engine = Engine(Guard(allow_networks=["127.0.0.1/32"]))
    adapter = WebrtcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    heard: list[bytes] = []
    answered = peer.answer

    async def elsewhere(offer: str) -> str:
        sdp = await answered(offer)
        ice = peer.connections[-1].sctp.transport.transport.iceGatherer._connection
        for protocol in ice._protocols:
            protocol.datagram_received = lambda data, _addr: heard.append(data)
        return sdp

    peer.answer = elsewhere
    peer.address = "127.0.0.2"
    peer.edit_answer = only(f"udp 1 127.0.0.1 {free_port()} typ host")
    with pytest.raises((UpstreamTimeout, UpstreamUnreachable)) as caught:
        await called(adapter, template(peer), seconds=3)
    assert not caught.value.request_sent
    sent = peer.connections[-1].sctp.transport.transport.iceGatherer._connection
    assert sent._check_list
    assert heard == []
    await adapter.aclose()
    await engine.aclose()


@pytest.mark.parametrize(
    "answer", ["", "v=0", "no sdp\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host", "x" * 70_000]
)
async def test_answers_of_the_signalling_that_are_none(peer: WebrtcPeer, adapter, answer) -> None:
    peer.edit_answer = lambda _: answer
    with pytest.raises((UpstreamMalformed, BlockedAddress, ResponseTooLarge)):
        await called(adapter, template(peer))


async def test_another_fingerprint_than_that_of_the_answer(peer: WebrtcPeer, adapter) -> None:
    def change(sdp: str) -> str:
        lines = sdp.splitlines()
        return "\r\n".join(
            f"{line[:-5]}{'00:00' if not line.endswith('00:00') else '11:11'}" if "fingerprint" in line else line
            for line in lines
        ) + "\r\n"  # fmt: skip

    peer.edit_answer = change
    with pytest.raises((UpstreamUnreachable, UpstreamTimeout)) as caught:
        await called(adapter, template(peer), seconds=4)
    assert not caught.value.request_sent


@pytest.mark.parametrize(
    ("status", "error"), [(404, UpstreamRejected), (401, UpstreamUnauthorized), (302, UpstreamRejected)]
)
async def test_refusals_of_the_signalling_server(peer: WebrtcPeer, adapter, status, error) -> None:
    peer.status = status
    with pytest.raises(error) as caught:
        await called(adapter, template(peer))
    assert not caught.value.request_sent
    assert caught.value.response.body == {"detail": "so it is"}


async def test_signalling_by_websocket(peer: WebrtcPeer, adapter) -> None:
    seen: list[Any] = []

    async def handle(connection: ServerConnection) -> None:
        seen.append(connection.request.headers.get("X-Key"))
        offer = orjson.loads(await connection.recv())
        seen.append({key: offer[key] for key in ("type", "to")})
        if offer["to"] == "nobody":
            await connection.send(
                orjson.dumps({"type": "error", "detail": "no peer for hidden-value"}).decode()
            )
        else:
            sdp = await peer.answer(offer["sdp"])
            answer = {"type": "answer", "from": offer["to"], "to": offer["from"], "sdp": sdp}
            for message in ({"type": "hello"}, answer | {"to": "another", "sdp": ""}, answer):
                await connection.send(orjson.dumps(message).decode())
        await connection.wait_closed()

    async with websocket_server(handle) as base:
        url = f"{base}/signal"
        chosen = template(peer, signaling_server=url, peer_id="p1")
        assert adapter.origin(adapter.prepare(chosen)) == url.removesuffix("/signal")
        wire = WireCredential("header", "X-Key", Secret("hidden-value"), "mine")
        assert await called(adapter, chosen, {"a": 1}, credentials=(wire,)) == {"a": 1}
        assert seen == ["hidden-value", {"type": "offer", "to": "p1"}]
        adapter._masker.add("hidden-value")
        with pytest.raises(UpstreamRejected) as caught:
            await called(adapter, template(peer, signaling_server=url, peer_id="nobody"))
        assert caught.value.response.body == {"detail": "no peer for ***"}


@for_each(
    ("fields", "at"),
    [
        ({"signaling_server": "ftp://x"}, "/signaling_server"), ({"peer_id": ".."}, "/peer_id"),
        ({"peer_id": ""}, "/peer_id"), ({"data_channel_name": ""}, "/data_channel_name"), ({"timeout": 0}, "/timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_templates_that_can_never_be_called(adapter, peer, fields, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        adapter.prepare(template(peer, **fields))
    assert caught.value.errors[0].pointer == at


async def test_a_template_without_a_tool_is_for_discoveries(peer: WebrtcPeer, adapter) -> None:
    with pytest.raises(InvalidInput) as caught:
        await called(adapter, template(peer, tool_name=None))
    assert caught.value.errors[0].pointer == "/tool_name"
    own = {key: value for key, value in template(peer).items() if key != "tool_name"}
    found = await adapter.discover(call_of(adapter, own))
    [tool] = read_manual(orjson.loads(found.raw), inherited=own).tools
    assert tool.template.model.tool_name == "echo"


async def test_a_proxy_is_rejected_with_an_error_that_names_it(peer: WebrtcPeer, adapter) -> None:
    egress = EgressSettings(proxy_url=Secret("http://127.0.0.1:3128"))
    with pytest.raises(InvalidInput, match="proxy"):
        await called(adapter, template(peer), egress=egress)
    assert not peer.requests


async def test_the_templates_own_time(peer: WebrtcPeer, adapter) -> None:
    with pytest.raises(UpstreamTimeout):
        await called(adapter, template(peer, tool_name="late", timeout=900), {"seconds": 5}, limits=Limits())


async def test_nothing_is_left(peer: WebrtcPeer, adapter) -> None:
    before = asyncio.all_tasks()
    await called(adapter, template(peer), {"a": 1})
    with pytest.raises(UpstreamError):
        await called(adapter, template(peer, tool_name="late"), {"seconds": 5}, seconds=0.5)
    await adapter.aclose()
    assert len(adapter._pool) == 0
    await peer.aclose()
    async with asyncio.timeout(5):
        while {task for task in asyncio.all_tasks() - before if "aio" in repr(task.get_coro())}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)
