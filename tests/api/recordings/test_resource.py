"""`/recordings`: the resource, its documents, its limits, and what of secrets is in it: nothing."""

import asyncio
from dataclasses import replace

import orjson
import pytest
from sqlalchemy import func, select, text

from app.calls.recordings.document import response_of
from app.calls.recordings.interactions import RecordingLimits
from app.storage.models import RecordedInteractionRow, RecordingRow, ReplayRunRow
from tests.api.recordings.conftest import OUTPUTS, OWN_SECRET, SECRET
from tests.harness.cases import for_each


@pytest.fixture
def bound(api):
    """Sets limits of recordings for one test."""
    store = api.services.recordings.store
    before = store.bounds, store.limits

    def bound(**limits):
        store.bounds = replace(store.bounds, **limits)
        store.limits = RecordingLimits(store.bounds.body_bytes, store.bounds.events)

    yield bound
    store.bounds, store.limits = before


async def test_recording_is_created_listed_changed_and_deleted(admin):
    made = await admin.post("/recordings", json={"name": "checkout", "description": "of the tests"})
    assert (made.status_code, made.headers["location"]) == (201, "/recordings/checkout")
    assert made.json()["options"] == {"ignored": [], "after_last": "repeat-last", "strict": False}
    assert (await admin.post("/recordings", json={"name": "checkout"})).status_code == 409
    listed = (await admin.get("/recordings?q=tests")).json()["items"]
    assert [one["name"] for one in listed] == ["checkout"]
    tag = made.headers["etag"]
    body = {"options": {"strict": True, "ignored": ["/at"]}}
    changed = await admin.patch("/recordings/checkout", json=body, headers={"If-Match": tag})
    assert changed.json()["options"] == {"ignored": ["/at"], "after_last": "repeat-last", "strict": True}
    assert changed.json()["description"] == "of the tests"
    assert (await admin.patch("/recordings/checkout", json={}, headers={"If-Match": tag})).status_code == 412
    assert (await admin.delete("/recordings/checkout", headers={"If-Match": tag})).status_code == 412
    assert (await admin.delete("/recordings/checkout")).status_code == 204
    assert (await admin.get("/recordings/checkout")).status_code == 404
    actions = [
        one["action"] for one in (await admin.get("/events?object_type=recording&sort=at")).json()["items"]
    ]
    assert actions == ["created", "updated", "deleted"]


async def test_interactions_are_listed_read_and_deleted(admin, recorder, call):
    await call(recorder, "search", q="sea", pin="pin-4711-pin")
    await call(recorder, "fail", q="404", expect=404)
    found = (await admin.get("/recordings/r/interactions")).json()["items"]
    assert [(one["tool"], one["kind"], one["status"]) for one in found] == [
        ("library.search", "body", 200), ("library.fail", "error", 404),
    ]  # fmt: skip
    assert found[0]["arguments"] == {"q": "sea", "pin": "***"}
    only = (await admin.get("/recordings/r/interactions?tool=library.fail")).json()["items"]
    assert [one["id"] for one in only] == [found[1]["id"]]
    shown = (await admin.get(f"/recordings/r/interactions/{found[0]['id']}")).json()
    # The bytes of the upstream are no compact JSON, so they are stored as text.
    assert orjson.loads(shown["response"]["text"])["q"] == "sea"
    path = f"/recordings/r/interactions/{found[0]['id']}"
    assert (await admin.delete(path)).status_code == 204
    assert (await admin.delete(path)).status_code == 404
    recording = (await admin.get("/recordings/r")).json()
    assert recording["interactions"] == 1


async def test_only_unrestricted_keys_with_the_scope_see_recordings(api, admin, recording):
    reader = await api.client("recordings:read")
    assert (await reader.get("/recordings/r/export")).status_code == 200
    assert (await reader.delete("/recordings/r")).status_code == 403
    writer = await api.client("recordings:write")
    assert (await writer.get("/recordings/r")).status_code == 403
    assert (await writer.post("/recordings/r/runs", json={})).status_code == 200
    for limits in ({"providers": ["library"]}, {"tags": ["public"]}):
        limited = await api.client("admin", **limits)
        for path in ("", "/r", "/r/export", "/r/interactions"):
            assert (await limited.get(f"/recordings{path}")).status_code == 403


async def test_exported_recording_replays_at_another_gateway(admin, keys, recorder, upstream, call):
    await call(recorder, "search", q="sea", limit=2)
    for _ in range(2):
        await call(recorder, "fail", q="422", expect=422)
    await call(recorder, "events", q="3", headers={"Accept": "text/event-stream"})
    exact = b'{"limit": 0.1000000000000000055511151231257827}'
    assert (await recorder.post("/tools/library.search/call", content=exact)).status_code == 200
    document = (await admin.get("/recordings/r/export")).content
    count = upstream.count
    # Another recording of another name has other ids: nothing of the document is bound to the first.
    imported = await admin.put(
        "/recordings/other", content=document, headers={"Content-Type": "application/json"}
    )
    assert (imported.status_code, imported.json()["interactions"]) == (201, 5)
    assert (await admin.get("/recordings/other/export")).json() == orjson.loads(document)
    again = await admin.put(
        "/recordings/other", content=document, headers={"Content-Type": "application/json"}
    )
    assert (again.status_code, again.json()["version"]) == (200, 2)
    player = await keys.make("replay", "other")
    assert (await call(player, "search", q="sea", limit=2)).json()["number"] == 1
    numbers = [(await call(player, "fail", q="422", expect=422)).json()["upstream_body"] for _ in range(2)]
    assert [one["detail"] for one in numbers] == ["no 2", "no 3"]
    streamed = await call(player, "events", q="3", headers={"Accept": "text/event-stream"})
    assert streamed.text.count('"n":') == 3
    assert (await player.post("/tools/library.search/call", content=exact)).status_code == 200
    assert upstream.count == count


async def test_replay_from_a_file_needs_no_upstream_at_all(
    api, admin, keys, recorder, upstream, call, library
):
    await call(recorder, "search", q="sea")
    document = (await admin.get("/recordings/r/export")).json()
    await admin.put("/recordings/ci", json=document)
    async with api.services.database.transaction() as session:
        await session.execute(
            text(
                "UPDATE tools SET call_template = jsonb_set(call_template, '{url}', '\"http://127.0.0.1:9/\"')"
            )
        )
    player = await keys.make("replay", "ci")
    replayed = await call(player, "search", q="sea")
    assert replayed.json()["number"] == 1
    # Its address is no part of what its callers know of a tool.
    assert "x-recording-warning" not in replayed.headers


@pytest.mark.parametrize(
    ("change", "pointer"),
    [
        ({"format": "utcp-gateway-recording/9"}, "/format"),
        ({"interactions": [{"tool": "a.b"}]}, "/interactions/0/definition"),
        ({"options": {"ignored": ["at"]}}, "/options/ignored/0"),
        ({"more": 1}, "/more"),
    ],
)
async def test_document_is_validated(admin, recorder, call, change, pointer):
    await call(recorder, "search", q="sea")
    before = (await admin.get("/recordings/r/export")).json()
    response = await admin.put("/recordings/r", json={**before, **change})
    assert response.status_code == 422, response.text
    assert pointer in [one["pointer"] for one in response.json()["errors"]]
    assert (await admin.get("/recordings/r/export")).json() == before


@for_each(
    "response",
    [
        {"status": 200},
        {"status": 200, "json": 1, "text": "1"},
        {"status": 200, "base64": "?"},
        {"text": "without a status"},
        {"status": 200, "events": [{"kind": "text"}]},
        {"error": {"slug": "upstream-rejected", "detail": "without a status"}},
        {"error": {"slug": "internal-error", "detail": "not of an upstream"}},
        {"status": 200, "json": 1, "media_type": "application/json\x0b"},
        {"status": 200, "json": 1, "media_type": "text/\u2028plain"},
        {"status": 200, "json": 1, "media_type": "text/plain; charset=\x7f"},
    ],
)
async def test_response_of_a_document_is_validated(admin, response):
    item = {
        "tool": "library.search", "arguments": {}, "definition": "0" * 64,
        "recorded_at": "2026-01-01T00:00:00Z", "response": response,
    }  # fmt: skip
    made = await admin.put("/recordings/new", json={"interactions": [item]})
    assert made.status_code == 422, made.text
    assert (await admin.get("/recordings/new")).status_code == 404


def test_a_stored_media_type_that_no_header_can_have_is_not_read():
    stored = {"status": 200, "json": 1, "media_type": "text/\u2028plain"}
    assert response_of(stored).media_type == ""
    assert response_of({**stored, "media_type": "text/plain"}).media_type == "text/plain"


@for_each("form", ["response", "error", "events"])
async def test_imported_headers_are_those_that_a_live_response_passes_on(admin, keys, recording, call, form):
    hostile = [
        ["Content-Type", "text/html"], ["X-Call-Id", "forged"], ["Clear-Site-Data", '"*"'], ["Set-Cookie", "a=1"],
        ["Content-Security-Policy", "default-src *"], ["Cache-Control", "public"], ["X-Cache", "HIT"],
        ["Idempotency-Replayed", "true"], ["X-Call-Source", "live"], ["Content-Encoding", "gzip"],
        ["Access-Control-Allow-Origin", "*"], ["Server-Timing", "forged"], ["X-Accel-Redirect", "/"],
    ]  # fmt: skip
    passed = [["Link", '<https://a.example/?page=2>; rel="next"'], ["X-RateLimit-Limit", "9"]]
    headers = [*hostile, *passed]
    error = {"slug": "upstream-rejected", "detail": "No.", "upstream_status": 418, "headers": headers}
    body = {"json": {"number": 1}} if form == "response" else {"events": [{"data": "1"}]}
    plain = {"status": 200, "media_type": "application/json", "headers": headers, **body}
    response = {"error": error} if form == "error" else plain
    item = {
        "tool": "library.search", "arguments": {"q": "sea"}, "definition": "0" * 64,
        "recorded_at": "2026-01-01T00:00:00Z", "response": response,
    }  # fmt: skip
    name = f"foreign-{form}"
    assert (await admin.put(f"/recordings/{name}", json={"interactions": [item]})).status_code == 201
    stored = (await admin.get(f"/recordings/{name}/export")).json()["interactions"][0]["response"]
    assert stored.get("error", stored)["headers"] == passed
    player = await keys.make("replay", name)
    replayed = await call(player, "search", q="sea", expect=418 if form == "error" else 200)
    assert len(replayed.headers.get_list("content-type")) == 1
    assert replayed.headers["link"] == passed[0][1]
    own = ("x-call-id", "x-call-source", "cache-control", "content-security-policy", "server-timing")
    shown = {name.lower(): value for name, value in hostile}
    found = {name: value for name, value in replayed.headers.multi_items() if shown.get(name) == value}
    assert not found, found
    assert all(len(replayed.headers.get_list(name)) <= 1 for name in own)


async def test_no_secret_is_in_an_exported_recording(api, admin, keys, recorder, upstream, library, call):
    provider = await api.provider("open", options={"mask_responses": False})
    for owner in (library, provider):
        await api.credential(owner, "key", "api_key", {"value": SECRET}, origins=[upstream.url])
    inputs = {
        "type": "object",
        "properties": {"pin": {"type": "string", "writeOnly": True}, "branch": {"type": "string"},
                       "api_key": {"type": "string"}, "note": {"type": "string"}},
    }  # fmt: skip
    security = [[{"slot": "key", "scopes": [], "in": "header", "name": "X-Key"}]]
    for owner, name in ((library, "echo"), (provider, "echo"), (library, "refused")):
        path = "fail" if name == "refused" else "echo"
        await api.tool(owner, name, {"url": f"{upstream.url}/{path}"}, inputs=inputs, security=security)
    presets = {"pin": "canary-of-the-preset-pin", "branch": "canary-of-the-preset-branch"}
    definition = {"providers": ["library"], "changes": {"library.echo": {"presets": presets}}}
    assert (await admin.put("/toolsets/desk", json={"definition": definition})).status_code == 201
    given = {"api_key": "canary-of-an-argument", "note": f"Bearer {OWN_SECRET}"}
    for path in (
        "/toolsets/desk/tools/library_echo/call",
        "/tools/open.echo/call",
        "/tools/library.refused/call",
    ):
        response = await recorder.post(path, json=given)
        assert response.headers.get("x-recording") == "stored", response.text
    assert upstream.count == 3
    document = (await admin.get("/recordings/r/export")).text
    for canary in (SECRET, OWN_SECRET, "canary-of-the-preset", "canary-of-an-argument"):
        assert canary not in document, document
    assert document.count('"tool"') == 3
    items = (await admin.get("/recordings/r/interactions")).json()["items"]
    seen = [(await admin.get(f"/recordings/r/interactions/{one['id']}")).text for one in items]
    assert not any("canary" in one for one in seen)
    async with api.services.database.read_session() as session:
        rows = (await session.scalars(select(RecordedInteractionRow))).all()
    for row in rows:
        assert b"canary" not in row.sealed_arguments + row.sealed_response
        assert b"number" not in row.sealed_response
    replayed = await (await keys.make("replay", "r")).post("/tools/open.echo/call", json=given)
    assert replayed.json()["access_token"] == "***"


async def test_sealed_interaction_opens_in_its_own_row_only(api, admin, recorder, player, call):
    await call(recorder, "search", q="sea")
    await call(recorder, "search", q="lake")
    async with api.services.database.transaction() as session:
        await session.execute(
            text(
                "UPDATE recorded_interactions SET sealed_response ="
                " (SELECT sealed_response FROM recorded_interactions WHERE position = 2) WHERE position = 1"
            )
        )
    problem = (await call(player, "search", q="sea", expect=500)).json()
    assert problem["type"].endswith(":seal-broken")


async def test_responses_beyond_the_limits_are_counted_and_live_calls_go_on(
    bound, admin, recorder, player, upstream, call
):
    bound(body_bytes=1_024, events=2, interactions=3)
    live = await call(recorder, "large", q="5000")
    assert (len(live.content), live.headers["x-recording"]) == (5000, "too-large")
    streamed = await call(recorder, "large", q="200000")
    assert len(streamed.content) == 200_000
    assert (await admin.get("/recordings/r")).json()["omitted"] == 2
    await call(player, "large", q="5000", expect=409)
    accept = {"Accept": "text/event-stream"}
    whole = await call(recorder, "events", q="5", headers=accept)
    assert whole.text.count('"n":') == 5
    cut = await call(player, "events", q="5", headers=accept)
    assert cut.text.count('"n":') == 2
    for number in range(3):
        response = await call(recorder, "search", q=f"q{number}")
    assert response.headers["x-recording"] == "full"
    recording = (await admin.get("/recordings/r")).json()
    assert (recording["interactions"], recording["omitted"]) == (3, 3)


async def test_document_beyond_the_limits_is_rejected(bound, admin):
    bound(body_bytes=1_024, interactions=2)
    item = {
        "tool": "library.search", "arguments": {}, "definition": "0" * 64,
        "recorded_at": "2026-01-01T00:00:00Z", "response": {"status": 200, "text": "x"},
    }  # fmt: skip
    assert (await admin.put("/recordings/n", json={"interactions": [item] * 3})).status_code == 422
    large = {**item, "response": {"status": 200, "text": "x" * 2_000}}
    response = await admin.put("/recordings/n", json={"interactions": [large]})
    assert response.json()["errors"][0]["pointer"] == "/interactions/0/response"


async def test_concurrent_calls_are_recorded_with_places_of_their_own(admin, recorder, call):
    await asyncio.gather(*(call(recorder, "search", q=f"q{number % 4}") for number in range(24)))
    document = (await admin.get("/recordings/r/interactions?limit=200")).json()
    assert sorted(one["position"] for one in document["items"]) == list(range(1, 25))
    assert (await admin.get("/recordings/r")).json()["interactions"] == 24


async def test_unused_recordings_and_runs_are_deleted(api, admin, recorder, player, call):
    for _ in range(2):
        await call(recorder, "search", q="sea")
    await call(player, "search", q="sea")
    store = api.services.recordings.store
    await store.sweep()
    async with api.services.database.transaction() as session:
        assert (await session.execute(select(func.count()).select_from(ReplayRunRow))).scalar_one() == 1
        for table in ("replay_runs", "recordings"):
            await session.execute(text(f"UPDATE {table} SET used_at = now() - interval '91 days'"))
    await store.sweep()
    async with api.services.database.read_session() as session:
        for table in (ReplayRunRow, RecordingRow, RecordedInteractionRow):
            assert (await session.execute(select(func.count()).select_from(table))).scalar_one() == 0
    events = (await admin.get("/events?object_type=recording")).json()["items"]
    assert events[0]["action"] == "expired"


async def test_recording_that_is_used_stays(api, admin, recorder, player, call):
    await call(recorder, "search", q="sea")
    async with api.services.database.transaction() as session:
        await session.execute(text("UPDATE recordings SET used_at = now() - interval '80 days'"))
    store = api.services.recordings.store
    store._known.clear()
    await call(player, "search", q="sea")
    async with api.services.database.read_session() as session:
        found = (
            await session.execute(text("SELECT used_at > now() - interval '1 minute' FROM recordings"))
        ).scalar_one()
    assert found


async def test_mocked_responses_fit_the_schema_and_are_the_same_for_a_seed(
    api, keys, library, upstream, call
):
    first, other = await keys.make("mock", seed=1), await keys.make("mock", seed=2)
    bodies = [(await call(client, "search", q="sea")).json() for client in (first, first, other)]
    assert bodies[0] == bodies[1] != bodies[2]
    assert isinstance(bodies[0]["number"], int)
    checked = await call(first, "search", q="sea", headers={"Prefer": "validate=json"})
    assert checked.headers["x-call-source"] == "mock"
    example = {"number": 42, "q": "of the document"}
    await api.tool(
        library, "stated", {"url": upstream.url}, inputs={}, outputs={**OUTPUTS, "examples": [example]}
    )
    assert (await call(first, "stated")).json() == example
    await api.tool(library, "unknown", {"url": upstream.url}, inputs={})
    assert (await call(first, "unknown")).json() == {}
    shape = {"xml": {"root": "book"}}
    spec = {
        "content_type": "application/xml",
        "schema": {"type": "object", "properties": {"title": {"type": "string"}}},
    }
    await api.tool(
        library, "xml", {"url": upstream.url, "parameters": [], "response": {**spec, **shape}}, inputs={}
    )
    mocked = await call(first, "xml")
    assert mocked.headers["content-type"] == "application/xml"
    assert mocked.text.startswith("<?xml")
    assert "<title>" in mocked.text
    text_spec = {"content_type": "text/plain", "schema": {"type": "string", "format": "email"}}
    await api.tool(library, "text", {"url": upstream.url, "parameters": [], "response": text_spec}, inputs={})
    assert (await call(first, "text", headers={"Accept": "text/plain"})).text.endswith("@example.com")
    assert upstream.count == 0
