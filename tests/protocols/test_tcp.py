"""UTCP's tcp: every framing, every option, and servers that do not keep to them."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
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
from app.protocols.tcp.adapter import TcpAdapter
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import adapter_of, call_of, events_of, read_response
from tests.protocols.peers.tcp import TcpPeer, tcp_server


@pytest.fixture
async def tcp() -> AsyncIterator[Adapter[Any]]:
    async with adapter_of(TcpAdapter) as adapter:
        yield adapter


@pytest.fixture
async def peer() -> AsyncIterator[TcpPeer]:
    async with TcpPeer().serve() as running:
        yield running


PREFIXES = [(width, endian) for width in (1, 2, 4, 8) for endian in ("big", "little")]


@for_each(("width", "endian"), PREFIXES, ids=[f"{w}-{e}" for w, e in PREFIXES])
async def test_request_and_response_begin_with_their_length(tcp, peer, width, endian) -> None:
    answer = "grün".encode()
    prefix = len(answer).to_bytes(width, endian)
    peer.request_bytes = width + 10
    # Neither a split prefix nor bytes after the message change what it is.
    peer.replies = [prefix[:1], prefix[1:] + answer[:2], answer[2:] + b"more"]
    template = {
        **peer.template, "framing_strategy": "length_prefix", "length_prefix_bytes": width,
        "length_prefix_endian": endian,
    }  # fmt: skip
    assert await read_response(tcp, template, {"a": "b"}) == answer
    assert peer.received == (10).to_bytes(width, endian) + b'{"a": "b"}'


async def test_a_message_too_long_for_its_prefix_is_not_sent(tcp, peer) -> None:
    template = {**peer.template, "framing_strategy": "length_prefix", "length_prefix_bytes": 1}
    with pytest.raises(InvalidArguments):
        await read_response(tcp, template, {"a": "x" * 255})
    assert peer.received == b""


DELIMITERS: list[tuple[dict[str, Any], bytes]] = [
    ({}, b"\x00"),
    ({"message_delimiter": "\\x00"}, b"\x00"),
    ({"message_delimiter": "\x00", "interpret_escape_sequences": False}, b"\x00"),
    ({"interpret_escape_sequences": False}, b"\x00"),
    ({"message_delimiter": "\n"}, b"\n"),
    ({"message_delimiter": "\\r\\n"}, b"\r\n"),
    ({"message_delimiter": "\\r\\n", "interpret_escape_sequences": False}, b"\\r\\n"),
    ({"message_delimiter": "\\x00", "interpret_escape_sequences": False}, b"\\x00"),
    ({"message_delimiter": "END"}, b"END"),
    ({"message_delimiter": "§"}, "§".encode()),
]


@for_each(("fields", "delimiter"), DELIMITERS, ids=[str(n) for n in range(len(DELIMITERS))])
async def test_a_delimiter_ends_request_and_response(tcp, peer, fields, delimiter) -> None:
    template = {**peer.template, "framing_strategy": "delimiter", **fields}
    peer.request_end = delimiter
    # The delimiter comes in two pieces, where it has two bytes, and after it what is not read.
    peer.replies = [b"first" + delimiter[:1], delimiter[1:] + b"second" + delimiter]
    assert await read_response(tcp, template, {"a": 1}) == b"first"
    assert peer.received == b'{"a": 1}' + delimiter


async def test_a_stored_template_keeps_what_its_delimiter_means(tcp) -> None:
    target = tcp.prepare({"call_template_type": "tcp", "host": "a.example", "port": 1, "framing_strategy": "delimiter",
                          "interpret_escape_sequences": False})  # fmt: skip
    again = tcp.prepare(target.model.stored())
    assert again.delimiter == target.delimiter == b"\x00"


async def test_a_response_of_fixed_length_is_not_waited_for_longer(tcp, peer) -> None:
    peer.replies, peer.stays_open = [b"1234", b"5678"], True
    template = {**peer.template, "framing_strategy": "fixed_length", "fixed_message_length": 6}
    assert await read_response(tcp, template, {"a": 1}) == b"123456"
    assert peer.received == b'{"a": 1}'
    async with asyncio.timeout(5):
        await peer.disconnected.wait()


async def test_a_stream_ends_with_the_connection(tcp, peer) -> None:
    peer.replies = [b"one ", b"two ", b"three"]
    assert await read_response(tcp, peer.template, {"a": 1}) == b"one two three"


async def test_a_stream_ends_with_silence_after_its_first_byte(tcp, peer) -> None:
    peer.replies, peer.stays_open = [b"one ", b"two"], True
    assert await read_response(tcp, {**peer.template, "timeout": 400}, {"a": 1}) == b"one two"
    async with asyncio.timeout(5):
        await peer.disconnected.wait()


async def test_a_stream_without_a_first_byte_is_a_timeout(tcp, peer) -> None:
    peer.stays_open = True
    # The deadline of the call is far beyond the timeout of the template.
    with pytest.raises(UpstreamTimeout):
        await read_response(tcp, {**peer.template, "timeout": 300}, {"a": 1}, seconds=600)
    async with asyncio.timeout(60):
        await peer.disconnected.wait()


async def test_a_stream_is_read_up_to_its_size(tcp, peer) -> None:
    peer.replies, peer.stays_open = [b"x" * 600, b"y" * 600], True
    assert (
        await read_response(tcp, {**peer.template, "max_response_size": 1000}, {"a": 1})
        == b"x" * 600 + b"y" * 400
    )


async def test_the_providers_limit_holds_where_the_template_allows_more(tcp, peer) -> None:
    peer.replies = [b"x" * 5000]
    for fields in (
        {},
        {"framing_strategy": "delimiter"},
        {"framing_strategy": "fixed_length", "fixed_message_length": 5000},
    ):
        peer.request_end = b"}"
        with pytest.raises(ResponseTooLarge):
            await read_response(
                tcp, {**peer.template, **fields}, {"a": 1}, limits=Limits(response_bytes=2000)
            )


async def test_a_length_beyond_the_limit_is_rejected_before_it_is_read(tcp, peer) -> None:
    peer.replies, peer.stays_open = [b"\xff" * 8], True
    template = {**peer.template, "framing_strategy": "length_prefix", "length_prefix_bytes": 8}
    with pytest.raises(ResponseTooLarge):
        await read_response(tcp, template, {"a": 1})


@pytest.mark.parametrize("framing", ["length_prefix", "delimiter", "fixed_length"])
async def test_a_response_that_ends_early_is_an_error(tcp, peer, framing) -> None:
    peer.replies = [b"\x00\x00\x00"] if framing == "length_prefix" else [b"abc"]
    template = {**peer.template, "framing_strategy": framing, "fixed_message_length": 4}
    with pytest.raises(UpstreamUnreachable) as caught:
        await read_response(tcp, template, {"a": 1})
    assert caught.value.request_sent


FORMATS = [
    ("utf-8", "grün".encode(), "grün"), ("latin-1", b"gr\xfcn", "grün"), ("utf-16", "grün".encode("utf-16"), "grün"),
    ("cp1252", b"\x80", "€"), ("UTF_8", b"x", "x"),
]  # fmt: skip


@for_each(("codec", "raw", "text"), FORMATS, ids=[codec for codec, _, _ in FORMATS])
async def test_the_response_is_text_in_its_encoding(tcp, peer, codec, raw, text) -> None:
    peer.replies = [raw]
    call = call_of(tcp, {**peer.template, "response_byte_format": codec}, {"a": 1})
    result = await tcp.call(call)
    assert (result.media_type, (await result.read()).decode()) == ("text/plain; charset=utf-8", text)


@pytest.mark.parametrize("codec", [None, "utf-8"], ids=["raw", "not-utf-8"])
async def test_bytes_that_are_no_text_stay_bytes(tcp, peer, codec) -> None:
    peer.replies = [b"\xff\xfe\x00\x80"]
    result = await tcp.call(call_of(tcp, {**peer.template, "response_byte_format": codec}, {"a": 1}))
    assert (result.media_type, await result.read()) == ("application/octet-stream", b"\xff\xfe\x00\x80")


MESSAGES: list[tuple[str | None, dict[str, Any], bytes]] = [
    ("GET UTCP_ARG_key_UTCP_ARG}", {"key": 'a"b'}, b'GET a"b}'),
    ("UTCP_ARG_a_UTCP_ARG UTCP_ARG_b_UTCP_ARG}", {"a": 1, "b": [True, None]}, b"1 [true, null]}"),
    ("UTCP_ARG_a_UTCP_ARG}", {"a": "UTCP_ARG_b_UTCP_ARG", "b": "no"}, b"UTCP_ARG_b_UTCP_ARG}"),
    ('{"q": "UTCP_ARG_q_UTCP_ARG"}', {"q": 'x", "admin": true, "y": "\n'}, b'{"q": "x\\", \\"admin\\": true, \\"y\\": \\"\\n"}'),
    ('{"q": UTCP_ARG_q_UTCP_ARG}', {"q": '1, "admin": true'}, b'{"q": "1, \\"admin\\": true"}'),
    ('{"n": UTCP_ARG_n_UTCP_ARG, "t": "no UTCP_ARG_n_UTCP_ARG"}', {"n": 7}, b'{"n": 7, "t": "no 7"}'),
    ("[LOG] UTCP_ARG_m_UTCP_ARG}", {"m": "as it is"}, b"[LOG] as it is}"),
    (None, {"a": "x", "b": 7, "c": "}"}, b"x 7 }"),
    ("", {"a": "x", "b": "}"}, b"x }"),
]  # fmt: skip


@for_each(("template", "arguments", "sent"), MESSAGES, ids=[str(n) for n in range(len(MESSAGES))])
async def test_text_has_its_arguments_in_place(tcp, peer, template, arguments, sent) -> None:
    peer.replies, peer.request_bytes = [b"ok"], len(sent)
    fields = {"request_data_format": "text", "request_data_template": template}
    assert await read_response(tcp, {**peer.template, **fields}, arguments) == b"ok"
    assert peer.received == sent


async def test_a_template_that_is_json_cannot_be_broken_out_of(tcp, peer) -> None:
    fields = {
        "request_data_format": "text",
        "request_data_template": '{"a": "UTCP_ARG_a_UTCP_ARG", "b": UTCP_ARG_b_UTCP_ARG}',
    }
    for text in ('"', "\\", '\\"', '", "x": "', "}", "\u2028", "\\u0022", "UTCP_ARG_b_UTCP_ARG", "😀\x00"):
        body = tcp.describe(call_of(tcp, {**peer.template, **fields}, {"a": text, "b": text}))["body"]
        assert orjson.loads(body) == {"a": text, "b": text}


async def test_a_missing_argument_is_reported(tcp, peer) -> None:
    fields = {"request_data_format": "text", "request_data_template": "UTCP_ARG_a_UTCP_ARG"}
    with pytest.raises(InvalidArguments) as caught:
        await read_response(tcp, {**peer.template, **fields}, {"b": 1})
    assert caught.value.errors[0].pointer == "/a"


async def test_what_no_text_can_hold_is_rejected(tcp, peer) -> None:
    fields = {"request_data_format": "text", "request_data_template": "UTCP_ARG_a_UTCP_ARG"}
    with pytest.raises(InvalidArguments):
        await read_response(tcp, {**peer.template, **fields}, {"a": "\ud800"})
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises(InvalidArguments):
        await read_response(tcp, peer.template, {"a": deep})


async def test_a_sealed_template_is_filled_at_the_call(tcp, peer) -> None:
    peer.replies, peer.request_end = [b"ok"], b"!"
    secret = WireCredential("field", "/request_data_template", Secret("key=abc UTCP_ARG_a_UTCP_ARG!"), "s")
    template = {**peer.template, "request_data_format": "text", "request_data_template": ""}
    call = call_of(tcp, template, {"a": 1}, credentials=(secret,))
    assert tcp.describe(call) == {
        "method": "SEND", "url": f"tcp://127.0.0.1:{peer.template['port']}", "headers": {}, "body": "***",
    }  # fmt: skip
    await tcp.call(call)
    assert peer.received == b"key=abc 1!"


async def test_a_credential_without_a_place_is_rejected(tcp, peer) -> None:
    wire = WireCredential("header", "Authorization", Secret("Bearer abc"), "default")
    with pytest.raises(CredentialMissing) as caught:
        await read_response(tcp, peer.template, {"a": 1}, credentials=(wire,))
    assert "abc" not in str(caught.value.as_problem())
    with pytest.raises(CredentialMissing):
        tcp.describe(call_of(tcp, peer.template, {}, credentials=(wire,)))


async def test_certificates_without_tls_are_rejected(tcp, peer) -> None:
    egress = EgressSettings(ca_bundle="-----BEGIN CERTIFICATE-----")
    for ask in (tcp.call, tcp.discover):
        with pytest.raises(InvalidInput, match="no TLS"):
            await ask(call_of(tcp, peer.template, {}, egress=egress))


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"response_byte_format": "klingon"}, "/response_byte_format"),
    ({"response_byte_format": "base64"}, "/response_byte_format"),
    ({"response_byte_format": "punycode"}, "/response_byte_format"),
    ({"response_byte_format": "a\x00b"}, "/response_byte_format"),
    ({"message_delimiter": "\\x0"}, "/message_delimiter"),
    ({"message_delimiter": "\\ud800"}, "/message_delimiter"),
    ({"message_delimiter": "\\\n"}, "/message_delimiter"),
    ({"host": "a b"}, "/host"),
    ({"host": "a.example:80"}, "/host"),
    ({"port": 0}, "/port"),
    ({"length_prefix_bytes": 3}, "/length_prefix_bytes"),
    ({"framing_strategy": "lines"}, "/framing_strategy"),
    ({"framing_strategy": "fixed_length"}, ""),
]


@for_each(("fields", "at"), UNUSABLE, ids=[str(n) for n in range(len(UNUSABLE))])
async def test_a_template_that_can_never_be_called_is_rejected(tcp, fields, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        tcp.prepare({"call_template_type": "tcp", "host": "a.example", "port": 1, **fields})
    assert caught.value.errors[0].pointer == at


@pytest.mark.parametrize("host", ["[2001:db8::1]", "2001:db8::1"])
async def test_an_address_may_stand_in_brackets(tcp, host) -> None:
    target = tcp.prepare({"call_template_type": "tcp", "host": host, "port": 7})
    assert (target.origin, target.address.host) == ("tcp://[2001:db8::1]:7", "2001:db8::1")


async def test_a_stream_comes_as_events_with_whole_characters(tcp, peer) -> None:
    peer.replies = [b"gr\xc3", b"\xbcn", b"!"]
    result = await tcp.call(call_of(tcp, peer.template, {"a": 1}, streaming=True))
    events = await events_of(result)
    assert {event.kind for event in events} == {"text"}
    assert b"".join(event.data for event in events).decode() == "grün!"


async def test_raw_bytes_come_as_events_of_bytes(tcp, peer) -> None:
    peer.replies = [b"\xff\x00"]
    call = call_of(tcp, {**peer.template, "response_byte_format": None}, {"a": 1}, streaming=True)
    assert [(event.kind, event.data) for event in await events_of(await tcp.call(call))] == [
        ("bytes", b"\xff\x00")
    ]


async def test_closing_a_stream_that_nobody_read_ends_the_connection(tcp, peer) -> None:
    peer.replies, peer.stays_open = [b"one"], True
    result = await tcp.call(call_of(tcp, peer.template, {"a": 1}, streaming=True))
    await result.aclose()
    async with asyncio.timeout(5):
        await peer.disconnected.wait()


@pytest.mark.parametrize("framing", ["stream", "length_prefix", "delimiter", "fixed_length"])
async def test_discovery_sends_its_message_in_the_framing(tcp, peer, framing) -> None:
    manual = orjson.dumps({"tools": [], "p": "x" * 100_000})
    template = {**peer.template, "framing_strategy": framing, "fixed_message_length": len(manual)}
    before, after = b"", b""
    if framing == "length_prefix":
        before, peer.request_bytes = len(manual).to_bytes(4, "big"), 20
    elif framing == "delimiter":
        after = peer.request_end = b"\x00"
    # More than max_response_size, which would leave a manual that nobody can read.
    peer.replies = [before + manual + after]
    found = await tcp.discover(call_of(tcp, template))
    assert found.raw == manual
    assert b'{"type": "utcp"}' in peer.received


async def test_a_peer_that_reads_nothing_is_disconnected_at_the_deadline(tcp) -> None:
    resumed, disconnected = asyncio.Event(), asyncio.Event()

    async def read_late(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        reader._transport.pause_reading()
        await resumed.wait()
        reader._transport.resume_reading()
        try:
            while await reader.read(1 << 20):
                pass
        finally:
            disconnected.set()

    async with tcp_server(read_late) as port:
        template = {"call_template_type": "tcp", "host": "127.0.0.1", "port": port}
        with pytest.raises(UpstreamTimeout):
            await read_response(tcp, {**template, "timeout": 1000}, {"a": "x" * (16 << 20)}, seconds=600)
        resumed.set()
        async with asyncio.timeout(60):
            await disconnected.wait()


def test_a_call_is_never_taken_for_safe() -> None:
    make: Callable[..., Any] = TcpAdapter.__new__
    adapter = make(TcpAdapter)
    assert not adapter.is_safe(None)
    assert not adapter.is_idempotent(None)
    assert adapter.request_identity(None) is None
