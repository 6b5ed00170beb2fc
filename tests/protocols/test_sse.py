"""Event streams that break, and are taken up where they broke: a Starlette server behind uvicorn."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from app.core.errors import ResponseTooLarge, UpstreamMalformed, UpstreamRejected, UpstreamUnreachable
from app.core.settings import Settings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, Call
from app.protocols.sse.adapter import SseAdapter
from app.security.masking import Masker


class Dropped(Exception):
    """uvicorn cuts the connection when a response raises in its middle."""


@dataclass
class Events:
    """A server whose answers are scripts: the pieces of each connection in turn; None cuts it."""

    url: str = ""
    scripts: list[list[str | None]] = field(default_factory=list)
    seen: list[dict[str, Any]] = field(default_factory=list)
    status: int = 200

    async def respond(self, request: Request) -> Response:
        self.seen.append(
            {
                "method": request.method, "path": request.url.path, "query": dict(request.query_params),
                "headers": dict(request.headers), "body": await request.body(),
            }
        )  # fmt: skip
        if not self.scripts:
            return Response(status_code=204)
        script = self.scripts.pop(0)
        if script == ["json"]:
            return JSONResponse({"no": "stream"}, status_code=self.status)

        async def pieces() -> AsyncIterator[str]:
            for piece in script:
                if piece is None:
                    raise Dropped
                yield piece

        return StreamingResponse(pieces(), media_type="text/event-stream")


class Server(uvicorn.Server):
    """Leaves the signals of the test run alone."""

    @contextlib.contextmanager
    def capture_signals(self):
        yield


@pytest.fixture
async def events() -> AsyncIterator[Events]:
    running = Events()
    application = Starlette(routes=[Route("/{rest:path}", running.respond, methods=["GET", "POST"])])
    server = Server(uvicorn.Config(application, port=0, log_level="critical", lifespan="off"))
    task = asyncio.create_task(server.serve())
    while not server.started:  # noqa: ASYNC110 - uvicorn has no event for it.
        await asyncio.sleep(0.01)
    running.url = f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"
    yield running
    server.should_exit = True
    await task


@pytest.fixture
def adapter(engine: Engine, masker: Masker) -> SseAdapter:
    return SseAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))


async def called(adapter: SseAdapter, template: dict[str, Any], arguments: Any = None, **limits: Any) -> Any:
    now = asyncio.get_running_loop().time()
    target = adapter.prepare({"call_template_type": "sse", "retry_timeout": 10, **template})
    call = Call(target, arguments or {}, (), now + 10, Limits(**limits), "id")
    result = await adapter.call(call)
    return orjson.loads(await result.read())


async def streamed(adapter: SseAdapter, template: dict[str, Any]) -> list[Any]:
    now = asyncio.get_running_loop().time()
    target = adapter.prepare({"call_template_type": "sse", "retry_timeout": 10, **template})
    result = await adapter.call(Call(target, {}, (), now + 10, Limits(), "id", stream_deadline=now + 20))
    assert result.events is not None
    return [(event.name, event.id, event.data.decode()) async for event in result.events]


async def test_a_broken_stream_goes_on_after_its_last_event(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [
        ['id: 1\ndata: {"a": 1}\n\n', "id: 2\ndata: two\n\n", "data: cut o", None],
        [None],
        ["id: 3\ndata: 3\n\n"],
    ]
    assert await called(adapter, {"url": f"{events.url}/e"}) == [{"a": 1}, "two", 3]
    assert [one["headers"].get("last-event-id") for one in events.seen] == [None, "2", "2"]
    assert all(one["headers"]["accept"] == "text/event-stream" for one in events.seen)


async def test_events_continue_after_a_reconnect(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["id: a\nevent: tick\ndata: 1\n\n", None], ["id: b\ndata: 2\n\n"]]
    assert await streamed(adapter, {"url": events.url}) == [("tick", "a", "1"), ("", "b", "2")]


async def test_only_events_of_the_type_count(adapter: SseAdapter, events: Events) -> None:
    script: list[str | None] = ["data: plain\n\nevent: a\ndata: 1\n\nevent: b\ndata: 2\n\n"]
    for event_type, found in (("a", [1]), ("message", ["plain"]), (None, ["plain", 1, 2])):
        events.scripts = [script]
        assert await called(adapter, {"url": events.url, "event_type": event_type}) == found


async def test_a_retry_time_of_the_server_replaces_the_templates(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["retry: 20\ndata: 1\n\n", None], ["data: 2\n\n"]]
    # An hour of the template's own would outlast the call.
    assert await called(adapter, {"url": events.url, "retry_timeout": 3_600_000}) == [1, 2]


async def test_204_says_that_nothing_more_comes(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["data: 1\n\n", None]]
    assert await called(adapter, {"url": events.url}) == [1]


@pytest.mark.parametrize(
    ("template", "arguments"), [({"reconnect": False}, {}), ({"body_field": "body"}, {"body": {"x": 1}})]
)
async def test_some_streams_are_not_taken_up_again(
    adapter: SseAdapter, events: Events, template: dict[str, Any], arguments: Any
) -> None:
    events.scripts = [["data: 1\n\n", None], ["data: 2\n\n"]]
    with pytest.raises((UpstreamUnreachable, UpstreamMalformed)):
        await called(adapter, {"url": events.url, **template}, arguments)
    assert len(events.seen) == 1


async def test_it_gives_up_after_some_attempts_in_vain(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["data: 1\n\n", None], *([None] for _ in range(9))]
    with pytest.raises((UpstreamUnreachable, UpstreamMalformed)):
        await called(adapter, {"url": events.url})
    assert len(events.seen) == 6


async def test_a_server_that_restarts_may_reject_a_reconnect(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["id: 1\ndata: 1\n\n", None], ["json"], ["json"], ["id: 2\ndata: 2\n\n"]]
    events.status = 503
    assert await called(adapter, {"url": events.url}) == [1, 2]
    assert [one["headers"].get("last-event-id") for one in events.seen] == [None, "1", "1", "1"]


async def test_a_reconnect_that_is_forbidden_ends_the_call(adapter: SseAdapter, events: Events) -> None:
    events.scripts, events.status = [["id: 1\ndata: 1\n\n", None], ["json"], ["data: 2\n\n"]], 410
    with pytest.raises(UpstreamRejected) as caught:
        await called(adapter, {"url": events.url})
    assert caught.value.response_begun
    assert len(events.seen) == 2


async def test_a_server_that_repeats_an_event_does_not_resume(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["id: 1\ndata: 1\n\n", None] for _ in range(9)]
    with pytest.raises((UpstreamUnreachable, UpstreamMalformed)) as caught:
        await called(adapter, {"url": events.url})
    assert caught.value.response_begun
    assert len(events.seen) == 6


async def test_arguments_go_into_path_query_headers_and_body(adapter: SseAdapter, events: Events) -> None:
    template = {"url": f"{events.url}/{{a}}/x", "header_fields": ["X-H"], "body_field": "b"}
    events.scripts = [["data: 1\n\n"], ["data: 1\n\n"]]
    await called(adapter, template, {"a": "p/q", "q": 1, "X-H": "h", "b": {"deep": [1]}})
    await called(adapter, template, {"a": "p", "q": 1})
    post, get = events.seen
    assert (post["method"], post["path"], post["query"], post["headers"]["x-h"]) == (
        "POST", "/p/q/x", {"q": "1"}, "h",
    )  # fmt: skip
    assert (orjson.loads(post["body"]), post["headers"]["content-type"]) == (
        {"deep": [1]},
        "application/json",
    )
    assert (get["method"], get["body"]) == ("GET", b"")


async def test_what_is_no_event_stream_is_malformed(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [["json"]]
    with pytest.raises(UpstreamMalformed, match="event stream"):
        await called(adapter, {"url": events.url})


async def test_a_refusal_keeps_its_status_and_body(adapter: SseAdapter, events: Events) -> None:
    events.scripts, events.status = [["json"]], 422
    with pytest.raises(UpstreamRejected) as caught:
        await called(adapter, {"url": events.url})
    assert caught.value.response is not None
    assert (caught.value.status, caught.value.response.body) == (422, {"no": "stream"})


async def test_an_event_above_the_limit_is_rejected(adapter: SseAdapter, events: Events) -> None:
    events.scripts = [[f"data: {'x' * 5000}"] * 3]
    with pytest.raises(ResponseTooLarge):
        await called(adapter, {"url": events.url}, response_bytes=4096)
