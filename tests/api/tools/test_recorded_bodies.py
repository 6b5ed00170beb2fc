"""Bodies of calls are recorded only where a setting says so, sealed, and read with a scope of their own."""

from contextlib import AsyncExitStack

import pytest
from sqlalchemy import text

from app.calls.log.bodies import BodyRecorder


@pytest.fixture
async def record_bodies(api):
    """Returns a client of a gateway that records these bodies."""
    async with AsyncExitStack() as stack:

        async def configure(policy, max_bytes=1000):
            recorder = BodyRecorder(api.services.vault, policy=policy, max_bytes=max_bytes)
            running = await stack.enter_async_context(api.with_services(calls={"bodies": recorder}))
            return await running.client()

        yield configure


@pytest.fixture
async def tools(api, upstream):
    provider = await api.provider("recorded")
    free = {"type": "object", "additionalProperties": True}
    for name, path in (
        ("echo", "/x"),
        ("reject", "/respond/422/problem"),
        ("drip", "/drip?count=40&pause=0"),
    ):
        template = {"url": f"{upstream.url}{path}", "http_method": "GET" if name == "drip" else "POST"}
        if name == "echo":
            template["body_field"] = "body"
        await api.tool(provider, name, template, inputs=free)
    return await api.client()


async def rows(api):
    await api.services.call_log.flush()
    async with api.services.database.read_session() as session:
        found = await session.execute(
            text("SELECT id, arguments, result FROM calls WHERE provider = 'recorded'")
        )
        return {str(row.id): row for row in found}


async def bodies(api, call_id, *scopes, **limits):
    reader = await api.client(*(scopes or ("calls:bodies",)), **limits)
    return await reader.get(f"/calls/{call_id}/bodies")


async def test_no_body_is_recorded_by_default(api, tools):
    made = await tools.post("/tools/recorded.echo/call", json={"body": {"secret": "canary"}})
    row = (await rows(api))[made.headers["x-call-id"]]
    assert (row.arguments, row.result) == (None, None)
    assert (await bodies(api, made.headers["x-call-id"])).status_code == 404


async def test_recorded_arguments_and_responses_are_sealed_and_opened(api, tools, record_bodies):
    tools = await record_bodies("all")
    made = await tools.post("/tools/recorded.echo/call", json={"body": {"secret": "canary"}})
    call_id = made.headers["x-call-id"]
    row = (await rows(api))[call_id]
    assert b"canary" not in row.arguments
    assert b"canary" not in row.result
    found = (await bodies(api, call_id)).json()
    assert found["arguments"]["text"] == '{"body":{"secret":"canary"}}'
    assert found["result"]["text"] == made.text
    assert found["result"]["media_type"].startswith("application/json")
    assert (found["result"]["bytes"], found["result"]["truncated"]) == (len(made.content), False)


async def test_every_access_is_recorded_as_an_event(api, tools, record_bodies):
    tools = await record_bodies("all")
    made = await tools.post("/tools/recorded.echo/call", json={"body": 1})
    call_id = made.headers["x-call-id"]
    await api.services.call_log.flush()
    for _ in range(2):
        assert (await bodies(api, call_id)).status_code == 200
    async with api.services.database.read_session() as session:
        found = await session.execute(
            text("SELECT actor, action, detail FROM events WHERE object_type = 'call' AND object_name = :id"),
            {"id": call_id},
        )
        events = found.all()
    assert [event.action for event in events] == ["read", "read"]
    assert {event.detail["tool"] for event in events} == {"recorded.echo"}
    assert len({event.actor for event in events}) == 2


async def test_only_keys_with_the_scope_and_within_their_limits_read_them(api, tools, record_bodies):
    tools = await record_bodies("all")
    made = await tools.post("/tools/recorded.echo/call", json={"body": 1})
    call_id = made.headers["x-call-id"]
    await api.services.call_log.flush()
    assert (await bodies(api, call_id, "calls:read", "tools:call")).status_code == 403
    assert (await bodies(api, call_id, providers=["other"])).status_code == 404
    assert (await bodies(api, call_id, providers=["recorded"])).status_code == 200


async def test_with_errors_only_bodies_of_failed_calls_are_recorded(api, tools, record_bodies):
    tools = await record_bodies("errors")
    good = await tools.post("/tools/recorded.echo/call", json={"body": 1})
    bad = await tools.post("/tools/recorded.reject/call", json={"why": "me"})
    assert bad.status_code == 422
    stored = await rows(api)
    assert stored[good.headers["x-call-id"]].arguments is None
    found = (await bodies(api, bad.headers["x-call-id"])).json()
    assert found["arguments"]["text"] == '{"why":"me"}'
    assert "no" in found["result"]["text"]


async def test_the_beginning_of_a_long_response_is_recorded(api, tools, record_bodies):
    tools = await record_bodies("all", max_bytes=300)
    made = await tools.post("/tools/recorded.drip/call", json={})
    assert len(made.content) == 400
    await api.services.call_log.flush()
    result = (await bodies(api, made.headers["x-call-id"])).json()["result"]
    assert (result["text"], result["bytes"], result["truncated"]) == ("x" * 300, 400, True)


async def test_bodies_of_one_call_do_not_open_in_another(api, tools, record_bodies):
    tools = await record_bodies("all")
    ids = [
        (await tools.post("/tools/recorded.echo/call", json={"body": n})).headers["x-call-id"]
        for n in range(2)
    ]
    await rows(api)
    async with api.services.database.transaction() as session:
        await session.execute(
            text(
                "UPDATE calls SET arguments = other.arguments FROM calls other WHERE calls.id = :a AND other.id = :b"
            ),
            {"a": ids[0], "b": ids[1]},
        )
    response = await bodies(api, ids[0])
    assert response.status_code == 500
    assert response.json()["type"].endswith("seal-broken")
    assert (await bodies(api, ids[1])).status_code == 200
