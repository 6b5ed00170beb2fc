"""Each protocol's response goes through the same masking: what its upstream echoes of a secret is gone."""

import asyncio
import base64
import contextlib
import json
import sys
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web

from app.call_api.content_negotiation import accepted
from app.call_api.responses import respond
from app.calls.masking import masked
from app.errors import UpstreamError, UpstreamMalformed
from app.protocols.base import Means
from app.protocols.cli.adapter import CliAdapter
from app.protocols.http import HttpAdapter
from app.protocols.registry import Adapters
from app.security.masking import Masker
from app.security.response_masking import ResponseMasker
from app.settings import Settings
from tests.protocols.calling import call_of, events_of
from tests.protocols.kits.all import KITS, settings
from tests.protocols.kits.base import Kit, Upstream

CANARY = 'canary+of/all "protocols" 4711'
FORMS = (
    CANARY,
    base64.b64encode(CANARY.encode()).decode(),
    base64.b64encode(b"me:" + CANARY.encode() + b"!").decode(),
    CANARY.encode().hex(),
)
ABLE = [kit for kit in KITS if "echo" in kit.cases and kit.protocol not in ("text", "file")]


@pytest.fixture
async def adapters(engine) -> AsyncIterator[Any]:
    built = Adapters(Means(engine, engine.network, Masker(), settings()))
    yield built
    await built.aclose()


@pytest.fixture(scope="module")
async def kept() -> AsyncIterator[contextlib.AsyncExitStack]:
    async with contextlib.AsyncExitStack() as stack:
        yield stack


@pytest.fixture
async def upstream(kit: Kit, kept: contextlib.AsyncExitStack) -> AsyncIterator[Upstream]:
    async with kit.anew(kept) as running:
        yield running


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
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "events"])
async def test_what_an_upstream_echoes_is_masked(
    kit: Kit, upstream: Upstream, adapters, streaming: bool
) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), planted(kit), streaming=streaming)
    call.masker = ResponseMasker([CANARY])
    result = await masked(adapter.call(call), call)
    if streaming:
        body = b"".join(event.data for event in await events_of(result))
    else:
        body = await result.read()
        await result.aclose()
    assert b"***" in body
    assert leaks(body) == []
    assert result.masked


@pytest.mark.parametrize("kit", ABLE, ids=lambda kit: kit.protocol)
@pytest.mark.parametrize("streaming", [False, True], ids=["whole", "events"])
async def test_what_an_upstream_says_without_a_secret_stays_the_same(
    kit: Kit, upstream: Upstream, adapters, streaming: bool
) -> None:
    adapter = adapters[kit.protocol]
    call = call_of(adapter, kit.template(upstream, "echo"), kit.arguments(), streaming=streaming)
    call.masker = ResponseMasker([CANARY])
    result = await masked(adapter.call(call), call)
    if streaming:
        body = b"".join(event.data for event in await events_of(result))
    else:
        body = await result.read()
        await result.aclose()
    assert kit.echoed(body) == kit.arguments()
    assert not result.masked


async def test_a_secret_in_two_pieces_of_a_tcp_stream_is_masked(adapters) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(10)
        for piece in (b"it is can", CANARY[3:12].encode(), CANARY[12:].encode() + b", and more"):
            writer.write(piece)
            await writer.drain()
            await asyncio.sleep(0.05)
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    template = {
        "call_template_type": "tcp", "host": "127.0.0.1", "port": port, "framing_strategy": "stream",
        "request_data_format": "text", "request_data_template": "hello",
    }  # fmt: skip
    call = call_of(adapters["tcp"], template, streaming=True)
    call.masker = ResponseMasker([CANARY])
    result = await masked(adapters["tcp"].call(call), call)
    events = await events_of(result)
    server.close()
    assert b"".join(event.data for event in events) == b"it is ***, and more"
    assert events[0].data == b"it is "
    assert result.masked


async def test_a_program_that_prints_its_environment(adapters, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sealed variable, and one that it inherits, on standard output, and in the body of its failure."""
    monkeypatch.setenv("SHARED_API_TOKEN", "inherited-token-0815")
    monkeypatch.setenv("SHARED_HOME", "/home/somebody/data")
    allowed = Settings(
        _env_file=None, programs=(sys.executable,), program_env_names=("SHARED_API_TOKEN", "SHARED_HOME")
    )
    engine = adapters["http"]._engine
    adapter = CliAdapter(Means(engine, engine.network, Masker(), allowed))
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
                await masked(adapter.call(call), call)
            told = repr((caught.value.as_problem(), caught.value.answer))
        else:
            told = (await (await masked(adapter.call(call), call)).read()).decode()
            # No secret by its looks. An error is masked by all that programs have inherited.
            assert "/home/somebody/data" in told
        assert "inherited-token-0815" not in told
    await adapter.aclose()


CODED = b"\x1f\x9d\x90coded"


@pytest.mark.parametrize("body", [CODED, CODED * 20_000])
async def test_a_coding_that_cannot_be_taken_off_is_rejected_or_passed_on(engine, serve, body: bytes) -> None:
    async def compressed(request: web.Request) -> web.Response:
        headers = {"Content-Encoding": "compress", "Content-Type": "application/json"}
        return web.Response(body=body, headers=headers)

    url = await serve(compressed)
    template = {"call_template_type": "http", "http_method": "GET", "url": url}
    for chosen in ("reject", "pass"):
        allowed = Settings(_env_file=None, undecodable_responses=chosen)
        adapter = HttpAdapter(Means(engine, engine.network, Masker(), allowed))
        call = call_of(adapter, template)
        call.masker = ResponseMasker([CANARY])
        if chosen == "reject":
            with pytest.raises(UpstreamMalformed):
                await (await masked(adapter.call(call), call)).read()
            continue
        result = await masked(adapter.call(call), call)
        assert ("Content-Encoding", "compress") in result.headers
        assert await result.read() == body
        result = await masked(adapter.call(call_of(adapter, template)), call)
        answer = await respond(
            result,
            accept=accepted("application/json"),
            attempt=_Settled(),
            streams=None,  # type: ignore[arg-type]
        )
        told = json.loads(answer.body)
        assert told["media_type"] == "application/octet-stream"
        assert base64.b64decode(told["base64"]) == body
        assert b"content-encoding" not in dict(answer.headers)
        with pytest.raises(UpstreamMalformed):
            await events_of(await adapter.call(call_of(adapter, template, streaming=True)))


class _Settled:
    """What a response asks of the record of its call."""

    bodies = stored = None
    call_id = "01a0-test"
    upstream_seconds = 0.0

    def seconds(self) -> float:
        return 0.0

    def settle(self, **counts: int) -> None:
        """It is over."""
