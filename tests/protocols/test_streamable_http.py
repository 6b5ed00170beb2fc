"""Answers in chunks: lines, JSON and bytes."""

import asyncio
from typing import Any

import orjson
import pytest

from app.core.errors import UpstreamTimeout
from app.core.settings import Settings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, Call, Result
from app.protocols.streamable_http.adapter import StreamableHttpAdapter
from app.security.masking import Masker


@pytest.fixture
def adapter(engine: Engine, masker: Masker) -> StreamableHttpAdapter:
    return StreamableHttpAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))


def head(media_type: str) -> bytes:
    return f"HTTP/1.1 200 OK\r\nContent-Type: {media_type}\r\nConnection: close\r\n\r\n".encode()


async def called(
    adapter: StreamableHttpAdapter, url: str, *, streaming: bool = False, **template: Any
) -> Result:
    now = asyncio.get_running_loop().time()
    target = adapter.prepare({"call_template_type": "streamable_http", "url": url, **template})
    call = Call(target, {}, (), now + 10, Limits(), "id", stream_deadline=now + 20 if streaming else None)
    return await adapter.call(call)


@pytest.mark.parametrize(
    ("media_type", "pieces", "value"),
    [
        ("application/x-ndjson", [b'{"a":1}\n{"a"', b":2}\n\n", b'{"a":3}'], [{"a": 1}, {"a": 2}, {"a": 3}]),
        ("application/x-ndjson; charset=utf-8", [b"not json\n1\n"], ["not json", 1]),
        ("application/json", [b'{"a"', b":1}"], [{"a": 1}]),
        ("application/problem+json", [b"{}"], [{}]),
    ],
)
async def test_lines_and_json_become_a_list(adapter, respond, media_type: str, pieces, value) -> None:
    result = await called(adapter, await respond(head(media_type), *pieces))
    assert (result.media_type, orjson.loads(await result.read())) == ("application/json", value)


@pytest.mark.parametrize("media_type", ["application/octet-stream", "image/png"])
async def test_bytes_stay_what_they_are(adapter, respond, media_type: str) -> None:
    result = await called(adapter, await respond(head(media_type), b"\x00\xff", b"\x01"))
    assert (result.media_type, await result.read()) == (media_type, b"\x00\xff\x01")


async def test_bytes_come_in_pieces_of_the_chunk_size_at_most(adapter, respond) -> None:
    url = await respond(head("application/octet-stream"), b"abcdefgh", b"i")
    result = await called(adapter, url, streaming=True, chunk_size=3)
    assert result.events is not None
    assert [event.data async for event in result.events] == [b"abc", b"def", b"gh", b"i"]


async def test_lines_are_events_where_events_are_requested(adapter, respond) -> None:
    url = await respond(head("application/x-ndjson"), b'{"a":1}\n', b'{"a":2}\n')
    result = await called(adapter, url, streaming=True)
    assert result.events is not None
    assert [event.data async for event in result.events] == [b'{"a":1}', b'{"a":2}']


@pytest.mark.parametrize("streaming", [False, True])
async def test_the_templates_own_timeout_bounds_the_whole_response(adapter, respond, streaming: bool) -> None:
    url = await respond(head("application/x-ndjson"), b"1\n", forever=True)

    async def whole() -> None:
        result = await called(adapter, url, streaming=streaming, timeout=1_500)
        assert result.events is not None
        async for _ in result.events:
            pass

    with pytest.raises(UpstreamTimeout):
        await whole()
    await respond.closed.wait()
