"""A key that replays or mocks reaches no upstream, by whichever interface or toolset; and no outcome of one
mode is another's.
"""

import asyncio

import orjson
import pytest
from sqlalchemy import text

from app.catalog.feed import record_change
from app.outbound.resilience.outcomes import AttemptOutcome

MCP = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-11-25"}
DEFINITION = {"providers": ["library"], "changes": {"library.search": {"name": "find"}}}


def rpc(name, arguments):
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}


def model_call(name, arguments):
    function = {"name": name, "arguments": orjson.dumps(arguments).decode()}
    return {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function": function}]}


def requests_of(arguments, name="library_search", root=""):
    """The same call by each interface at one address: path, body and headers."""
    by_all = [
        (f"{root}/mcp", rpc(name, arguments), MCP),
        (f"{root}/mcp", rpc("call_tool", {"name": name, "arguments": arguments}), MCP),
        (f"{root}/mcp", rpc("call_read_tool", {"name": name, "arguments": arguments}), MCP),
        (f"{root}/tool-calls", model_call(name, arguments), {}),
        (f"{root}/tool-calls?stream=true", model_call(name, arguments), {}),
        (f"{root}/tools/{name}/call", arguments, {}),
        (f"{root}/tools/{name}/call", arguments, {"X-Call-Interface": "utcp"}),
        (f"{root}/tools/{name}/call", arguments, {"Prefer": "repair=on, decode=json"}),
        (f"{root}/tools/{name}/call", arguments, {"Accept": "text/event-stream"}),
        (f"{root}/tools/{name}/call", arguments, {"Idempotency-Key": f"k-{arguments['q']}"}),
    ]
    if not root:
        by_all.append(("/ubp/commands", {"commandName": name, "arguments": arguments}, {}))
    return by_all


@pytest.fixture
async def toolsets(admin, recording):
    modes = {"plain": None, "live": {"mode": "live"}, "taped": {"mode": "record", "recording": "r"},
             "played": {"mode": "replay", "recording": "r"}, "mocked": {"mode": "mock", "seed": 1}}  # fmt: skip
    for name, mode in modes.items():
        made = await admin.put(f"/toolsets/{name}", json={"definition": {**DEFINITION, "upstream": mode}})
        assert made.status_code == 201, made.text
    return modes


async def test_replay_by_every_interface_and_toolset(keys, toolsets, recorder, player, upstream, call):
    await call(recorder, "search", q="sea")
    for mode in ("replay", "mock"):
        client = player if mode == "replay" else await keys.make("mock")
        for root, name in (("", "library_search"), *((f"/toolsets/{one}", "find") for one in toolsets)):
            for path, body, headers in requests_of({"q": "sea"}, name, root):
                response = await client.post(path, json=body, headers=headers)
                assert response.status_code == 200, (mode, path, response.text)
                if mode == "replay":
                    assert '"number"' in response.text.replace("\\", ""), (path, response.text)
            for path, body, headers in requests_of({"q": "never"}, name, root):
                response = await client.post(path, json=body, headers=headers)
                assert response.status_code in (200, 409), (path, response.text)
    assert upstream.count == 1


async def test_every_interface_replays_the_same_result(recorder, player, upstream, call):
    await call(recorder, "search", q="sea")
    for path, body, headers in requests_of({"q": "sea"}):
        if "read_tool" not in str(body):
            response = await player.post(path, json=body, headers=headers)
            assert '"number":1' in response.text.replace("\\", "").replace(" ", ""), (path, response.text)
    assert upstream.count == 1


async def test_toolset_decides_for_keys_that_do_not_replay(keys, toolsets, upstream):
    plain = await keys.make()
    taping = await keys.make("record", "r")
    for client in (plain, taping):
        for toolset, source in (("played", None), ("mocked", "mock")):
            before = upstream.count
            response = await client.post(f"/toolsets/{toolset}/tools/find/call", json={"q": "unknown"})
            assert response.headers.get("x-call-source") == source, response.text
            assert response.status_code == (409 if source is None else 200)
            assert upstream.count == before
    response = await plain.post("/toolsets/taped/tools/find/call", json={"q": "sea"})
    assert response.headers["x-recording"] == "stored"
    response = await plain.post("/toolsets/played/tools/find/call", json={"q": "sea"})
    assert response.headers["x-call-source"] == "recording"
    assert upstream.count == 1


async def test_key_limited_to_a_toolset_replays_there(keys, toolsets, recorder, upstream, call):
    await call(recorder, "search", q="sea")
    limited = await keys.make("replay", "r", toolsets=["live"])
    response = await limited.post("/toolsets/live/tools/find/call", json={"q": "sea"})
    assert response.headers["x-call-source"] == "recording"
    assert (
        await limited.post("/toolsets/live/mcp", json=rpc("find", {"q": "x"}), headers=MCP)
    ).status_code == 200
    assert upstream.count == 1


async def test_approved_call_is_replayed(api, keys, admin, recorder, player, upstream, call):
    await call(recorder, "write", q="sea")
    await admin.patch("/tools/library.write", json={"requires_approval": True})
    waiting = await player.post(
        "/tools/library.write/call", json={"q": "sea"}, headers={"X-Recording-Run": "a"}
    )
    assert waiting.status_code == 202
    approved = await admin.post(f"{waiting.headers['location']}/approve")
    assert approved.json()["state"] == "executed", approved.text
    result = (await player.get(f"{waiting.headers['location']}/result")).json()
    assert result["json"]["number"] == 1
    assert upstream.count == 1


async def test_approval_of_a_replay_is_none_of_a_live_call(keys, admin, player, upstream):
    await admin.patch("/tools/library.write", json={"requires_approval": True})
    waiting = await player.post("/tools/library.write/call", json={"q": "sea"})
    changed = await admin.patch(f"/keys/{keys.ids[player]}", json={"upstream": None})
    assert changed.status_code == 200, changed.text
    approved = await admin.post(f"{waiting.headers['location']}/approve")
    assert approved.status_code == 409
    assert approved.json()["type"].endswith(":approval-outdated")
    assert upstream.count == 0


async def test_live_approval_of_an_idempotency_key_is_not_that_of_a_replay(keys, admin, player, upstream):
    await admin.patch("/tools/library.write", json={"requires_approval": True})
    sent = {"json": {"q": "sea"}, "headers": {"Idempotency-Key": "k"}}
    replayed = await player.post("/tools/library.write/call", **sent)
    await admin.patch(f"/keys/{keys.ids[player]}", json={"upstream": {"mode": "live"}})
    live = await player.post("/tools/library.write/call", **sent)
    assert live.headers["location"] != replayed.headers["location"]


async def test_idempotency_keys_of_modes_and_runs_are_apart(keys, admin, recorder, player, upstream, call):
    key = {"Idempotency-Key": "same"}
    for _ in range(2):
        await call(recorder, "write", q="sea")
    assert (await call(player, "write", q="sea", headers=key, run="a")).json()["number"] == 1
    repeated = await call(player, "write", q="sea", headers=key, run="a")
    assert (repeated.json()["number"], repeated.headers["idempotency-replayed"]) == (1, "true")
    assert repeated.headers["x-call-source"] == "recording"
    assert (await call(player, "write", q="sea", run="a")).json()["number"] == 2
    assert "idempotency-replayed" not in (await call(player, "write", q="sea", headers=key, run="b")).headers
    await admin.patch(f"/keys/{keys.ids[player]}", json={"upstream": None})
    live = await call(player, "write", q="sea", headers=key)
    assert (live.json()["number"], upstream.count) == (3, 3)
    assert "x-call-source" not in live.headers


async def test_replayed_error_is_stored_under_its_idempotency_key(recorder, player, call):
    for _ in range(2):
        await call(recorder, "fail", q="422", expect=422)
    key = {"Idempotency-Key": "same"}
    first = await call(player, "fail", q="422", headers=key, expect=422)
    repeated = await call(player, "fail", q="422", headers=key, expect=422)
    assert repeated.headers["idempotency-replayed"] == "true"
    assert repeated.json()["upstream_body"] == first.json()["upstream_body"]


async def test_response_cache_is_of_live_calls_only(api, keys, recorder, upstream, call):
    cached = await api.provider("cached", limits={"cache": {"seconds": 60, "default_seconds": 60}})
    inputs = {"type": "object", "properties": {"q": {"type": "string"}}}
    await api.tool(cached, "get", {"url": f"{upstream.url}/search"}, inputs=inputs)
    live = await keys.make()
    path, body = "/tools/cached.get/call", {"q": "sea"}
    assert (await live.post(path, json=body)).json()["number"] == 1
    taped = await recorder.post(path, json=body)
    assert (taped.json()["number"], "x-cache" in taped.headers) == (2, False)
    player = await keys.make("replay", "r")
    assert (await player.post(path, json=body)).json()["number"] == 2
    mocked = await (await keys.make("mock")).post(path, json=body)
    assert "x-cache" not in mocked.headers
    again = await live.post(path, json=body)
    assert (again.json()["number"], again.headers["x-cache"]) == (1, "hit")
    assert upstream.count == 2


async def test_no_credential_and_no_token_is_needed(api, keys, admin, upstream):
    provider = await api.provider("safe")
    needs = [[{"slot": "oauth", "scopes": []}]]
    await api.tool(provider, "get", {"url": f"{upstream.url}/search"}, security=needs)
    mocked = await keys.make("mock")
    assert (await mocked.post("/tools/safe.get/call", json={})).status_code == 200
    client = {"client_id": "a", "client_secret": "b-secret-b", "token_url": f"{upstream.url}/token"}
    await api.credential(
        provider, "oauth", "oauth2", {"client_secret": "b-secret-b"},
        origins=[upstream.url], public={key: client[key] for key in ("client_id", "token_url")},
    )  # fmt: skip
    assert (await mocked.post("/tools/safe.get/call", json={})).status_code == 200
    assert (upstream.count, upstream.tokens) == (0, 0)


async def test_replay_needs_no_permit_and_no_closed_breaker(api, keys, recorder, player, upstream, call):
    await call(recorder, "search", q="sea")
    plan = await api.services.catalog.plan("library.search")
    while not plan.upstream.breaker.is_tripped:
        permit = plan.upstream.try_acquire()
        plan.upstream.record_failure(permit, AttemptOutcome.FAILURE)
        plan.upstream.release(permit)
    await call(recorder, "search", q="sea", expect=503)
    await asyncio.gather(*(call(player, "search", q="sea") for _ in range(20)))
    assert plan.upstream.breaker.is_tripped
    assert upstream.count == 1


async def test_missing_recording_is_an_error_and_no_live_call(admin, keys, recorder, player, upstream, call):
    assert (await admin.delete("/recordings/r")).status_code == 204
    for client in (recorder, player):
        problem = (await call(client, "search", q="sea", expect=409)).json()
        assert problem["type"].endswith(":recording-not-found")
    assert upstream.count == 0


async def test_mode_of_a_later_release_reaches_nothing(api, keys, upstream, call):
    client = await keys.make()
    async with api.services.database.transaction() as session:
        await session.execute(
            text('UPDATE keys SET upstream = \'{"mode": "simulate"}\' WHERE key_id = :id'),
            {"id": keys.ids[client]},
        )
        await record_change(session, kind="key", object_id=keys.ids[client])
    await api.services.feed.catch_up()
    await call(client, "search", q="sea", expect=409)
    assert upstream.count == 0


async def test_key_that_replays_can_make_no_live_key(admin, keys, recording):
    manager = await keys.make("replay", "r", scopes=("keys:manage", "tools:call"))
    own = keys.ids[manager]
    body = {"name": "x", "scopes": ["tools:call"]}
    assert (await manager.post("/keys", json=body)).status_code == 403
    live = {**body, "upstream": {"mode": "record", "recording": "r"}}
    assert (await manager.post("/keys", json=live)).status_code == 403
    assert (await manager.patch(f"/keys/{own}", json={"upstream": None})).status_code == 403
    made = await manager.post("/keys", json={**body, "upstream": {"mode": "mock"}})
    assert made.status_code == 201
    assert (await manager.patch(f"/keys/{made.json()['id']}", json={"upstream": None})).status_code == 403
    rotated = await manager.post(f"/keys/{own}/rotate", json={})
    assert rotated.json()["upstream"] == {"mode": "replay", "recording": "r", "seed": 0}


async def test_key_names_a_recording_that_exists(admin):
    body = {"name": "x", "scopes": ["tools:call"], "upstream": {"mode": "replay", "recording": "none"}}
    response = await admin.post("/keys", json=body)
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "/upstream/recording"
    for mode in (
        {"mode": "replay"},
        {"mode": "live", "recording": "r"},
        {"mode": "record", "recording": "r", "seed": 1},
    ):
        response = await admin.post("/keys", json={**body, "upstream": mode})
        assert response.status_code == 422, response.text


async def test_dry_run_sends_nothing_and_direct_mode_is_denied(player, upstream):
    preview = await player.post("/tools/library.search/call?dry_run=true", json={"q": "sea"})
    assert preview.json()["method"] == "GET"
    denied = await player.get("/utcp?mode=direct")
    assert denied.status_code == 403
    assert upstream.count == 0


async def test_records_statistics_and_explanation_say_so(api, admin, keys, recorder, player, call):
    await call(recorder, "search", q="sea")
    await call(player, "search", q="sea")
    await call(await keys.make("mock"), "search", q="sea")
    await call(player, "search", q="none", expect=409)
    await api.services.call_log.flush()
    items = (await admin.get("/calls?sort=at")).json()["items"]
    assert [one["source"] for one in items] == ["upstream", "recording", "mock", "recording"]
    assert [one["attempts"] for one in items] == [1, 0, 0, 0]
    assert [one["outcome"] for one in items] == ["ok", "ok", "ok", "not-recorded"]
    only = (await admin.get("/calls?source=mock")).json()["items"]
    assert [one["source"] for one in only] == ["mock"]
    stats = (await admin.get("/stats?by=source")).json()
    assert {one["value"]: one["totals"]["calls"] for one in stats["series"]} == {
        "upstream": 1, "recording": 2, "mock": 1,
    }  # fmt: skip
    filtered = (await admin.get("/stats?source=recording")).json()
    assert filtered["totals"]["calls"] == 2
    found = (await player.get("/explain?tool=library.search")).json()
    assert found["upstream"] == {"mode": "replay", "recording": "r", "seed": 0}
    assert found["may_call"] is True


HARD_TO_MOCK = {
    "huge_integer": (
        {"properties": {"n": {"type": "integer", "minimum": 1e25}}, "required": ["n"]},
        "1000000",
    ),
    "endless": (
        {"properties": {"l": {"$ref": "#"}, "r": {"$ref": "#"}}, "required": ["l", "r"]},
        "requires more than a mocked response may have",
    ),
}


async def test_mocks_of_any_schema_are_a_result_or_a_clear_error_on_every_interface(
    api, keys, library, upstream
):
    mocked = await keys.make("mock")
    for name, (outputs, expected) in HARD_TO_MOCK.items():
        template = {"url": f"{upstream.url}/search"}
        await api.tool(
            library, name, template, inputs={"type": "object"}, outputs={"type": "object", **outputs}
        )
        for path, body, headers in requests_of({"q": name}, f"library_{name}"):
            response = await mocked.post(path, json=body, headers=headers)
            assert response.status_code in (200, 409), (path, response.text)
            is_refused = "call_read_tool" in str(body)
            assert is_refused or expected in response.text, (path, response.text)
            assert "internal-error" not in response.text, (path, response.text)
    assert upstream.count == 0


async def test_inputs_that_a_validator_would_follow_without_end_are_refused_at_once(
    api, keys, library, upstream
):
    steps = {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
    inputs = {"type": "object", "allOf": [{"$ref": "#/$defs/a0"}], "$defs": {**steps, "a40": {}}}
    await api.tool(library, "endless_inputs", {"url": f"{upstream.url}/search"}, inputs=inputs)
    client = await keys.make()
    response = await client.post("/tools/library.endless_inputs/call", json={"q": "sea"})
    assert response.status_code == 422, response.text
    assert "too long to validate" in response.json()["detail"]
    assert response.json()["errors"][0]["pointer"] == "/inputs"
    listed = await client.post("/mcp", json={"jsonrpc": "2.0", "id": 1, "method": "tools/list"}, headers=MCP)
    assert listed.status_code == 200, listed.text
    assert "endless_inputs" not in listed.text
    assert upstream.count == 0
