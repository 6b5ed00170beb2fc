"""Each protocol's response goes through the same masking: what its upstream echoes of a secret is gone."""

import asyncio
import base64
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from app.agents.call.content_negotiation import parse_accept
from app.agents.call.responses import respond
from app.calls import CallContext, CallRequest
from app.calls.log.batch_writer import BatchCallLog
from app.calls.recorder import CallRecorder
from app.calls.response.masking import call_and_mask, mask_result
from app.calls.response.streams import StreamRegistry
from app.core.deadlines import get_timer_queue
from app.core.errors import UpstreamError, UpstreamMalformed
from app.core.settings import Settings
from app.core.telemetry.metrics import Metrics
from app.protocols.base import AdapterContext, Result
from app.protocols.cli.adapter import CliAdapter
from app.protocols.http.adapter import HttpAdapter
from app.protocols.registry import Adapters
from app.security.masking import Masker
from app.security.principal import Principal
from app.security.response_masking import ResponseMasker
from app.storage.database import Database
from app.storage.models import TENANT
from tests.harness.cases import for_each
from tests.protocols.calling import call_of, events_of
from tests.protocols.kits.all import KITS, settings
from tests.protocols.kits.base import Kit, Upstream
from tests.protocols.kits.ubp import COMMANDS
from tests.protocols.peers.tcp import tcp_server
from tests.protocols.peers.udp import UdpPeer

CANARY = 'canary+of/all "protocols" 4711'
FORMS = (
    CANARY,
    base64.b64encode(CANARY.encode()).decode(),
    base64.b64encode(b"me:" + CANARY.encode() + b"!").decode(),
    CANARY.encode().hex(),
)
# Their arguments are a path and a query, of which nothing is echoed.
UNABLE = ("text", "file", "filesystem", "postgres")
READINGS = {"whole": False, "events": True}
"""How a response is read, and whether the call asks for events."""
ABLE = [kit for kit in KITS if "echo" in kit.cases and kit.protocol not in UNABLE]


@pytest.fixture
async def adapters(engine) -> AsyncIterator[Any]:
    built = Adapters(AdapterContext(engine, engine.network, Masker(), settings(), COMMANDS))
    yield built
    await built.aclose()


def planted(kit: Kit) -> dict[str, Any]:
    """The kit's arguments with the secret in every text that may be any text."""
    told = " ".join(FORMS)

    def plant(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: plant(member) for name, member in value.items()}
        return told if isinstance(value, str) and " " in value else value

    arguments: dict[str, Any] = plant(kit.arguments())
    assert arguments != kit.arguments()
    return arguments


def leaks(body: bytes) -> list[str]:
    text = body.decode("utf-8", "replace")
    within = [base64.b64encode(b"x" * k + CANARY.encode()).decode()[4 if k else 0 : -4] for k in range(3)]
    return [form for form in (*FORMS, *within) if form in text]


@pytest.mark.parametrize("kit", ABLE, ids=lambda kit: kit.protocol)
@for_each("reading", READINGS)
async def test_what_an_upstream_echoes_is_masked(
    kit: Kit, upstream: Upstream, adapters, reading: str
) -> None:
    streaming = READINGS[reading]
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), planted(kit), streaming=streaming)
    call.masker = ResponseMasker([CANARY])
    result = await call_and_mask(adapter.call, call)
    if streaming:
        body = b"".join(event.data for event in await events_of(result))
    else:
        body = await result.read()
        await result.aclose()
    assert b"***" in body
    assert leaks(body) == []
    assert result.is_masked


@pytest.mark.parametrize("kit", ABLE, ids=lambda kit: kit.protocol)
@for_each("reading", READINGS)
async def test_what_an_upstream_says_without_a_secret_stays_the_same(
    kit: Kit, upstream: Upstream, adapters, reading: str
) -> None:
    streaming = READINGS[reading]
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), kit.arguments(), streaming=streaming)
    call.masker = ResponseMasker([CANARY])
    result = await call_and_mask(adapter.call, call)
    if streaming:
        body = b"".join(event.data for event in await events_of(result))
    else:
        body = await result.read()
        await result.aclose()
    assert kit.echoed(body) == kit.arguments()
    assert not result.is_masked


async def test_a_secret_in_two_pieces_of_a_tcp_stream_is_masked(adapters) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        for piece in (b"it is can", CANARY[3:12].encode(), CANARY[12:].encode() + b", and more"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with tcp_server(serve) as port:
        template = {
            "call_template_type": "tcp", "host": "127.0.0.1", "port": port, "framing_strategy": "stream",
            "request_data_format": "text", "request_data_template": "hello",
        }  # fmt: skip
        call = call_of(adapters["tcp"], template, streaming=True)
        call.masker = ResponseMasker([CANARY])
        result = await call_and_mask(adapters["tcp"].call, call)
        events = await events_of(result)
    assert b"".join(event.data for event in events) == b"it is ***, and more"
    assert events[0].data == b"it is "
    assert result.is_masked


@for_each("codec", ["utf-8", "ascii", "utf-16"])
@for_each("reading", READINGS)
async def test_datagrams_that_their_codec_does_not_fit_are_masked(adapters, codec: str, reading: str) -> None:
    """An octet that a client had sent back would be enough to make binary data of a text with the secret."""
    streaming = READINGS[reading]
    bad = b"\xff" if codec != "utf-16" else b"\x00\xd8"
    one, two = (text.encode(codec.replace("16", "16-le")) for text in (f"it is {CANARY}", f" and {CANARY}"))
    peer = UdpPeer()
    peer.replies = [bad + one, bad + two]
    async with peer.serve():
        template = {
            **peer.template, "timeout": 10_000, "number_of_response_datagrams": 2, "response_byte_format": codec,
        }  # fmt: skip
        call = call_of(adapters["udp"], template, streaming=streaming)
        call.masker = ResponseMasker([CANARY])
        result = await call_and_mask(adapters["udp"].call, call)
        if streaming:
            events = await events_of(result)
            assert [event.kind for event in events] == ["bytes", "bytes"]
            body = b"".join(event.data for event in events)
        else:
            body = await result.read()
            assert result.media_type == "application/octet-stream"
            assert result.headers == [("X-Masked", "body")]
    stars = "***".encode(codec.replace("16", "16-le"))
    assert body == b"".join(
        bad + text.encode(codec.replace("16", "16-le")) + stars for text in ("it is ", " and ")
    )
    assert result.is_masked


@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "events"])
async def test_a_tcp_message_that_its_codec_does_not_fit_is_masked(adapters, streaming: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        writer.write(b"\xff" + CANARY.encode() + b"\n")

    async with tcp_server(serve) as port:
        template = {
            "call_template_type": "tcp", "host": "127.0.0.1", "port": port, "framing_strategy": "delimiter",
            "message_delimiter": "\n", "interpret_escape_sequences": False,
            "request_data_format": "text", "request_data_template": "hello",
        }  # fmt: skip
        call = call_of(adapters["tcp"], template, streaming=streaming)
        call.masker = ResponseMasker([CANARY])
        result = await call_and_mask(adapters["tcp"].call, call)
        events = await events_of(result) if streaming else []
        body = b"".join(event.data for event in events) if streaming else await result.read()
    assert body.rstrip() == b"\xff***"
    assert result.is_masked


def body_of(media_type: str, body: bytes, *, pieces: int = 0) -> Result:
    async def stream() -> AsyncIterator[bytes]:
        for at in range(0, len(body), pieces):
            yield body[at : at + pieces]

    if pieces:
        return Result(status=200, headers=[], media_type=media_type, body=None, stream=stream())
    return Result(status=200, headers=[], media_type=media_type, body=body)


@for_each("pieces", [0, 1, 3, 1000])
@for_each(
    ("media_type", "charset"),
    [
        # What is declared is not always what is sent.
        ("text/plain; charset=utf-16", "utf-8"),
        ("application/json; charset=utf-32", "utf-8"),
        ("text/plain; charset=iso-8859-12", "utf-8"),
        ("text/plain; charset=latin-1", "utf-8"),
        ("text/plain; charset=latin-1", "latin-1"),
        ("text/plain", "utf-16"),
        ("text/plain", "utf-16-le"),
        ("text/plain", "utf-16-be"),
        ("text/plain; charset=utf-8", "utf-32-le"),
        ("application/json", "utf-32-be"),
    ],
)
async def test_text_in_a_charset_that_was_not_declared_is_masked(
    media_type: str, charset: str, pieces: int
) -> None:
    secret = "café" + CANARY
    result = body_of(media_type, f"it is {secret}.".encode(charset), pieces=pieces)
    mask_result(result, ResponseMasker([secret]))
    assert (await result.read()).decode(charset) == "it is ***."
    assert result.is_masked


async def test_odd_escapes_in_utf8_that_is_declared_as_something_else_are_masked() -> None:
    escaped = "".join(f"\\u{ord(character):04x}" for character in CANARY)
    result = body_of("application/json; charset=utf-16", f'["{escaped}"]'.encode())
    mask_result(result, ResponseMasker([CANARY]))
    assert result.body == b'["***"]'


@pytest.mark.parametrize("body", [b"", b"a", b"abc"])
async def test_a_stream_that_ends_before_its_charset_is_known_is_passed_on(body: bytes) -> None:
    result = body_of("text/plain", body, pieces=1)
    mask_result(result, ResponseMasker([CANARY]))
    assert await result.read() == body


@for_each("pieces", [0, 1000])
@for_each(
    ("name", "looked_at"),
    [
        ("grpc-web-text", True),
        ("compressed-thing", True),
        ("x-zip-list", True),
        ("vnd.example.pdf-report", True),
        ("vnd.ms-fontobject-list", True),
        ("octet-stream", False),
        ("zip", False),
        ("grpc-web+proto", False),
        ("vnd.example+cbor", False),
        ("vnd.oasis.opendocument.text", False),
    ],
)
async def test_a_type_is_binary_by_its_whole_name(name: str, looked_at: bool, pieces: int) -> None:
    result = body_of(f"application/{name}", f"it is {CANARY}".encode(), pieces=pieces)
    mask_result(result, ResponseMasker([CANARY]))
    assert await result.read() == (b"it is ***" if looked_at else f"it is {CANARY}".encode())


async def test_a_program_that_prints_its_environment(adapters, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealed variable, and one that it inherits, on standard output, and in the body of its failure."""
    monkeypatch.setenv("SHARED_API_TOKEN", "inherited-token-0815")
    monkeypatch.setenv("SHARED_HOME", "/home/somebody/data")
    allowed = Settings(
        _env_file=None, programs=(sys.executable,), program_env_names=("SHARED_API_TOKEN", "SHARED_HOME")
    )
    engine = adapters["http"]._engine
    adapter = CliAdapter(AdapterContext(engine, engine.network, Masker(), allowed))
    for code in (0, 3):
        script = f"import os, sys; print(dict(os.environ)); sys.exit({code})"
        template = {
            "call_template_type": "cli",
            "commands": [{"command": f'{sys.executable} -c "{script}"'}],
            "inherit_env_vars": ["SHARED_API_TOKEN", "SHARED_HOME"],
        }
        call = call_of(adapter, template)
        assert adapter.own_secrets(call.target) == ("inherited-token-0815",)
        call.masker = ResponseMasker(adapter.own_secrets(call.target))
        if code:
            with pytest.raises(UpstreamError) as caught:
                await call_and_mask(adapter.call, call)
            told = repr((caught.value.as_problem(), caught.value.response))
        else:
            told = (await (await call_and_mask(adapter.call, call)).read()).decode()
            # No secret by its looks. An error is masked by all that programs have inherited.
            assert "/home/somebody/data" in told
        assert "inherited-token-0815" not in told
    await adapter.aclose()


CODED = b"\x1f\x9d\x90coded"


async def allow() -> None:
    """Let the client have the rest of a response."""


@pytest.mark.parametrize("body", [CODED, CODED * 20_000])
async def test_a_coding_that_cannot_be_taken_off_is_rejected_or_passed_on(engine, serve, body: bytes) -> None:
    async def compressed(request: web.Request) -> web.Response:
        headers = {"Content-Encoding": "compress", "Content-Type": "application/json"}
        return web.Response(body=body, headers=headers)

    url = await serve(compressed)
    template = {"call_template_type": "http", "http_method": "GET", "url": url}
    for chosen in ("reject", "pass"):
        allowed = Settings(_env_file=None, undecodable_responses=chosen)
        adapter = HttpAdapter(AdapterContext(engine, engine.network, Masker(), allowed))
        call = call_of(adapter, template)
        call.masker = ResponseMasker([CANARY])
        if chosen == "reject":
            with pytest.raises(UpstreamMalformed):
                await (await call_and_mask(adapter.call, call)).read()
            continue
        result = await call_and_mask(adapter.call, call)
        assert ("Content-Encoding", "compress") in result.headers
        assert await result.read() == body
        again = call_of(adapter, template)
        again.masker = call.masker
        result = await call_and_mask(adapter.call, again)
        answer = await respond(
            result,
            accept=parse_accept("application/json"),
            outcome=_outcome(),
            streams=StreamRegistry(get_timer_queue(), asyncio.Event()),
            check=allow,
        )
        told = json.loads(answer.body)
        assert told["media_type"] == "application/octet-stream"
        assert base64.b64decode(told["base64"]) == body
        assert b"content-encoding" not in dict(answer.headers)
        with pytest.raises(UpstreamMalformed):
            await events_of(await adapter.call(call_of(adapter, template, streaming=True)))


def _outcome() -> CallContext:
    """The outcome of a call whose record is never stored."""
    database = Database("postgresql://nobody@127.0.0.1:1/none")
    principal = Principal(key_id="k", name="k", tenant_id=TENANT, scopes=frozenset())
    request = CallRequest(principal, "p.t", "test")
    recorder = CallRecorder(request, call_log=BatchCallLog(database), metrics=Metrics())
    return CallContext(request, recorder)
