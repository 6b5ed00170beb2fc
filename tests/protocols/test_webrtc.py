"""WebRTC: signalling in both ways, addresses of answers, channels that are shared and that end."""

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
import pytest
from aiohttp import web
from websockets.asyncio.server import ServerConnection, serve

from app.errors import (
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
from app.outbound.credential_rendering import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.manuals import read_manual
from app.protocols.webrtc.adapter import WebrtcAdapter
from app.security.secret import Secret
from app.settings import Settings
from tests.harness.beside import web_server
from tests.protocols.kits.base import free_port
from tests.protocols.kits.webrtc import MANUAL, PeerSide, say
from tests.protocols.test_contract import call_of, whole


class Peers:
    """A peer that echoes, behind both kinds of signalling. `change` is what happens to its answers."""

    def __init__(self) -> None:
        self.url = ""
        self.side = PeerSide(self._answer)
        self.change: Callable[[str], str] = lambda sdp: sdp
        self.status = 201
        self.asked: list[tuple[str, str, str]] = []
        self.offers: list[Any] = []

    def template(self, **fields: Any) -> dict[str, Any]:
        return {
            "call_template_type": "webrtc", "signaling_server": f"{self.url}/peers/", "peer_id": "a/b c",
            "tool_name": "echo", **fields,
        }  # fmt: skip

    async def signal(self, request: web.Request) -> web.Response:
        text = await request.text()
        self.asked.append((request.method, request.raw_path, request.headers.get("Content-Type", "")))
        if request.method == "DELETE" or self.status >= 300:
            return web.json_response({"detail": "so it is"}, status=self.status)
        sdp = self.change(await self.side.answered(text))
        return web.Response(
            text=sdp, status=self.status, content_type="application/sdp", headers={"Location": "/s/1"}
        )

    async def _answer(self, message: dict[str, Any], channel: Any) -> None:
        if message["type"] == "utcp":
            return say(channel, message, result=MANUAL)
        match message["tool"]:
            case "echo":
                say(channel, {"id": "of nobody"}, result=1)
                channel.send("no json")
                say(channel, message, result=message["arguments"])
            case "late":
                await asyncio.sleep(message["arguments"]["seconds"])
                say(channel, message, result=message["arguments"])
            case "error":
                say(channel, message, error=message["arguments"]["error"])
            case "neither":
                say(channel, message, more=1)
            case "half":
                say(channel, message, event=1)
                say(channel, message, error={"message": "no more"})
            case "odd":
                say(channel, message, event=1)
                say(channel, message, result=2)
            case "empty":
                say(channel, message, done=True)
            case "huge":
                channel.transport._remote_max_message_size = 0
                channel.send("x" * (6 << 20))
            case "channels":
                for n in range(20):
                    self.side.connections[-1].createDataChannel(f"more {n}")
                await asyncio.sleep(10)
        return None


@pytest.fixture
async def peers() -> AsyncIterator[Peers]:
    made = Peers()
    application = web.Application()
    application.router.add_route("*", "/{rest:.*}", made.signal)
    async with web_server(application, handler_cancellation=True) as made.url:
        yield made
        await made.side.aclose()


@pytest.fixture
async def adapter(engine, masker) -> AsyncIterator[WebrtcAdapter]:
    made = WebrtcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield made
    await made.aclose()


async def called(adapter: WebrtcAdapter, template: Any, arguments: Any = None, **fields: Any) -> Any:
    return orjson.loads(await whole(await adapter.call(call_of(adapter, template, arguments, **fields))))


async def test_the_offer_is_posted_for_the_peer_and_the_session_ends_with_the_channel(
    peers: Peers, adapter
) -> None:
    assert await called(adapter, peers.template(data_channel_name="mine"), {"a": 1}) == {"a": 1}
    assert peers.side.labels == ["mine"]
    assert peers.asked == [("POST", "/peers/a%2Fb%20c", "application/sdp")]
    await adapter.aclose()
    assert peers.asked[1][:2] == ("DELETE", "/s/1")


async def test_calls_share_a_channel_and_streams_do_not(peers: Peers, adapter) -> None:
    late = peers.template(tool_name="late")
    calls = [called(adapter, late, {"seconds": 0.01 * (9 - n), "n": n}) for n in range(9)]
    assert [answer["n"] for answer in await asyncio.gather(*calls)] == list(range(9))
    assert len(peers.side.connections) == 1
    first = await adapter.call(call_of(adapter, peers.template(), {"a": 1}, streaming=True))
    assert [event.data async for event in first.events] == [b'{"a":1}']
    assert len(peers.side.connections) == 1
    slow = asyncio.create_task(called(adapter, late, {"seconds": 5}))
    await asyncio.sleep(0.1)
    streamed = await adapter.call(call_of(adapter, peers.template(tool_name="half"), streaming=True))
    assert len(peers.side.connections) == 2
    with pytest.raises(UpstreamRejected):
        async for _ in streamed.events:
            pass
    slow.cancel()
    await asyncio.gather(slow, return_exceptions=True)
    other = WireCredential("header", "X-Key", Secret("other"), "mine")
    await called(adapter, peers.template(), credentials=(other,))
    assert len(peers.side.connections) == 3


async def test_a_channel_that_ends_fails_its_calls_and_the_next_gets_another(peers: Peers, adapter) -> None:
    late = asyncio.create_task(called(adapter, peers.template(tool_name="late"), {"seconds": 9}))
    async with asyncio.timeout(10):
        while not peers.side.running:  # noqa: ASYNC110 - the peer's side has no event for it.
            await asyncio.sleep(0.02)
    await peers.side.connections[0].close()
    with pytest.raises(UpstreamUnreachable) as caught:
        await late
    assert caught.value.request_sent
    assert await called(adapter, peers.template(), {"a": 2}) == {"a": 2}
    assert len(peers.side.connections) == 2


@pytest.mark.parametrize(
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
async def test_errors_of_the_peer(peers: Peers, adapter, masker, answer, error, status) -> None:
    masker.add("hidden-value")
    with pytest.raises(error) as caught:
        await called(adapter, peers.template(tool_name="error"), {"error": answer})
    assert caught.value.status == status
    assert "hidden-value" not in orjson.dumps(caught.value.as_problem()).decode()


@pytest.mark.parametrize("tool", ["neither", "odd"])
async def test_answers_that_are_none(peers: Peers, adapter, tool) -> None:
    with pytest.raises(UpstreamMalformed):
        await called(adapter, peers.template(tool_name=tool))


async def test_a_stream_without_events_is_an_empty_list(peers: Peers, adapter) -> None:
    assert await called(adapter, peers.template(tool_name="empty")) == []


async def test_a_message_above_what_a_peer_may_send_ends_the_channel(peers: Peers, adapter) -> None:
    with pytest.raises(ResponseTooLarge):
        await called(adapter, peers.template(tool_name="huge"))


async def test_a_peer_that_opens_channel_after_channel_is_left(peers: Peers, adapter) -> None:
    with pytest.raises(UpstreamMalformed):
        await called(adapter, peers.template(tool_name="channels"))


async def test_arguments_that_the_peer_does_not_take(peers: Peers, adapter) -> None:
    with pytest.raises(InvalidArguments):
        await called(adapter, peers.template(), {"a": "x" * (1 << 20)})
    assert await called(adapter, peers.template(), {"a": 1}) == {"a": 1}


def only(candidate: str) -> Callable[[str], str]:
    """The answer with this candidate alone."""

    def change(sdp: str) -> str:
        lines = [line for line in sdp.splitlines() if not line.startswith("a=candidate")]
        return "\r\n".join([*lines, f"a=candidate:1 1 {candidate}", ""])

    return change


@pytest.mark.parametrize(
    "candidate",
    [
        "udp 1 10.0.0.1 5000 typ host", "udp 1 169.254.169.254 80 typ host", "tcp 1 127.0.0.1 9 typ host tcptype active",
        "udp 1 4f5a.local 5000 typ host", "udp 1 localhost 5000 typ host", "udp 1 ::ffff:10.0.0.1 5000 typ host",
        "udp 1 fe80::1%eth0 5000 typ host", "udp 1 127.0.0.1 0 typ host", "udp 1 127.0.0.1 x typ host",
        "udp 1 10.0.0.2 5000 typ srflx raddr 127.0.0.1 rport 1", "udp",
    ],
    ids=["private", "metadata", "tcp", "mdns", "name", "mapped", "link-local", "no-port", "bad-port", "srflx", "short"],
)  # fmt: skip
async def test_an_answer_without_an_allowed_address_is_refused(peers: Peers, adapter, candidate) -> None:
    peers.change = only(candidate)
    with pytest.raises(BlockedAddress):
        await called(adapter, peers.template())


async def test_nothing_is_sent_to_an_address_that_a_packet_came_from(peers: Peers, masker) -> None:
    """A peer at a denied address that names an allowed one, and then checks from its own."""
    engine = Engine(Guard(allow_networks=["127.0.0.1/32"]))
    adapter = WebrtcAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    heard: list[bytes] = []
    answered = peers.side.answered

    async def elsewhere(offer: str) -> str:
        sdp = await answered(offer)
        ice = peers.side.connections[-1].sctp.transport.transport.iceGatherer._connection
        for protocol in ice._protocols:
            protocol.datagram_received = lambda data, _addr: heard.append(data)
        return sdp

    peers.side.answered = elsewhere
    peers.side.loopback = "127.0.0.2"
    peers.change = only(f"udp 1 127.0.0.1 {free_port()} typ host")
    with pytest.raises((UpstreamTimeout, UpstreamUnreachable)) as caught:
        await called(adapter, peers.template(), seconds=3)
    assert not caught.value.request_sent
    sent = peers.side.connections[-1].sctp.transport.transport.iceGatherer._connection
    assert sent._check_list
    assert heard == []
    await adapter.aclose()
    await engine.aclose()


@pytest.mark.parametrize(
    "answer", ["", "v=0", "no sdp\r\na=candidate:1 1 udp 1 127.0.0.1 9 typ host", "x" * 70_000]
)
async def test_answers_of_the_signalling_that_are_none(peers: Peers, adapter, answer) -> None:
    peers.change = lambda _: answer
    with pytest.raises((UpstreamMalformed, BlockedAddress, ResponseTooLarge)):
        await called(adapter, peers.template())


async def test_another_fingerprint_than_that_of_the_answer(peers: Peers, adapter) -> None:
    def change(sdp: str) -> str:
        lines = sdp.splitlines()
        return "\r\n".join(
            f"{line[:-5]}{'00:00' if not line.endswith('00:00') else '11:11'}" if "fingerprint" in line else line
            for line in lines
        ) + "\r\n"  # fmt: skip

    peers.change = change
    with pytest.raises((UpstreamUnreachable, UpstreamTimeout)) as caught:
        await called(adapter, peers.template(), seconds=4)
    assert not caught.value.request_sent


@pytest.mark.parametrize(
    ("status", "error"), [(404, UpstreamRejected), (401, UpstreamUnauthorized), (302, UpstreamRejected)]
)
async def test_refusals_of_the_signalling_server(peers: Peers, adapter, status, error) -> None:
    peers.status = status
    with pytest.raises(error) as caught:
        await called(adapter, peers.template())
    assert not caught.value.request_sent
    assert caught.value.response.body == {"detail": "so it is"}


async def test_signalling_by_websocket(peers: Peers, adapter) -> None:
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
            sdp = await peers.side.answered(offer["sdp"])
            answer = {"type": "answer", "from": offer["to"], "to": offer["from"], "sdp": sdp}
            for message in ({"type": "hello"}, answer | {"to": "another", "sdp": ""}, answer):
                await connection.send(orjson.dumps(message).decode())
        await connection.wait_closed()

    async with serve(handle, "127.0.0.1", 0) as server:
        url = f"ws://127.0.0.1:{server.sockets[0].getsockname()[1]}/signal"
        template = peers.template(signaling_server=url, peer_id="p1")
        assert adapter.origin(adapter.prepare(template)) == url.removesuffix("/signal")
        wire = WireCredential("header", "X-Key", Secret("hidden-value"), "mine")
        assert await called(adapter, template, {"a": 1}, credentials=(wire,)) == {"a": 1}
        assert seen == ["hidden-value", {"type": "offer", "to": "p1"}]
        adapter._masker.add("hidden-value")
        with pytest.raises(UpstreamRejected) as caught:
            await called(adapter, peers.template(signaling_server=url, peer_id="nobody"))
        assert caught.value.response.body == {"detail": "no peer for ***"}


@pytest.mark.parametrize(
    ("fields", "at"),
    [
        ({"signaling_server": "ftp://x"}, "/signaling_server"), ({"peer_id": ".."}, "/peer_id"),
        ({"peer_id": ""}, "/peer_id"), ({"data_channel_name": ""}, "/data_channel_name"), ({"timeout": 0}, "/timeout"),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)  # fmt: skip
def test_templates_that_can_never_be_called(adapter, peers, fields, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        adapter.prepare(peers.template(**fields))
    assert caught.value.errors[0].pointer == at


async def test_a_template_without_a_tool_is_for_discoveries(peers: Peers, adapter) -> None:
    with pytest.raises(InvalidInput) as caught:
        await called(adapter, peers.template(tool_name=None))
    assert caught.value.errors[0].pointer == "/tool_name"
    own = {key: value for key, value in peers.template().items() if key != "tool_name"}
    found = await adapter.discover(call_of(adapter, own))
    [tool] = read_manual(orjson.loads(found.raw), inherited=own).tools
    assert tool.template.model.tool_name == "echo"


async def test_a_proxy_is_refused_in_the_open(peers: Peers, adapter) -> None:
    egress = EgressSettings(proxy_url=Secret("http://127.0.0.1:3128"))
    with pytest.raises(InvalidInput, match="proxy"):
        await called(adapter, peers.template(), egress=egress)
    assert not peers.asked


async def test_the_templates_own_time(peers: Peers, adapter) -> None:
    with pytest.raises(UpstreamTimeout):
        await called(adapter, peers.template(tool_name="late", timeout=900), {"seconds": 5}, limits=Limits())


async def test_nothing_is_left(peers: Peers, adapter) -> None:
    before = asyncio.all_tasks()
    await called(adapter, peers.template(), {"a": 1})
    with pytest.raises(UpstreamError):
        await called(adapter, peers.template(tool_name="late"), {"seconds": 5}, seconds=0.5)
    await adapter.aclose()
    assert len(adapter._pool) == 0
    await peers.side.aclose()
    async with asyncio.timeout(5):
        while {task for task in asyncio.all_tasks() - before if "aio" in repr(task.get_coro())}:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def test_without_the_extra_the_template_says_what_to_install() -> None:
    code = """
import sys
sys.modules["aiortc"] = None
from app.errors import InvalidInput
from app.protocols.registry import PROTOCOLS
try:
    PROTOCOLS["webrtc"].load()(None).prepare({})
except InvalidInput as error:
    print(error.errors[0].pointer, error.detail)
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert ran.stdout.strip() == (
        "/call_template_type Protocol webrtc needs the extra `webrtc`: pip install 'utcp-gateway[webrtc]'."
    )
