"""Responses as events, over real connections: what upstreams stream, and how each stream ends."""

import asyncio
import base64
import contextlib
import json

import httpx2
import pytest
from aiohttp import web

from app.calls.response.streams import StreamRegistry
from tests.harness.beside import web_server

SSE = {"Accept": "text/event-stream"}
LINES = {"Accept": "application/x-ndjson"}
TICKS = (b": hello\n\nevent: tick\nid: 1\ndata: 1\n\n", b"event: tick\nid: 2\nda", b"ta: 2\n\ndata: last\n\n")


class Source:
    """An upstream that sends `pieces`; `left` is set once its client has disconnected early."""

    def __init__(self):
        self.url = ""
        self.media = "text/event-stream"
        self.pieces = TICKS
        self.pause = 0.01
        self.then = "end"
        self.accepts = []
        self.left = asyncio.Event()

    async def reject(self, _request):
        return web.json_response({"detail": "no"}, status=404)

    async def respond(self, request):
        self.accepts.append(request.headers.get("Accept"))
        response = web.StreamResponse(headers={"Content-Type": self.media})
        try:
            if self.then == "late":
                await asyncio.sleep(30)
            await response.prepare(request)
            for piece in self.pieces:
                await response.write(piece)
                await asyncio.sleep(self.pause)
            if self.then == "break":
                request.transport.abort()
            if self.then == "silence":
                await asyncio.sleep(30)
        except (asyncio.CancelledError, ConnectionError):
            self.left.set()
            raise
        return response


@pytest.fixture
async def source():
    site = Source()
    application = web.Application()
    application.router.add_get("/stream", site.respond)
    application.router.add_get("/reject", site.reject)
    async with web_server(application, handler_cancellation=True) as site.url:
        yield site


@pytest.fixture
async def calling(api, source):
    """`await calling(headers)` calls the source's tool, whose provider has the given limits."""

    async def call(headers, path="/stream", *, template=None, by=api, **limits):
        provider = await api.provider("api", limits=limits)
        await api.tool(provider, "stream", {"url": source.url + path, **(template or {})})
        return await (await by.client()).post("/tools/api.stream/call", headers=headers)

    return call


def events(response):
    """(name, id, data) of each event, data as JSON where it is JSON."""
    return [(one.event, one.id, one.data) for one in httpx2.EventSource(response)]


def values(response):
    return [json.loads(line) for line in response.text.split("\n") if line]


async def test_an_event_stream_is_passed_on_event_by_event_and_ends_with_a_summary(api, calling):
    response = await calling(SSE)
    assert response.headers["content-type"] == "text/event-stream"
    assert response.headers["x-accel-buffering"] == "no"
    *own, (name, _, last) = events(response)
    assert own == [("tick", "1", "1"), ("tick", "2", "2"), ("message", "2", "last")]
    summary = json.loads(last)
    assert (name, summary["events"], summary["bytes"]) == ("gateway-end", 3, 6)
    assert (summary["call_id"], summary["upstream_status"]) == (response.headers["x-call-id"], 200)
    [record] = await api.calls()
    assert (record["outcome"], record["response_bytes"]) == ("ok", len(response.content))


async def test_an_event_stream_as_lines(calling):
    response = await calling(LINES)
    assert response.headers["content-type"] == "application/x-ndjson"
    *own, last = values(response)
    assert own == [
        {"event": "tick", "id": "1", "data": 1},
        {"event": "tick", "id": "2", "data": 2},
        {"event": "message", "data": "last"},
    ]
    assert last["$gateway"]["end"]["events"] == 3


@pytest.mark.parametrize(
    ("media", "pieces", "expected"),
    [
        ("text/event-stream", TICKS, [1, 2, "last"]),
        ("application/x-ndjson", (b'{"$gateway": 1}\n[2]\noops',), [{"$gateway": 1}, [2], "oops"]),
        ("application/json-seq", (b'\x1e{"a":\n1}\n\x1e2\n',), [{"a": 1}, 2]),
        ("application/json", (b'{\n"a": 1}',), [{"a": 1}]),
        ("text/plain", (b"abc",), ["abc"]),
        ("image/png", (b"abc",), [{"media_type": "image/png", "base64": "YWJj"}]),
    ],
)
async def test_the_values_of_events_alone(calling, source, media, pieces, expected):
    source.media, source.pieces = media, pieces
    response = await calling({"Accept": "application/x-ndjson;form=values"})
    assert response.headers["content-type"] == "application/x-ndjson;form=values"
    assert values(response) == expected


async def test_bytes_come_as_they_are_to_a_client_that_accepts_them(calling, source):
    source.media, source.pieces = "application/octet-stream", (b"\x00ab", b"\xff")
    response = await calling({"Accept": "application/x-ndjson;form=values, application/octet-stream"})
    assert response.headers["content-type"] == "application/octet-stream"
    assert response.content == b"\x00ab\xff"


async def test_values_of_a_stream_that_breaks_have_no_end(calling, source):
    source.then = "break"
    with pytest.raises(httpx2.RemoteProtocolError):
        await calling({"Accept": "application/x-ndjson; form=values"})


async def test_lines_in_both_forms(calling, source):
    source.media = "application/x-ndjson"
    source.pieces = (b'{"a": 1}\n{"a":', b" 2}\r\n\n", b"oops\n3")
    lined = await calling(LINES)
    assert values(lined)[:-1] == [{"a": 1}, {"a": 2}, "oops", 3]
    assert lined.text.startswith('{"a": 1}\n{"a": 2}\n')


async def test_lines_as_an_event_stream(calling, source):
    source.media = "application/jsonl"
    source.pieces = (b'{"a": 1}\n3',)
    assert [one[2] for one in events(await calling(SSE))[:-1]] == ['{"a": 1}', "3"]


@pytest.mark.parametrize(
    ("media", "pieces", "expected"),
    [
        ("application/json", (b'{\n"a":', b" 1}"), [{"a": 1}]),
        ("text/plain", ("grüß".encode()[:3], "grüß".encode()[3:]), ["gr", "üß"]),
        (
            "image/png",
            (b"\x89PNG",),
            [{"media_type": "image/png", "base64": base64.b64encode(b"\x89PNG").decode()}],
        ),
        ("application/json", (), []),
    ],
)
async def test_a_response_that_is_no_stream_becomes_one(calling, source, media, pieces, expected):
    source.media, source.pieces, source.pause = media, pieces, 0.05
    response = await calling({"Accept": "application/jsonl"})
    assert response.headers["content-type"] == "application/jsonl"
    *own, last = values(response)
    if media == "text/plain":
        own, expected = ["".join(own)], ["".join(expected)]
    assert own == expected
    assert last["$gateway"]["end"]["events"] >= len(expected)


async def test_a_client_that_accepts_json_too_gets_it_where_there_is_no_stream(calling, source):
    source.media, source.pieces = "application/json", (b'{"a": 1}',)
    response = await calling({"Accept": "application/json, text/event-stream"})
    assert (response.headers["content-type"], response.json()) == ("application/json", {"a": 1})


async def test_the_upstream_is_sent_accept_for_a_stream_but_not_in_place_of_its_tool(calling, source):
    await calling(SSE)
    assert source.accepts[0].startswith("text/event-stream")


async def test_the_accept_header_of_a_tool_is_sent(calling, source):
    await calling(SSE, template={"headers": {"Accept": "text/csv"}})
    assert source.accepts == ["text/csv"]


async def test_a_failure_before_the_headers_is_a_problem_with_its_status(api, calling):
    response = await calling(SSE, "/reject")
    assert (response.status_code, response.headers["content-type"]) == (404, "application/problem+json")
    assert (await api.calls())[0]["outcome"] == "upstream-rejected"


async def test_an_upstream_that_is_late_is_a_problem_too(calling, source):
    source.then = "late"
    assert (await calling(SSE, total=0.3)).status_code == 504


@pytest.mark.parametrize(
    ("then", "limits", "slug", "status"),
    [
        ("break", {}, "upstream-", 502),
        ("silence", {"idle": 0.3}, "upstream-timeout", 504),
        ("silence", {"stream": 0.3}, "upstream-timeout", 504),
        ("end", {"response_bytes": 50}, "response-too-large", 502),
    ],
)
async def test_a_failure_after_the_headers_is_the_last_event(
    api, calling, source, then, limits, slug, status
):
    source.then = then
    response = await calling(SSE, **limits)
    name, _, data = events(response)[-1]
    problem = json.loads(data)
    assert (response.status_code, name) == (200, "gateway-error")
    assert problem["type"].startswith(f"urn:utcp-gateway:problem:{slug}")
    assert problem["status"] == status
    assert problem["call_id"] == response.headers["x-call-id"]
    assert problem["detail"]
    [record] = await api.calls()
    assert (record["outcome"], record["upstream_status"]) == (problem["type"].rpartition(":")[2], 200)


async def test_an_event_that_is_too_large_ends_the_stream(calling, source):
    source.pieces = (b"data: ok\n\ndata: ", *[b"x" * 65536] * 17)
    own, last = values(await calling(LINES))
    assert own == {"event": "message", "data": "ok"}
    assert last["$gateway"]["error"]["type"].endswith(":response-too-large")


async def test_a_stream_may_last_longer_than_an_ordinary_call(calling, source):
    source.pause = 0.3
    assert values(await calling(LINES, total=0.5))[-1]["$gateway"]["end"]["events"] == 3


@pytest.mark.parametrize(("headers", "heartbeat"), [(SSE, ": heartbeat\n\n"), (LINES, "\n\n")])
async def test_heartbeats_are_sent_while_the_upstream_is_silent(api, calling, source, headers, heartbeat):
    source.pause, source.pieces = 0.4, (TICKS[0],)
    streams = StreamRegistry(api.services.engine.timers, api.services.stopping, heartbeat=0.02)
    async with api.with_services(streams=streams) as lively:
        response = await calling(headers, by=lively)
    assert response.text.count(heartbeat) >= 4


async def test_a_client_disconnect_reaches_the_upstream(api, source):
    source.then = "silence"
    provider = await api.provider("api")
    await api.tool(provider, "stream", {"url": source.url + "/stream"})
    client = await api.client()
    async with client.stream("POST", "/tools/api.stream/call", headers=SSE) as response:
        await anext(response.aiter_bytes())
    await source.left.wait()
    assert (await api.recorded_call())["outcome"] == "cancelled"
    assert len(api.services.streams) == 0


async def test_streams_get_their_last_event_while_the_gateway_stops(api, source):
    source.then = "silence"
    provider = await api.provider("api")
    await api.tool(provider, "stream", {"url": source.url + "/stream"})
    calling = asyncio.create_task((await api.client()).post("/tools/api.stream/call", headers=LINES))
    try:
        async with asyncio.timeout(5):
            while not len(api.services.streams):  # noqa: ASYNC110 - there is no event for it.
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)
            api.services.streams.stopping.set()
            first = values(await calling)
            later = values(await (await api.client()).post("/tools/api.stream/call", headers=LINES))
    finally:
        api.services.streams.stopping.clear()
    assert [value.get("event") for value in first[:-1]] == ["tick", "tick", "message"]
    for last in (first[-1], later[-1]):
        assert last["$gateway"]["error"]["type"].endswith(":stopping")
        assert last["$gateway"]["error"]["status"] == 503
    assert {record["outcome"] for record in await api.calls()} == {"stopping"}
    await source.left.wait()


async def test_the_clients_timeout_bounds_the_whole_stream(api, calling, source):
    source.then = "silence"
    response = await calling({**SSE, "X-Timeout-Ms": "500"})
    name, _, data = events(response)[-1]
    assert (name, json.loads(data)["status"]) == ("gateway-error", 504)
    assert (await api.calls())[0]["outcome"] == "upstream-timeout"


async def test_clients_that_read_slowly_do_not_open_the_breaker(api, source):
    source.media, source.pieces, source.pause = "application/x-ndjson", (b"1" * 900_000 + b"\n",) * 40, 0
    provider = await api.provider("api", limits={"stream": 0.6, "total": 0.6, "breaker_failures": 1})
    await api.tool(provider, "stream", {"url": source.url + "/stream"})
    client = await api.client()
    for headers in (LINES, {}):
        async with client.stream("POST", "/tools/api.stream/call", headers=headers) as response:
            pieces = response.aiter_raw()
            await anext(pieces)
            # Longer than the call may take.
            await asyncio.sleep(0.9)
            with contextlib.suppress(httpx2.TransportError):
                async for _ in pieces:
                    pass
        assert (await api.calls())[0]["outcome"] == "client-timeout"
    source.pieces = (b"1\n",)
    assert (await client.post("/tools/api.stream/call")).status_code == 200
