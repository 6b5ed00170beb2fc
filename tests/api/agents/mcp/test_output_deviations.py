"""Results that deviate from a published output schema are counted, and the third withdraws the schema."""

import asyncio
import json
from dataclasses import dataclass
from datetime import timedelta

import pytest
from aiohttp import web
from sqlalchemy import delete, event, select
from sqlmodel import col

from app.agents.mcp.tool_lists import VALIDATED_AFTER_WITHDRAWAL
from app.providers.registration.output_deviations import MAX_DEVIATIONS
from app.providers.registration.repository import restore_overrides, retain_overrides
from app.storage.models import (
    Override,
    Provider,
    RetainedOverride,
    Tool,
    now,
)
from tests.api.agents.mcp.test_streams import listening, next_message
from tests.harness.application import run_application
from tests.harness.beside import web_server
from tests.harness.mcp_requests import McpClient

OUTPUTS = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
GOOD = b'{"a": 1}'
BAD = b'{"a": "one"}'
PATH = "/tools/site.tool"


@dataclass
class Site:
    """An upstream whose response is `body`."""

    url: str
    body: bytes = GOOD


@pytest.fixture
async def site():
    async def respond(_request):
        return web.Response(body=found.body, content_type="application/json")

    application = web.Application()
    application.router.add_get("/", respond)
    async with web_server(application) as url:
        found = Site(url)
        yield found


@pytest.fixture
async def tool(api, site):
    """A tool that publishes its output schema."""
    row = await api.provider("site")
    override = {"publish_output_schema": True}
    return await api.tool(row, "tool", {"url": f"{site.url}/"}, outputs=OUTPUTS, override=override)


@pytest.fixture
async def admin(api):
    return await api.client("tools:read", "tools:call", "providers:read", "providers:write", "calls:read")


@pytest.fixture
def call(api, mcp, tool):
    """Calls the tool, waits until a deviation is counted, and returns the result."""

    async def make(**params):
        params = {"name": "site_tool"} | params
        result = (await mcp.modern("tools/call", params)).json()["result"]
        await api.services.output_deviations.flush()
        return result

    return make


async def listed(client):
    tools = (await client.modern("tools/list")).json()["result"]["tools"]
    return next(one for one in tools if one["name"] == "site_tool")


async def stored(api, tool):
    async with api.services.database.read_session() as session:
        query = select(Override).where(col(Override.tool_id) == tool.id)
        return (await session.execute(query)).scalar_one_or_none()


async def change(api, statement):
    async with api.services.database.transaction() as session:
        await session.execute(statement)


async def withdraw(call, site):
    site.body = BAD
    for _ in range(MAX_DEVIATIONS):
        assert (await call())["isError"] is True


async def test_the_third_deviation_withdraws_the_schema(api, mcp, admin, call, site, tool):
    site.body = BAD
    for _ in range(MAX_DEVIATIONS - 1):
        assert "/a" in (await call())["content"][0]["text"]
    assert "outputSchema" in await listed(mcp)
    before = (await admin.get(PATH)).json()
    assert (before["publish_output_schema"], before["output_schema_withdrawn_at"]) == (True, None)
    async with listening(mcp.http) as (found, _):
        await call()
        assert (await next_message(found))["method"] == "notifications/tools/list_changed"
    assert "outputSchema" not in await listed(mcp)
    after = (await admin.get(PATH)).json()
    assert after["publish_output_schema"] is False
    assert after["output_schema_withdrawn_at"] is not None
    assert after["version"] == before["version"] + 1
    entry = (await admin.get(f"{PATH}/history")).json()["items"][0]
    assert (entry["actor"], entry["action"]) == ("gateway", "overridden")
    assert [(one["field"], one["after"]) for one in entry["changes"]] == [("publish_output_schema", False)]
    logged = (await admin.get("/events", params={"object_name": "site.tool"})).json()["items"]
    assert [(one["actor"], one["action"]) for one in logged] == [("gateway", "updated")]


async def test_deviations_and_withdrawals_are_metrics(api, call, site):
    before = api.services.output_deviations.observed, api.services.output_deviations.withdrawn
    await withdraw(call, site)
    client = await api.client("metrics:read")
    text = (await client.get("/metrics")).text
    assert f"utcp_gateway_output_schema_deviations_total {before[0] + MAX_DEVIATIONS}" in text
    assert f"utcp_gateway_output_schemas_withdrawn_total {before[1] + 1}" in text


async def test_a_schema_that_is_published_again_has_a_new_count(api, mcp, admin, call, site, tool):
    await withdraw(call, site)
    again = await admin.patch(PATH, json={"publish_output_schema": True})
    assert again.json()["output_schema_withdrawn_at"] is None
    for _ in range(MAX_DEVIATIONS - 1):
        await call()
    assert "outputSchema" in await listed(mcp)
    await call()
    assert "outputSchema" not in await listed(mcp)


async def test_a_batch_publishes_a_withdrawn_schema_again(api, mcp, admin, call, site, tool):
    await withdraw(call, site)
    patch = {"tool": "site.tool", "patch": {"publish_output_schema": True}}
    changed = await admin.post("/tools:batch", json={"operations": [patch]})
    assert changed.json()["counts"]["changed"] == 1
    assert "outputSchema" in await listed(mcp)
    assert (await stored(api, tool)).output_deviations == 0


async def test_other_changes_of_a_tool_leave_the_count(api, admin, call, site, tool):
    site.body = BAD
    await call()
    await admin.patch(PATH, json={"description": "Reads."})
    assert (await stored(api, tool)).output_deviations == 1


async def test_results_are_validated_for_a_day_after_the_withdrawal(api, call, site, tool):
    """Clients that have an old list raise for a deviating result, and for one without structured content."""
    await withdraw(call, site)
    deviating = await call()
    assert deviating["isError"] is True
    assert "structuredContent" not in deviating
    large = {"a": 1, "text": "x" * 70_000}
    site.body = json.dumps(large).encode()
    assert len(site.body) > api.services.settings.mcp_structured_max
    assert (await call())["structuredContent"] == large
    assert (await stored(api, tool)).output_deviations == MAX_DEVIATIONS


async def test_results_are_not_validated_when_old_lists_are_gone(api, admin, call, site, tool):
    await withdraw(call, site)
    ended = now() - VALIDATED_AFTER_WITHDRAWAL - timedelta(seconds=1)
    async with api.services.database.transaction() as session:
        (await session.get(Override, tool.id)).output_schema_withdrawn_at = ended
    # Makes the workers read the tool again.
    await admin.patch(PATH, json={"tags": ["x"]})
    result = await call()
    assert (result["isError"], result["structuredContent"]) == (False, {"a": "one"})


async def test_valid_results_write_nothing(api, call, site, tool):
    statements = []

    def note(_connection, _cursor, statement, *_rest):
        statements.append(statement)

    await call()
    engine = api.services.database.engine.sync_engine
    event.listen(engine, "before_cursor_execute", note)
    try:
        for _ in range(3):
            assert (await call())["isError"] is False
    finally:
        event.remove(engine, "before_cursor_execute", note)
    assert [one for one in statements if "overrides" in one] == []


async def test_a_result_that_is_cut_is_an_error_but_no_deviation(api, call, site, tool):
    site.body = json.dumps({"a": 1, "text": "x" * 200_000}).encode()
    for _ in range(MAX_DEVIATIONS):
        result = await call()
        assert result["isError"] is True
        assert "was cut" in result["content"][0]["text"]
    assert (await stored(api, tool)).output_deviations == 0


async def test_a_replayed_result_is_not_counted_again(api, call, site, tool):
    site.body = BAD
    meta = {"utcp-gateway/idempotencyKey": "one"}
    key = {"Idempotency-Key": "one"}
    client = McpClient(await api.client())
    params = {"name": "site_tool"}
    first, again = [await client.modern("tools/call", params, headers=key, meta=meta) for _ in range(2)]
    assert first.headers["x-call-id"] == again.headers["x-call-id"]
    assert again.json()["result"]["isError"] is True
    await api.services.output_deviations.flush()
    assert (await stored(api, tool)).output_deviations == 1


async def test_deviations_by_a_meta_tool_are_counted(api, call, site, tool):
    site.body = BAD
    found = await call(name="call_read_tool", arguments={"name": "site_tool", "arguments": {}})
    assert found["isError"] is True
    assert (await stored(api, tool)).output_deviations == 1


async def test_another_schema_has_a_new_count(api, mcp, call, site, tool):
    site.body = BAD
    for _ in range(MAX_DEVIATIONS - 1):
        await call()
    async with api.services.database.transaction() as session:
        (await session.get(Tool, tool.id)).outputs = OUTPUTS | {"title": "Changed"}
    # The worker has not read it yet: its deviation is one from the schema before.
    await call()
    assert (await stored(api, tool)).output_deviations == MAX_DEVIATIONS - 1
    admin = await api.client("tools:read", "providers:write")
    await admin.patch(PATH, json={"tags": ["x"]})
    assert (await listed(mcp))["outputSchema"]["title"] == "Changed"
    await call()
    assert (await stored(api, tool)).output_deviations == 1
    assert "outputSchema" in await listed(mcp)


async def test_a_schema_that_is_no_longer_published_has_no_count(api, call, site, tool):
    await call()
    # The worker has not read this yet.
    async with api.services.database.transaction() as session:
        (await session.get(Override, tool.id)).publish_output_schema = False
    site.body = BAD
    assert (await call())["isError"] is True
    assert (await stored(api, tool)).output_deviations == 0


async def test_the_count_of_a_tool_that_was_deleted_is_lost(api, site, tool):
    await change(api, delete(Tool).where(col(Tool.id) == tool.id))
    deviations = api.services.output_deviations
    deviations.report(tool.id, b"{}")
    await deviations.flush()
    assert await stored(api, tool) is None


async def test_a_withdrawal_is_retained_while_the_source_does_not_have_the_tool(api, call, site, tool):
    await withdraw(call, site)
    before = await stored(api, tool)
    async with api.services.database.transaction() as session:
        found = await session.get_one(Tool, tool.id)
        await retain_overrides(session, [found])
        await session.delete(found)
        await session.flush()
        retained = (await session.execute(select(RetainedOverride))).scalar_one()
        assert retained.output_schema_withdrawn_at == before.output_schema_withdrawn_at
        fields = {name: getattr(tool, name) for name in ("name", "alias", "source_key", "inputs", "outputs")}
        again = Tool(provider_id=tool.provider_id, call_template=tool.call_template, **fields)
        session.add(again)
        await session.flush()
        await restore_overrides(session, await session.get_one(Provider, tool.provider_id))
    after = await stored(api, again)
    names = ("publish_output_schema", "output_deviations", "deviations_schema", "output_schema_withdrawn_at")
    assert {name: getattr(after, name) for name in names} == {name: getattr(before, name) for name in names}


async def test_two_workers_count_each_deviation_once(api, admin, mcp, site, tool):
    async with run_application(api.services.settings) as other:
        services = [api.services, other.services]
        clients = [mcp, McpClient(await other.client("tools:read", "tools:call"))]

        async def deviate(number):
            calls = [clients[one % 2].modern("tools/call", {"name": "site_tool"}) for one in range(number)]
            for response in await asyncio.gather(*calls):
                assert response.json()["result"]["isError"] is True
            for one in services:
                await one.output_deviations.flush()

        site.body = BAD
        for _ in range(5):
            await deviate(MAX_DEVIATIONS - 1)
            assert (await stored(api, tool)).output_deviations == MAX_DEVIATIONS - 1
            await admin.patch(PATH, json={"publish_output_schema": True})
            await other.services.feed.catch_up()
        version = (await admin.get(PATH)).json()["version"]
        before = sum(one.output_deviations.withdrawn for one in services)
        async with listening(mcp.http) as (here, _), listening(clients[1].http) as (there, _):
            await deviate(12)
            for found in (here, there):
                assert (await next_message(found))["method"] == "notifications/tools/list_changed"
        assert sum(one.output_deviations.withdrawn for one in services) == before + 1
        assert (await admin.get(PATH)).json()["version"] == version + 1
        for client in clients:
            assert "outputSchema" not in await listed(client)
