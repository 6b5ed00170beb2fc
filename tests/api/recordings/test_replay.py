"""A call that was recorded is replayed: the same result, in the order of recording, without its upstream."""

import asyncio

import orjson
import pytest
from sqlalchemy import text

from app.calls.recordings.recorded_calls import SOURCE_HEADER
from app.catalog.feed import record_change


async def test_recorded_call_is_replayed_without_the_upstream(recorder, player, upstream, call):
    live = await call(recorder, "search", q="sea")
    assert live.headers["x-recording"] == "stored"
    assert SOURCE_HEADER not in live.headers
    replayed = await call(player, "search", q="sea")
    assert replayed.content == live.content
    assert replayed.headers["content-type"] == live.headers["content-type"]
    assert replayed.headers["link"] == live.headers["link"]
    assert replayed.headers["x-call-source"] == "recording"
    assert replayed.headers["x-upstream-status"] == "200"
    assert "x-recording" not in replayed.headers
    assert upstream.count == 1


async def test_responses_to_one_request_are_replayed_in_their_order(recorder, player, call):
    for _ in range(3):
        await call(recorder, "search", q="sea")
    numbers = [(await call(player, "search", q="sea")).json()["number"] for _ in range(5)]
    assert numbers == [1, 2, 3, 3, 3]


async def test_runs_do_not_disturb_each_other(recorder, player, call):
    for _ in range(3):
        await call(recorder, "search", q="sea")

    async def one_run(name):
        return [(await call(player, "search", q="sea", run=name)).json()["number"] for _ in range(3)]

    assert await asyncio.gather(*(one_run(f"ci-{number}") for number in range(4))) == [[1, 2, 3]] * 4


async def test_run_of_a_key_begins_anew(admin, keys, recorder, player, call):
    for _ in range(2):
        await call(recorder, "search", q="sea")
    assert [(await call(player, "search", q="sea")).json()["number"] for _ in range(2)] == [1, 2]
    begun = await admin.post("/recordings/r/runs", json={"key_id": keys.ids[player]})
    assert begun.status_code == 200
    assert (await call(player, "search", q="sea")).json()["number"] == 1
    assert (await call(player, "search", q="sea", run=begun.json()["run"])).json()["number"] == 1


async def test_after_the_last_response_a_run_may_fail(admin, recorder, player, call):
    await call(recorder, "search", q="sea")
    changed = await admin.patch("/recordings/r", json={"options": {"after_last": "error"}})
    assert changed.json()["options"] == {"ignored": [], "after_last": "error", "strict": False}
    await call(player, "search", q="sea", run="a")
    problem = (await call(player, "search", q="sea", run="a", expect=409)).json()
    assert problem["type"].endswith(":not-recorded")
    assert problem["recorded"] == 1


async def test_order_of_members_and_form_of_numbers_do_not_count(recorder, player, call):
    await call(recorder, "search", q="sea", limit=2)
    response = await player.post("/tools/library.search/call", content=b'{"limit": 2.0, "q": "sea"}')
    assert response.status_code == 200, response.text
    await call(recorder, "search", limit=0.1)
    exact = b'{"limit": 0.1000000000000000055511151231257827}'
    response = await player.post("/tools/library.search/call", content=exact)
    assert response.status_code == 409


async def test_ignored_arguments_do_not_count(admin, recorder, player, upstream, call):
    await call(recorder, "search", q="sea", at="2026-01-01")
    await call(player, "search", q="sea", at="2026-02-02", expect=409)
    changed = await admin.patch("/recordings/r", json={"options": {"ignored": ["/at"]}})
    assert changed.status_code == 200, changed.text
    await call(player, "search", q="sea", at="2026-02-02")
    await call(recorder, "search", q="lake", at="2026-01-01")
    await call(player, "search", q="lake", at="2026-02-02")
    await call(player, "search", q="lake")
    assert upstream.count == 2


async def test_call_that_was_not_recorded_names_the_nearest_one(recorder, player, upstream, call):
    await call(recorder, "search", q="sea", limit=5, pin="4711-pin-4711")
    await call(recorder, "search", q="ocean", at="now")
    response = await call(player, "search", q="seas", limit=5, pin="4712-pin-4712", expect=409)
    problem = response.json()
    assert problem["type"] == "urn:utcp-gateway:problem:not-recorded"
    assert problem["retryable"] is False
    assert (problem["tool"], problem["recording"]) == ("library.search", "r")
    assert problem["nearest"]["differences"] == [{"pointer": "/q", "recorded": "sea", "given": "seas"}]
    assert problem["nearest"]["arguments"] == {"q": "sea", "limit": 5, "pin": "***"}
    assert b"-pin-" not in response.content
    assert upstream.count == 2
    other = (await call(player, "write", q="x", expect=409)).json()
    assert other["nearest"] is None


@pytest.mark.parametrize("status", [404, 422, 429, 500, 503])
async def test_errors_of_the_upstream_are_replayed(recorder, player, upstream, call, status):
    expect = status if status < 500 else 502
    live = (await call(recorder, "fail", q=str(status), expect=expect)).json()
    count = upstream.count
    response = await call(player, "fail", q=str(status), expect=expect)
    replayed = response.json()
    for problem in (live, replayed):
        problem.pop("call_id")
    assert replayed == live
    assert replayed["upstream_status"] == status
    assert response.headers["x-call-source"] == "recording"
    assert response.headers.get("retry-after") == "3"
    assert upstream.count == count


async def test_upstream_that_cannot_be_reached_is_recorded(api, keys, recorder, player, call, library):
    await api.tool(library, "gone", {"url": "http://127.0.0.1:9/"})
    live = (await call(recorder, "gone", expect=502)).json()
    replayed = (await call(player, "gone", expect=502)).json()
    assert replayed["type"] == live["type"] == "urn:utcp-gateway:problem:upstream-unreachable"
    assert replayed["detail"] == live["detail"]


async def test_pages_are_one_recorded_result(api, library, recorder, player, upstream, call):
    pages = {"by": "page", "items": "/items", "argument": "page"}
    await api.tool(
        library,
        "pages",
        {"url": f"{upstream.url}/pages"},
        inputs={"type": "object", "properties": {"page": {"type": "integer"}}},
        override={"response_options": {"all_pages": pages}},
    )
    live = await call(recorder, "pages")
    assert live.json() == {"items": [1, 2, 3]}
    count = upstream.count
    replayed = await call(player, "pages")
    assert replayed.json() == live.json()
    assert replayed.headers["x-pages"] == live.headers["x-pages"]
    assert upstream.count == count == 4


async def test_changed_tool_is_a_warning_or_an_error(api, admin, recorder, player, call):
    await call(recorder, "search", q="sea")
    async with api.services.database.transaction() as session:
        await session.execute(
            text(
                "UPDATE tools SET inputs = inputs || '{\"description\": \"other\"}' WHERE name = 'library.search'"
            )
        )
        await record_change(session, kind="tool", object_id="library.search")
    await api.services.feed.catch_up()
    warned = await call(player, "search", q="sea")
    assert warned.headers["x-recording-warning"] == "definition-changed"
    await admin.patch("/recordings/r", json={"options": {"strict": True}})
    problem = (await call(player, "search", q="sea", expect=409)).json()
    assert problem["type"].endswith(":recording-outdated")


async def test_events_are_replayed_as_events_and_collected(recorder, player, upstream, call):
    accept = {"Accept": "text/event-stream"}
    live = await call(recorder, "events", q="3", headers=accept)
    replayed = await call(player, "events", q="3", headers=accept)
    assert events(replayed) == events(live)
    assert replayed.headers["x-call-source"] == "recording"
    collected = await call(player, "events", q="3", headers={"Accept": "application/json"})
    assert [one["n"] for one in collected.json()] == [0, 1, 2]
    assert upstream.count == 1


async def test_stream_of_a_plain_tool_is_replayed_in_each_form(recorder, player, upstream, call):
    live = await call(recorder, "stream", q="3")
    assert (await call(player, "stream", q="3")).content == live.content
    as_events = await call(player, "stream", q="3", headers={"Accept": "text/event-stream"})
    assert len(events(as_events)) == 3
    assert upstream.count == 1


async def test_stream_that_its_client_leaves_is_recorded_as_far_as_it_came(
    admin, recorder, player, upstream, call
):
    body = {"q": "100000"}
    headers = {"Accept": "text/event-stream"}
    async with recorder.stream("POST", "/tools/library.events/call", json=body, headers=headers) as response:
        async for line in response.aiter_lines():
            if line.startswith("data:"):
                break
    found = await until(lambda: one_interaction(admin))
    assert found["kind"] == "events"
    document = (await admin.get("/recordings/r/export")).json()
    assert document["interactions"][0]["response"]["is_cut"] is True
    assert events(await call(player, "events", q="100000", headers=headers))


async def one_interaction(admin):
    items = (await admin.get("/recordings/r/interactions")).json()["items"]
    return items[0] if items else None


async def until(read):
    """What `read` returns once it is not None."""
    for _ in range(500):
        found = await read()
        if found is not None:
            return found
        await asyncio.sleep(0.02)
    raise AssertionError("nothing was recorded")


def events(response):
    """The data of the events of a response, without those of the gateway."""
    found = []
    for block in response.text.replace("\r\n", "\n").split("\n\n"):
        lines = dict(line.partition(": ")[::2] for line in block.split("\n") if not line.startswith(":"))
        if "data" in lines and lines.get("event") is None:
            found.append(orjson.loads(lines["data"]))
    return found


async def test_argument_that_only_the_recording_gateway_knew_as_a_secret_matches(admin, keys, upstream, call):
    item = {
        "tool": "library.search", "arguments": {"q": "of *** and ***"}, "definition": "0" * 64,
        "recorded_at": "2026-01-01T00:00:00Z", "response": {"status": 200, "json": {"number": 7}},
    }  # fmt: skip
    assert (await admin.put("/recordings/file", json={"interactions": [item]})).status_code == 201
    player = await keys.make("replay", "file")
    assert (await call(player, "search", q="of one and another")).json() == {"number": 7}
    await call(player, "search", q="one and another", expect=409)
    assert upstream.count == 0
