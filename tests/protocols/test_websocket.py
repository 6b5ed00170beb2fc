"""UTCP's websocket: messages, the upgrade, and servers that do not keep to the protocol."""

import asyncio
import ssl
from collections.abc import AsyncIterator
from http import HTTPStatus
from typing import Any

import orjson
import pytest
from websockets.asyncio.server import ServerConnection

from app.core.errors import (
    CredentialMissing,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.credential_rendering import WireCredential
from app.outbound.egress import EgressSettings
from app.outbound.limits import Limits
from app.protocols.base import Adapter
from app.protocols.websocket.adapter import WebsocketAdapter
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import adapter_of, call_of, events_of, read_response
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.websocket import WebsocketPeer, websocket_server
from tests.unit.outbound.test_egress import certificate

SECRET = "secret-of-a-websocket"


@pytest.fixture
async def ws() -> AsyncIterator[Adapter[Any]]:
    async with adapter_of(WebsocketAdapter, SECRET) as adapter:
        yield adapter


@pytest.fixture
async def peer() -> AsyncIterator[WebsocketPeer]:
    running = WebsocketPeer()
    async with running.serve():
        yield running


MESSAGES: list[tuple[Any, dict[str, Any], str]] = [
    (None, {"a": "ü", "n": 1}, '{"a": "\\u00fc", "n": 1}'),
    (None, {}, "{}"),
    ("GET UTCP_ARG_a_UTCP_ARG UTCP_ARG_n_UTCP_ARG", {"a": 'x"', "n": [1]}, 'GET x" [1]'),
    ('{"q": "UTCP_ARG_a_UTCP_ARG"}', {"a": 'x", "admin": "y'}, '{"q": "x\\", \\"admin\\": \\"y"}'),
    ({"q": "UTCP_ARG_a_UTCP_ARG", "l": ["to UTCP_ARG_a_UTCP_ARG", 7]}, {"a": 'x"}'},
     '{"q": "x\\"}", "l": ["to x\\"}", 7]}'),
    ({"n": "UTCP_ARG_n_UTCP_ARG", "t": "UTCP_ARG_t_UTCP_ARG"}, {"n": {"k": None}, "t": "UTCP_ARG_n_UTCP_ARG"},
     '{"n": {"k": null}, "t": "UTCP_ARG_n_UTCP_ARG"}'),
]  # fmt: skip


@for_each(("message", "arguments", "sent"), MESSAGES, ids=[str(n) for n in range(len(MESSAGES))])
async def test_arguments_become_the_message(ws, peer, message, arguments, sent) -> None:
    peer.messages.clear()
    template = {**peer.template, "message": message}
    assert (await read_response(ws, template, arguments)).decode() == sent
    assert peer.messages == [sent]


async def test_a_missing_argument_is_reported(ws, peer) -> None:
    for message in ("UTCP_ARG_a_UTCP_ARG", {"x": ["UTCP_ARG_a_UTCP_ARG"]}):
        with pytest.raises(InvalidArguments):
            await read_response(ws, {**peer.template, "message": message}, {"b": 1})


ANSWERS: list[tuple[str | None, str | bytes, str, bytes]] = [
    (None, '{"a": 1}', "text/plain; charset=utf-8", b'{"a": 1}'),
    ("text", "7", "text/plain; charset=utf-8", b"7"),
    ("raw", "ü", "text/plain; charset=utf-8", "ü".encode()),
    ("json", '{"a": 1}', "application/json", b'{"a": 1}'),
    ("json", "no json", "text/plain; charset=utf-8", b"no json"),
    ("json", b"\x00\xff", "application/octet-stream", b"\x00\xff"),
    (None, b"\x00\xff", "application/octet-stream", b"\x00\xff"),
]


@for_each(("kind", "reply", "media", "body"), ANSWERS, ids=[str(n) for n in range(len(ANSWERS))])
async def test_one_message_is_the_response_itself(ws, peer, kind, reply, media, body) -> None:
    peer.replies = [reply, "more"]
    result = await ws.call(call_of(ws, {**peer.template, "response_format": kind}, {}))
    assert (result.media_type, await result.read()) == (media, body)
    async with asyncio.timeout(5):
        await peer.disconnected.wait()


async def test_several_messages_are_a_list(ws, peer) -> None:
    peer.replies = ['{"a":1}', "text", b"\x00", "more"]
    template = {**peer.template, "responses": 3}
    assert orjson.loads(await read_response(ws, template, {})) == ['{"a":1}', "text", {"base64": "AA=="}]
    template["response_format"] = "json"
    assert orjson.loads(await read_response(ws, template, {})) == [{"a": 1}, "text", {"base64": "AA=="}]


async def test_a_peer_that_closes_early_gives_the_messages_that_came(ws, peer) -> None:
    async def two(connection: ServerConnection) -> None:
        await connection.send("one")
        await connection.send("two")

    peer.handler = two
    assert orjson.loads(await read_response(ws, {**peer.template, "responses": 5}, {})) == ["one", "two"]


async def test_a_peer_that_closes_without_a_message_is_an_error(ws, peer) -> None:
    async def nothing(connection: ServerConnection) -> None:
        await connection.recv()

    peer.handler = nothing
    with pytest.raises(UpstreamMalformed):
        await read_response(ws, peer.template, {})


async def test_the_upgrade_carries_headers_arguments_and_credentials(ws, peer) -> None:
    template = {
        **peer.template, "url": peer.template["url"] + "/{room}?a=1", "headers": {"Accept-Language": "de"},
        "header_fields": ["X-Trace"], "protocol": "v1.example",
    }  # fmt: skip
    wires = (
        WireCredential("header", "Authorization", Secret(f"Bearer {SECRET}"), "default"),
        WireCredential("query", "key", Secret(f"{SECRET}&"), "default"),
        WireCredential("cookie", "session", Secret(SECRET), "default"),
    )
    arguments = {"room": "a/b", "X-Trace": "t-1", "q": 1}
    more = (("Accept", "text/event-stream"), ("traceparent", "00-1"))
    call = call_of(ws, template, arguments, credentials=wires, headers=more)
    shown = ws.describe(call)
    assert shown["body"] == {"q": 1}
    assert SECRET not in str(shown)
    assert shown["headers"]["Authorization"] == "***"
    result = await ws.call(call)
    assert await result.read() == b'{"q": 1}'
    request = peer.requests[0]
    assert request.path == f"/tools/a%2Fb?a=1&key={SECRET}%26"
    expected = {
        "Authorization": f"Bearer {SECRET}", "Cookie": f"session={SECRET}", "X-Trace": "t-1", "traceparent": "00-1",
        "Accept-Language": "de", "Sec-WebSocket-Protocol": "v1.example",
    }  # fmt: skip
    assert {name: request.headers[name] for name in expected} == expected
    for absent in ("User-Agent", "Origin", "Sec-WebSocket-Extensions", "Accept"):
        assert absent not in request.headers


async def test_a_header_from_an_argument_ends_no_line(ws, peer) -> None:
    template = {**peer.template, "header_fields": ["X-Trace"]}
    with pytest.raises(InvalidArguments):
        await read_response(ws, template, {"X-Trace": "a\r\nX-Injected: 1"})
    assert peer.requests == []


async def test_a_sealed_message_is_filled_at_the_call(ws, peer) -> None:
    template = {**peer.template, "message": {"key": "", "q": "UTCP_ARG_q_UTCP_ARG"}}
    wire = WireCredential("field", "/message/key", Secret(SECRET), "s")
    call = call_of(ws, template, {"q": "x"}, credentials=(wire,))
    assert ws.describe(call)["body"] == {"key": "***", "q": "x"}
    await ws.call(call)
    assert orjson.loads(peer.messages[0]) == {"key": SECRET, "q": "x"}
    text = {**peer.template, "message": ""}
    wire = WireCredential("field", "/message", Secret(f"{SECRET} UTCP_ARG_q_UTCP_ARG"), "s")
    await read_response(ws, text, {"q": "x"}, credentials=(wire,))
    assert peer.messages[1] == f"{SECRET} x"


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"url": "http://a.example/"}, "/url"),
    ({"url": "wss://u:p@a.example/"}, "/url"),
    ({"url": "wss://{host}/"}, "/url"),
    ({"protocol": "a b"}, "/protocol"),
    ({"headers": {"Sec-WebSocket-Key": "a"}}, "/headers/Sec-WebSocket-Key"),
    ({"headers": {"Host": "a"}}, "/headers/Host"),
    ({"header_fields": ["Sec-WebSocket-Extensions"]}, "/header_fields/0"),
    ({"header_fields": ["ok", "Authorization"]}, "/header_fields/1"),
    ({"message": ["a"]}, "/message/str"),
    ({"responses": 0}, "/responses"),
]


@for_each(("fields", "at"), UNUSABLE, ids=[str(n) for n in range(len(UNUSABLE))])
async def test_a_template_that_can_never_be_called_is_rejected(ws, fields, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        ws.prepare({"call_template_type": "websocket", "url": "wss://a.example/", **fields})
    assert caught.value.errors[0].pointer == at


async def test_a_credential_is_no_header_of_the_upgrade_itself(ws, peer) -> None:
    wire = WireCredential("header", "Sec-WebSocket-Protocol", Secret("a"), "default")
    with pytest.raises(CredentialMissing):
        await read_response(ws, peer.template, {}, credentials=(wire,))


STATUSES = [(400, UpstreamRejected, 400), (401, UpstreamUnauthorized, 502), (403, UpstreamRejected, 502),
            (429, UpstreamRejected, 429), (503, UpstreamRejected, 502)]  # fmt: skip


@for_each(("status", "error", "shown"), STATUSES, ids=[str(s[0]) for s in STATUSES])
async def test_an_upgrade_that_is_rejected_says_why(ws, peer, status, error, shown) -> None:
    peer.process_request = lambda connection, _: connection.respond(HTTPStatus(status), f"no, {SECRET}\n")
    with pytest.raises(error) as caught:
        await read_response(ws, peer.template, {})
    assert (caught.value.status, caught.value.response.status) == (shown, status)
    assert caught.value.response.body == "no, ***\n"


@pytest.mark.parametrize("status", [301, 302, 307, 308])
async def test_a_redirect_is_not_followed(ws, peer, status) -> None:
    seen = asyncio.Event()

    async def elsewhere(connection: ServerConnection) -> None:
        seen.set()

    async with websocket_server(elsewhere) as location:

        def redirect(connection: ServerConnection, _: Any) -> Any:
            response = connection.respond(HTTPStatus(status), "")
            response.headers["Location"] = location
            return response

        peer.process_request = redirect
        with pytest.raises(UpstreamRejected, match="not followed"):
            await read_response(ws, peer.template, {})
    assert not seen.is_set()


CODES = [
    (4401, UpstreamUnauthorized, 401), (3000, UpstreamUnauthorized, 401), (4404, UpstreamRejected, 404),
    (4000, UpstreamRejected, 422), (1008, UpstreamRejected, 422), (1011, UpstreamRejected, 502),
    (1001, UpstreamUnreachable, 502), (1012, UpstreamUnreachable, 502),
]  # fmt: skip


@for_each(("code", "error", "status"), CODES, ids=[str(code[0]) for code in CODES])
async def test_a_close_code_says_why(ws, peer, code, error, status) -> None:
    async def close(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.close(code, f"no {SECRET}")

    peer.handler = close
    with pytest.raises(error) as caught:
        await read_response(ws, peer.template, {})
    assert caught.value.response.status == status
    assert caught.value.response.body == {"code": code, "reason": "no ***"}


async def test_every_message_is_an_event_until_the_peer_closes(ws, peer) -> None:
    async def several(connection: ServerConnection) -> None:
        await connection.recv()
        for message in ('{"n": 1}', "text", b"\x00\x01", "[2"):
            await connection.send(message)

    peer.handler = several
    events = await events_of(await ws.call(call_of(ws, peer.template, {}, streaming=True)))
    assert [(event.kind, event.data) for event in events] == [
        ("json", b'{"n": 1}'), ("text", b"text"), ("bytes", b"\x00\x01"), ("text", b"[2"),
    ]  # fmt: skip
    events = await events_of(
        await ws.call(call_of(ws, {**peer.template, "response_format": "text"}, {}, streaming=True))
    )
    assert [event.kind for event in events] == ["text", "text", "bytes", "text"]


async def test_the_envelopes_of_utcp_streams_are_taken_off(ws, peer) -> None:
    peer.replies = ['{"type": "tool_response", "result": {"n": 1}}', '{"type": "other", "request_id": 5}',
                    '{"type": "stream_end"}']  # fmt: skip
    events = await events_of(await ws.call(call_of(ws, peer.template, {}, streaming=True)))
    assert [event.data for event in events] == [b'{"n":1}', b'{"type": "other", "request_id": 5}']
    async with asyncio.timeout(5):
        await peer.disconnected.wait()
    peer.replies = [orjson.dumps({"type": "tool_error", "error": f"bad {SECRET}"}).decode()]
    with pytest.raises(UpstreamRejected) as caught:
        await events_of(await ws.call(call_of(ws, peer.template, {}, streaming=True)))
    assert caught.value.response.body == "bad ***"


async def test_a_broken_stream_is_reported_after_its_events(ws, peer) -> None:
    async def breaks(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send("one")
        connection.transport.abort()

    peer.handler = breaks
    result = await ws.call(call_of(ws, peer.template, {}, streaming=True))
    events = aiter(result.events)
    assert (await anext(events)).data == b"one"
    with pytest.raises(UpstreamUnreachable):
        await anext(events)


async def test_closing_a_stream_that_nobody_read_ends_the_connection(ws, peer) -> None:
    result = await ws.call(call_of(ws, peer.template, {}, streaming=True))
    await result.aclose()
    await result.aclose()
    async with asyncio.timeout(5):
        await peer.disconnected.wait()


async def test_the_limit_of_a_message_holds_for_all_its_fragments(ws, peer) -> None:
    async def fragments(connection: ServerConnection) -> None:
        await connection.recv()
        await connection.send(["x" * 1000] * 5)

    peer.handler = fragments
    with pytest.raises(ResponseTooLarge):
        await read_response(ws, peer.template, {}, limits=Limits(response_bytes=2000))
    result = await ws.call(call_of(ws, peer.template, {}, limits=Limits(event_bytes=2000), streaming=True))
    with pytest.raises(ResponseTooLarge):
        await events_of(result)


async def test_the_limit_holds_over_all_messages_of_a_list(ws, peer) -> None:
    peer.replies = ["x" * 900] * 5
    with pytest.raises(ResponseTooLarge):
        await read_response(ws, {**peer.template, "responses": 5}, {}, limits=Limits(response_bytes=2000))


RAW: list[tuple[bytes, Any]] = [
    # 2**63 bytes announced; a frame that is masked; text that is not UTF-8; an unknown opcode; a
    # compressed frame that nobody negotiated.
    (b"\x82\x7f\x7f\xff\xff\xff\xff\xff\xff\xff", ResponseTooLarge),
    (b"\x81\x81\x00\x00\x00\x00a", UpstreamMalformed),
    (b"\x81\x02\xc3\x28", UpstreamMalformed),
    (b"\x83\x01a", UpstreamMalformed),
    (b"\xc1\x07\xf2\x48\xcd\xc9\xc9\x07\x00", UpstreamMalformed),
]


@for_each(("frame", "error"), RAW, ids=["huge", "masked", "utf-8", "opcode", "compressed"])
async def test_frames_against_the_protocol(ws, peer, frame, error) -> None:
    async def raw(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.write(frame)
        await connection.wait_closed()

    peer.handler = raw
    with pytest.raises(error):
        await read_response(ws, peer.template, {}, seconds=600)


@pytest.mark.parametrize(
    "response",
    [
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n",
        b"\x00" * 100_000,
        b"HTTP/1.1 101 X\r\n" + b"A: b\r\n" * 10_000 + b"\r\n",
        b"",
    ],
    ids=["key", "empty", "ssh", "zeros", "headers", "nothing"],
)
async def test_an_upgrade_against_the_protocol(ws, response) -> None:
    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(response)

    async with tcp_server(handle) as port:
        template = {"call_template_type": "websocket", "url": f"ws://127.0.0.1:{port}/"}
        with pytest.raises((UpstreamMalformed, UpstreamUnreachable)):
            await read_response(ws, template, {})


async def test_a_silent_upgrade_is_left_at_the_timeout_of_the_template(ws) -> None:
    disconnected = asyncio.Event()

    async def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        await reader.read()
        disconnected.set()

    async with tcp_server(handle) as port:
        template = {"call_template_type": "websocket", "url": f"ws://127.0.0.1:{port}/", "timeout": 0.3}
        with pytest.raises(UpstreamTimeout):
            await read_response(ws, template, {}, seconds=600)
        async with asyncio.timeout(60):
            await disconnected.wait()


async def test_an_idle_connection_stays_open_while_the_peer_sends_pongs(ws, peer) -> None:
    async def late(connection: ServerConnection) -> None:
        await connection.recv()
        await asyncio.sleep(0.7)
        await connection.send("late")

    peer.handler = late
    assert await read_response(ws, peer.template, {}, limits=Limits(idle=0.2)) == b"late"
    with pytest.raises(UpstreamTimeout):
        await read_response(ws, {**peer.template, "keep_alive": False}, {}, limits=Limits(idle=0.2))


async def test_no_message_is_lost_between_two_silences(ws, peer) -> None:
    """The peer speaks and closes at the very moments at which it is found to be silent."""

    async def late(connection: ServerConnection) -> None:
        await connection.recv()
        await asyncio.sleep(1)
        await connection.send("late")

    peer.handler = late
    responses = await asyncio.gather(
        *(read_response(ws, peer.template, {}, limits=Limits(idle=0.5 + n / 1_000)) for n in range(-20, 20))
    )
    assert responses == [b"late"] * 40


async def test_a_peer_that_sends_no_pong_is_disconnected(ws, peer) -> None:
    ended = asyncio.Event()

    async def pong_nothing(connection: ServerConnection) -> None:
        await connection.recv()
        connection.transport.pause_reading()
        await ended.wait()

    peer.handler = pong_nothing
    with pytest.raises(UpstreamTimeout):
        await read_response(ws, peer.template, {}, limits=Limits(idle=0.2), seconds=600)
    ended.set()


async def test_a_peer_that_pings_without_end_and_reads_nothing_is_left(ws, peer) -> None:
    sent = 0

    async def flood(connection: ServerConnection) -> None:
        nonlocal sent
        await connection.recv()
        connection.transport.pause_reading()
        frame = b"\x89\x7d" + b"x" * 125
        while not connection.transport.is_closing():
            connection.transport.write(frame * 500)
            sent += 500
            await connection.drain()
            await asyncio.sleep(0)

    peer.handler = flood
    with pytest.raises(UpstreamUnreachable):
        await read_response(ws, peer.template, {}, limits=Limits(idle=20))


async def test_discovery_waits_for_the_manual(ws, peer) -> None:
    peer.replies = ["hello", b"\xff", "{", '["tools"]', '{"tools": []}', "more"]
    found = await ws.discover(call_of(ws, peer.template))
    assert (found.raw, peer.messages) == (b'{"tools": []}', ['{"type": "utcp"}'])
    peer.replies = ["x" * 900] * 4
    with pytest.raises(ResponseTooLarge):
        await ws.discover(call_of(ws, peer.template, limits=Limits(response_bytes=2000)))


async def test_tls_is_verified_with_the_providers_own_authority(ws, tmp_path) -> None:
    authority = certificate("192.0.2.1")
    pem, key, *_ = certificate("127.0.0.1", issuer=authority)
    (tmp_path / "server.pem").write_text(pem + key)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "server.pem")

    async def echo(connection: ServerConnection) -> None:
        await connection.send(await connection.recv())

    async with websocket_server(echo, ssl=context) as url:
        template = {"call_template_type": "websocket", "url": url}
        own = EgressSettings(ca_bundle=authority[0])
        assert await read_response(ws, template, {"a": 1}, egress=own) == b'{"a": 1}'
        with pytest.raises(UpstreamUnreachable) as caught:
            await read_response(ws, template, {"a": 1})
        assert not caught.value.request_sent


async def test_through_a_proxy(ws, peer) -> None:
    requests: list[bytes] = []

    async def proxy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        requests.append(await reader.readuntil(b"\r\n\r\n"))
        host, port = requests[-1].split()[1].decode().split(":")
        inner_reader, inner_writer = await asyncio.open_connection(host, port)
        writer.write(b"HTTP/1.1 200 Connected\r\n\r\n")

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter) -> None:
            while piece := await source.read(4096):
                sink.write(piece)
            sink.close()

        await asyncio.gather(pump(reader, inner_writer), pump(inner_reader, writer))

    async with tcp_server(proxy) as port:
        egress = EgressSettings(proxy_url=Secret(f"http://127.0.0.1:{port}"))
        assert await read_response(ws, peer.template, {"a": 1}, egress=egress) == b'{"a": 1}'
    assert requests[0].startswith(b"CONNECT 127.0.0.1:")
