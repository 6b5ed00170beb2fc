"""/calls/stream and /changes/stream: new records as they are stored, with the visibility of the lists."""

import asyncio
import contextlib
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import orjson
import pytest
from sqlalchemy import text

from app.access.events import record_event
from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import CallLogEntry
from app.catalog.feed import record_change
from app.core.errors import Stopping
from app.core.uuid7 import uuid7
from app.storage.models import TENANT


def entry(tool="outer.b", **changed):
    fields = {
        "id": uuid7(), "at": datetime.now(UTC), "tenant_id": TENANT, "key_id": "k",
        "provider": tool.partition(".")[0], "tool": tool, "outcome": "ok", "status": 200, "duration_ms": 5.0,
    }  # fmt: skip
    return CallLogEntry(**fields | changed)


@dataclass
class Received:
    name: str
    id: str
    data: dict


class Reader:
    """Reads the events of a stream."""

    def __init__(self, response):
        self.response = response
        self.lines = response.aiter_lines()

    async def event(self, *, seconds=15):
        async with asyncio.timeout(seconds):
            fields = {}
            async for line in self.lines:
                if line.startswith(":"):
                    continue
                if not line and fields:
                    return Received(fields["event"], fields.get("id", ""), orjson.loads(fields["data"]))
                if line:
                    name, _, value = line.partition(": ")
                    fields[name] = value
        raise AssertionError("The stream has ended.")

    async def connected(self):
        async with asyncio.timeout(15):
            async for line in self.lines:
                if line.startswith(":"):
                    return

    async def ended(self):
        async with asyncio.timeout(15):
            return [line async for line in self.lines if line and not line.startswith(":")]


@contextlib.asynccontextmanager
async def opened(client, path="/calls/stream", *, last=None, **query):
    headers = {} if last is None else {"Last-Event-ID": last}
    async with client.stream("GET", path, params=query, headers=headers) as response:
        assert response.status_code == 200, await response.aread()
        assert response.headers["content-type"].startswith("text/event-stream")
        yield Reader(response)


async def store(api, *entries):
    """Store records as another worker would, with its own writer."""
    writer = BatchCallLog(api.services.database)
    for one in entries:
        writer.record(one)
    assert await writer.flush()


@pytest.fixture
async def tools(api):
    inner = await api.provider("inner", tags=["internal"])
    outer = await api.provider("outer", tags=["public"])
    await api.tool(inner, "a", {"url": "https://x.example/a"})
    await api.tool(outer, "b", {"url": "https://x.example/b"})
    return {"inner": inner, "outer": outer}


async def test_new_calls_are_streamed_once_each_as_they_are_listed(api, tools):
    client = await api.client("calls:read")
    await store(api, entry())
    made = [entry(), entry("inner.a", outcome="upstream-timeout", status=504)]
    async with opened(client) as reader:
        await reader.connected()
        for one in made:
            await store(api, one, one)
        events = [await reader.event() for _ in made]
        last = entry()
        await store(api, last, *made)
        assert (await reader.event()).id == str(last.id)
    listed = {one["id"]: one for one in (await client.get("/calls")).json()["items"]}
    assert [event.name for event in events] == ["call", "call"]
    for event, one in zip(events, made, strict=True):
        assert event.id == str(one.id) == event.data["id"]
        assert event.data == listed[event.id]


async def test_filters_and_visibility_are_those_of_the_list(api, tools):
    everything = await api.client("calls:read")
    by_provider = await api.client("calls:read", providers=["outer"])
    by_tag = await api.client("calls:read", tags=["public"])
    async with contextlib.AsyncExitStack() as stack:
        readers = {
            name: await stack.enter_async_context(opened(client, **query))
            for name, client, query in (
                ("all", everything, {}),
                ("failed", everything, {"outcome": "not-found"}),
                ("errors", everything, {"error": True}),
                ("slow", everything, {"min_duration_ms": 100}),
                ("mcp", everything, {"interface": "mcp"}),
                ("provider", by_provider, {}),
                ("tag", by_tag, {}),
            )
        }
        for reader in readers.values():
            await reader.connected()
        # A tool that is created while the stream is open.
        await api.tool(tools["outer"], "new", {"url": "https://x.example/n"})
        made = {
            "hidden": entry("inner.a"),
            "slow": entry("inner.a", duration_ms=100.0, interface="mcp"),
            "failed": entry("no.such", provider="", outcome="not-found", status=404),
            "new": entry("outer.new"),
            "last": entry("outer.b", outcome="not-found", duration_ms=500.0, interface="mcp"),
        }
        for one in made.values():
            await store(api, one)
        expected = {
            "all": list(made),
            "failed": ["failed", "last"],
            "errors": ["failed", "last"],
            "slow": ["slow", "last"],
            "mcp": ["slow", "last"],
            "provider": ["new", "last"],
            "tag": ["new", "last"],
        }
        for name, wanted in expected.items():
            found = [(await readers[name].event()).id for _ in wanted]
            assert found == [str(made[one].id) for one in wanted], name
    assert (await (await api.client()).get("/calls/stream")).status_code == 403
    assert (await everything.get("/calls/stream?outcome=")).status_code == 422


async def test_position_of_a_list_is_that_of_an_empty_one_and_of_each_page(api, tools):
    client = await api.client("calls:read")
    empty = (await client.get("/calls")).json()
    made = [entry() for _ in range(3)]
    await store(api, *made)
    page = (await client.get("/calls?limit=1&tool=inner.a")).json()
    assert (empty["items"], page["items"]) == ([], [])
    async with opened(client, last=empty["position"]) as reader:
        assert {(await reader.event()).id for _ in made} == {str(one.id) for one in made}
    later = entry()
    await store(api, later)
    async with opened(client, last=page["position"]) as reader:
        events = [await reader.event()]
        while events[-1].id != str(later.id):
            events.append(await reader.event())
    # Those of the seconds before the list may come again.
    assert {event.id for event in events} <= {str(one.id) for one in (*made, later)}


@pytest.mark.parametrize("path", ["/calls/stream", "/console/calls/stream"])
async def test_first_heartbeat_comes_after_the_subscription(api, tools, path):
    client, feed = await api.client("calls:read"), api.services.call_feed
    held = contextlib.AsyncExitStack()
    await held.enter_async_context(feed._lock)
    async with held, opened(client, path, last=str(uuid7())) as reader:
        connected = asyncio.create_task(reader.connected())
        async with asyncio.timeout(15):
            while not feed._users:  # noqa: ASYNC110 - it has no event.
                await asyncio.sleep(0.02)
        assert not connected.done()
        await held.aclose()
        await connected
        assert len(feed._subscriptions) == 1


async def test_call_that_was_unknown_before_it_ended_is_a_position_before_its_end(api, tools):
    client = await api.client("calls:read")
    late, later = entry(outcome="unknown", at=datetime.now(UTC) - timedelta(seconds=10)), entry()
    await store(api, late)
    await store(api, later)
    async with api.services.database.transaction() as session:
        moved = "UPDATE calls SET stored_at = stored_at + interval '1 hour', replaced_outcome = 'unknown' WHERE id = :id"
        await session.execute(text(moved), {"id": late.id})
    async with opened(client, last=str(late.id)) as reader:
        assert (await reader.event()).id == str(later.id)


async def test_one_query_serves_all_streams_and_none_is_made_without(api, tools):
    feed = api.services.call_feed
    client = await api.client("calls:read")
    async with contextlib.AsyncExitStack() as stack:
        readers = [await stack.enter_async_context(opened(client)) for _ in range(10)]
        for reader in readers:
            await reader.connected()
        assert len(feed) == 10
        before = feed.queries
        one = entry()
        await store(api, one)
        assert {(await reader.event()).id for reader in readers} == {str(one.id)}
        assert feed.queries - before <= 3
    async with asyncio.timeout(10):
        while len(feed) or feed._tasks:  # noqa: ASYNC110 - the end of a stream has no event.
            await asyncio.sleep(0.02)


async def test_a_stream_is_resumed_after_the_last_event(api, tools):
    client = await api.client("calls:read")
    made = [entry() for _ in range(5)]
    async with opened(client) as reader:
        await reader.connected()
        await store(api, made[0])
        last = (await reader.event()).id
    for one in made[1:4]:
        await store(api, one)
    async with opened(client, last=last) as reader:
        found = [(await reader.event()).id for _ in range(3)]
        await store(api, made[4])
        found.append((await reader.event()).id)
    assert found == [str(one.id) for one in made[1:]]
    # A record that is no longer stored: the stream begins at the time of its id.
    async with opened(client, last=str(uuid7())) as reader:
        assert (await reader.event()).id in {str(one.id) for one in made}
    for wrong in ("x", "00000000-0000-4000-8000-000000000000"):
        response = await client.get("/calls/stream", headers={"Last-Event-ID": wrong})
        assert response.status_code == 422
    async with opened(client, last="ffffffff-ffff-7fff-bfff-ffffffffffff") as reader:
        await reader.connected()


async def test_long_calls_are_streamed_when_they_end(api, tools):
    """The id of a call is that of its beginning: calls end in another order."""
    client = await api.client("calls:read")
    long, short = entry(), entry()
    async with opened(client) as reader:
        await reader.connected()
        await store(api, short)
        assert (await reader.event()).id == str(short.id)
        await store(api, long)
        assert (await reader.event()).id == str(long.id)
    async with opened(client, last=str(short.id)) as reader:
        assert (await reader.event()).id == str(long.id)


@pytest.mark.parametrize("path", ["/calls/stream", "/changes/stream"])
async def test_a_stream_ends_when_its_key_is_revoked(api, tools, path):
    admin = await api.client("admin")
    made = (await admin.post("/keys", json={"name": "x", "scopes": ["calls:read"]})).json()
    headers = {"Authorization": f"Bearer {made['key']}"}
    async with admin.stream("GET", path, headers=headers) as response:
        reader = Reader(response)
        await reader.connected()
        assert (await admin.delete(f"/keys/{made['id']}")).status_code == 204
        event = await reader.event()
        while event.name == "change":
            event = await reader.event()
        assert (event.name, event.data["status"]) == ("gateway-error", 401)
        assert await reader.ended() == []


async def test_a_stream_ends_when_the_gateway_stops(api, tools):
    client = await api.client("calls:read")
    async with opened(client) as reader:
        await reader.connected()
        for stream in tuple(api.services.streams._open):
            stream.end(Stopping())
        event = await reader.event()
        assert (event.name, event.data["type"]) == ("gateway-error", "urn:utcp-gateway:problem:stopping")
        assert await reader.ended() == []


async def test_streams_beyond_the_limit_are_rejected(api, tools):
    feed = api.services.call_feed
    client = await api.client("calls:read")
    places = 100
    for _ in range(places):
        feed.acquire()
    try:
        response = await client.get("/calls/stream")
        assert (response.status_code, response.json()["type"].rpartition(":")[2]) == (503, "overloaded")
    finally:
        for _ in range(places):
            feed.release()


async def change(api, actor, name):
    async with api.services.database.transaction() as session:
        await record_event(session, actor=actor, action="updated", object_type="tool", object_name=name)
        await record_change(session, kind="tool")


async def test_changes_are_streamed_with_filters_and_visibility(api, tools):
    admin = await api.client("admin")
    made = (
        await admin.post("/keys", json={"name": "x", "scopes": ["calls:read"], "providers": ["outer"]})
    ).json()
    limited = {"Authorization": f"Bearer {made['key']}"}
    async with (
        opened(admin, "/changes/stream", object_name="one") as filtered,
        opened(admin, "/changes/stream") as everything,
        admin.stream("GET", "/changes/stream", headers=limited) as response,
    ):
        own = Reader(response)
        for reader in (filtered, everything, own):
            await reader.connected()
        for actor, name in (("other", "two"), ("other", "one"), (made["id"], "two")):
            await change(api, actor, name)
        seen = [await everything.event() for _ in range(3)]
        assert [(event.name, event.data["actor"], event.data["object_name"]) for event in seen] == [
            ("change", "other", "two"), ("change", "other", "one"), ("change", made["id"], "two")
        ]  # fmt: skip
        assert (await filtered.event()).data["object_name"] == "one"
        assert (await own.event()).data["actor"] == made["id"]
    async with opened(admin, "/changes/stream", last=seen[0].id, object_type="tool") as reader:
        assert [(await reader.event()).id for _ in range(2)] == [seen[1].id, seen[2].id]
    listed = (await admin.get("/events?object_type=tool")).json()["items"]
    assert [one["id"] for one in listed][:3] == [event.id for event in reversed(seen)]
    assert listed[0] == seen[2].data
    assert (await (await api.client()).get("/changes/stream")).status_code == 403
