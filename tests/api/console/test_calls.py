"""The pages of calls without a browser: rights, exports, streams and recorded bodies."""

import asyncio
import contextlib
import re
from datetime import UTC, datetime

import orjson
import pytest
from aiohttp import web

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import CallLogEntry
from app.core.errors import Stopping
from app.core.uuid7 import uuid7
from app.storage.models import TENANT
from tests.harness.beside import web_server
from tests.harness.cases import for_each
from tests.stored import clear, store_provider, store_tool

HIDDEN = "a\u200bb\u202ec"
SCRIPT = "<script>alert(1)</script>"

ABSENT = "019a0000-0000-7000-8000-000000000000"


async def echo(request):
    return web.json_response({"said": await request.text(), "html": SCRIPT, "hidden": HIDDEN})


@pytest.fixture(scope="module")
async def application(applications):
    return await applications.get(call_log_bodies="all")


@pytest.fixture
async def world(application):
    await application.services.call_log.flush()
    await clear(application.services.database)
    yield application
    await application.close_clients()


@pytest.fixture
async def upstream():
    served = web.Application()
    served.router.add_route("*", "/{tail:.*}", echo)
    async with web_server(served) as url:
        yield url


def entry(tool="outer.b", **changed):
    fields = {
        "id": uuid7(), "at": datetime.now(UTC), "tenant_id": TENANT, "key_id": "k",
        "provider": tool.partition(".")[0], "tool": tool, "outcome": "ok", "status": 200, "duration_ms": 5.0,
    }  # fmt: skip
    return CallLogEntry(**fields | changed)


async def store(world, *entries):
    writer = BatchCallLog(world.services.database)
    for one in entries:
        writer.record(one)
    assert await writer.flush()


async def two_providers(world):
    database = world.services.database
    for name in ("outer", "inner"):
        await store_tool(database, await store_provider(database, name), "b" if name == "outer" else "a")
    await world.services.feed.catch_up()


class Rows:
    """Reads the events of the live tail."""

    def __init__(self, response):
        self.lines = response.aiter_lines()

    async def event(self, *, seconds=15):
        """The name and the data of the next event."""
        async with asyncio.timeout(seconds):
            name, data = "", []
            async for line in self.lines:
                if line.startswith("event: "):
                    name = line[7:]
                elif line.startswith("data: "):
                    data.append(line[6:])
                elif not line and name:
                    return name, "\n".join(data)
        raise AssertionError("The stream has ended.")


@contextlib.asynccontextmanager
async def followed(client, **query):
    async with client.stream("GET", "/console/calls/stream", params=query) as response:
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        yield Rows(response)


async def connected(world, number=1):
    """Wait until the feed of calls has so many readers."""
    async with asyncio.timeout(15):
        while len(world.services.call_feed._subscriptions) < number:  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


@pytest.mark.parametrize(
    "path", ["/console/calls", "/console/calls.csv", "/console/calls/stream", f"/console/calls/{ABSENT}"]
)
async def test_pages_of_calls_need_the_scope_of_the_api_and_name_it(world, path):
    client = await world.client("tools:read")
    response = await client.get(path)
    assert response.status_code == 403
    assert response.headers["content-type"].startswith("text/html")
    assert "calls:read" in response.text


async def test_calls_are_those_that_the_key_may_see(world):
    await two_providers(world)
    hidden, shown = entry("inner.a"), entry("outer.b")
    await store(world, hidden, shown)
    client = await world.client("calls:read", providers=["outer"])
    for path in (
        "/console/calls",
        "/console/calls?period=30d&tool=inner.a",
        "/console/calls.csv",
        "/console",
    ):
        text = (await client.get(path)).text
        assert "inner.a" not in text.replace('value="inner.a"', "").replace("tool=inner.a", "")
    assert str(shown.id) in (await client.get("/console/calls")).text
    assert (await client.get(f"/console/calls/{hidden.id}")).status_code == 404
    assert (await client.get(f"/console/calls/{shown.id}")).status_code == 200


@for_each("call_id", ["x", "%2e%2e%2f", "1", "%00", ABSENT, "a" * 3_000])
async def test_call_that_there_is_not_is_not_found(world, call_id):
    client = await world.client("calls:read")
    response = await client.get(f"/console/calls/{call_id}", follow_redirects=False)
    assert response.status_code == 404, response.text[:300]


async def test_csv_is_that_of_the_api(world):
    await two_providers(world)
    await store(world, *(entry(duration_ms=float(number)) for number in range(60)))
    client = await world.client("calls:read")
    passed, direct = await client.get("/console/calls.csv"), await client.get("/calls.csv")
    assert passed.text == direct.text
    assert passed.text.count("\r\n") == 61
    for name in ("content-type", "content-disposition"):
        assert passed.headers[name] == direct.headers[name]
    assert (await client.get("/console/calls.csv?since=x")).status_code == 422


async def test_recorded_bodies_are_shown_to_keys_that_may_read_them_and_are_events(world, upstream):
    database = world.services.database
    provider = await store_provider(database, "echo")
    template = {
        "call_template_type": "http",
        "http_method": "POST",
        "url": f"{upstream}/x",
        "body_field": "body",
    }
    await store_tool(
        database, provider, "say", call_template=template,
        inputs={"type": "object", "properties": {"body": {"type": "object"}}},
    )  # fmt: skip
    await world.services.feed.catch_up()
    admin = await world.client("admin")
    called = await admin.post("/tools/echo.say/call", json={"body": {"text": "it's"}})
    assert called.status_code == 200, called.text
    call_id = called.headers["x-call-id"]
    await world.services.call_log.flush()
    path = f"/console/calls/{call_id}"
    reader = await world.client("calls:read")
    for client, is_offered in ((reader, False), (admin, True)):
        page = (await client.get(path)).text
        assert ("Show arguments and response" in page) is is_offered
        assert "it&#39;s" not in page
    assert (await reader.post(f"{path}/bodies", data={"what": "bodies"})).status_code == 403
    shown = (await admin.post(f"{path}/bodies", data={"what": "bodies"})).text
    assert "it&#39;s" in shown
    assert "curl -X POST" in shown
    assert SCRIPT not in shown
    assert "&lt;script&gt;" in shown
    assert re.search(r'title="U\+202E RIGHT-TO-LEFT OVERRIDE"', shown)
    assert "\u202e" not in shown
    events = (await admin.get("/events", params={"object_name": call_id})).json()["items"]
    assert [one["action"] for one in events] == ["read"]
    none = await admin.post(f"{path}/bodies", data={"what": "envelope"})
    assert none.status_code == 200
    assert "was not recorded" in none.text


async def test_names_of_clients_and_tools_are_escaped(world):
    await store(world, entry(SCRIPT, provider="", outcome="not-found", key_id=SCRIPT))
    client = await world.client("calls:read")
    page = await client.get("/console/calls")
    assert SCRIPT not in page.text
    assert "&lt;script&gt;" in page.text


async def test_rows_are_streamed_with_the_filters_at_most_50_an_update(world):
    await two_providers(world)
    client = await world.client("calls:read")
    async with followed(client, outcome="upstream-error") as rows:
        await connected(world)
        await store(world, entry(), *(entry(outcome="upstream-error") for _ in range(180)), entry())
        name, html = await rows.event()
    assert name == "rows"
    assert len(re.findall(r'<tr id="call-', html)) == 50
    assert "130 more calls are not shown" in html
    assert html.count("upstream-error") == 50


async def test_stream_says_that_the_key_has_ended_and_ends(world):
    client = await world.client("calls:read")
    admin = await world.client("admin")
    key_id = next(
        one["id"] for one in (await admin.get("/keys")).json()["items"] if one["scopes"] == ["calls:read"]
    )
    async with followed(client) as rows:
        await connected(world)
        assert (await admin.delete(f"/keys/{key_id}")).status_code == 204
        name, data = await rows.event()
        assert name == "end"
        assert orjson.loads(data)["again"] is False
        assert [line async for line in rows.lines if line] == []
    assert len(world.services.call_feed) == 0


async def test_stream_ends_when_the_gateway_stops_and_may_be_opened_again(world):
    client = await world.client("calls:read")
    async with followed(client) as rows:
        await connected(world)
        for stream in tuple(world.services.streams._open):
            stream.end(Stopping())
        name, data = await rows.event()
        assert name == "end"
        assert orjson.loads(data)["again"] is True


async def test_stream_is_given_up_when_its_client_leaves(world):
    client = await world.client("calls:read")
    async with followed(client) as _:
        await connected(world)
    async with asyncio.timeout(10):
        while len(world.services.call_feed) or len(world.services.streams):  # noqa: ASYNC110 - it has no event
            await asyncio.sleep(0.02)


async def test_stream_continues_after_its_last_row(world):
    await two_providers(world)
    client = await world.client("calls:read")
    first, second = entry(), entry()
    await store(world, first)
    await store(world, second)
    client.headers["Last-Event-ID"] = str(first.id)
    async with followed(client) as rows:
        _, html = await rows.event()
    assert f"call-{second.id}" in html
    assert f"call-{first.id}" not in html


async def test_each_list_has_at_most_fifty_rows_and_pages_are_small(world):
    await two_providers(world)
    await store(world, *(entry("outer.b", key_id="x" * 40) for _ in range(120)))
    client = await world.client("calls:read")
    text = (await client.get("/console/calls?period=7d")).text
    assert text.count('<tr id="call-') == 50
    assert len(text.encode()) <= 60 << 10
