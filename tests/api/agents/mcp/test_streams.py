"""Responses as events, cancellation, and subscriptions to changes of the list."""

import asyncio
import json
import random
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest
from aiohttp import web

from app.agents.mcp.subscriptions import ListSubscriptions
from tests.harness.beside import web_server
from tests.harness.mcp_requests import CAPABILITIES_KEY, MODERN, VERSION_KEY, McpClient, error_of

META = {VERSION_KEY: MODERN, CAPABILITIES_KEY: {}}
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def request_of(method, params, *, request_id=1, meta=None):
    headers = {
        "Content-Type": "application/json",
        "Accept": "application/json, text/event-stream",
        "MCP-Protocol-Version": MODERN,
        "Mcp-Method": method,
    }
    if "name" in params:
        headers["Mcp-Name"] = params["name"]
    body = {
        "jsonrpc": "2.0",
        "id": request_id,
        "method": method,
        "params": {**params, "_meta": META | (meta or {})},
    }
    return {"content": json.dumps(body), "headers": headers}


async def messages(response):
    """Yield the messages of a response of events."""
    async for line in response.aiter_lines():
        if line.startswith("data: "):
            yield json.loads(line[6:])


@asynccontextmanager
async def listening(http, path="/mcp", wanted=None, request_id="sub-1"):
    """Open a subscription; yield its messages after the acknowledgement, and that itself."""
    params = {"notifications": {"toolsListChanged": True} if wanted is None else wanted}
    async with http.stream(
        "POST", path, **request_of("subscriptions/listen", params, request_id=request_id)
    ) as (response):
        assert response.status_code == 200
        assert response.headers["content-type"] == "text/event-stream"
        found = messages(response)
        yield found, await anext(found)


async def next_message(found, seconds=10):
    async with asyncio.timeout(seconds):
        return await anext(found)


@pytest.fixture
async def counting():
    """An upstream that sends three server-sent events."""

    async def count(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for number in range(3):
            await response.write(f'data: {{"step": {number}}}\n\n'.encode())
            await asyncio.sleep(0.05)
        return response

    application = web.Application()
    application.router.add_get("/count", count)
    async with web_server(application) as url:
        yield url


async def test_events_of_the_upstream_are_progress_where_the_client_asks_for_it(api, mcp, counting):
    row = await api.provider("counter")
    await api.tool(row, "count", {"url": f"{counting}/count"})
    params = {"name": "counter_count"}
    call = request_of("tools/call", params, meta={"progressToken": "token-1"})
    async with mcp.http.stream("POST", "/mcp", **call) as response:
        assert response.headers["content-type"] == "text/event-stream"
        assert response.headers["x-accel-buffering"] == "no"
        *progress, result = [one async for one in messages(response)]
    assert [one["method"] for one in progress] == ["notifications/progress"] * 3
    assert [one["params"]["progress"] for one in progress] == [1, 2, 3]
    assert {one["params"]["progressToken"] for one in progress} == {"token-1"}
    assert [json.loads(one["params"]["message"]) for one in progress] == [{"step": n} for n in range(3)]
    assert result["id"] == 1
    assert result["result"]["isError"] is False
    plain = await mcp.modern("tools/call", params)
    assert plain.headers["content-type"] == "application/json"
    assert plain.json()["result"]["content"] == result["result"]["content"]


async def test_a_slow_call_is_sent_as_events_after_some_time(api, upstream):
    # Ten seconds are too long for a test.
    assert api.application.mcp.slow_seconds == 10
    row = await api.provider("site")
    await api.tool(row, "slow", {"url": f"{upstream.url}/in-two-parts"})
    call = request_of("tools/call", {"name": "site_slow"})
    async with (
        api.with_services(mcp=replace(api.application.mcp, slow_seconds=0.1)) as quick,
        (await quick.client()).stream("POST", "/mcp", **call) as response,
    ):
        assert response.headers["content-type"] == "text/event-stream"
        lines = response.aiter_lines()
        assert await anext(lines) == ": keep-alive"
        upstream.second_part.set()
        rest = [line async for line in lines if line.startswith("data: ")]
    (result,) = [json.loads(line[6:]) for line in rest]
    assert result["result"]["content"] == [{"type": "text", "text": "x" * 30}]


async def test_a_modern_client_cancels_by_closing_its_connection(api, mcp, upstream):
    row = await api.provider("site")
    await api.tool(row, "slow", {"url": f"{upstream.url}/slow"})
    call = request_of("tools/call", {"name": "site_slow"})
    sending = asyncio.create_task(mcp.http.post("/mcp", **call))
    await upstream.arrived.wait()
    sending.cancel()
    await upstream.left.wait()
    assert (await api.recorded_call())["outcome"] == "cancelled"


async def test_a_legacy_client_that_leaves_does_not_cancel_its_call(api, mcp, upstream):
    row = await api.provider("site")
    await api.tool(row, "slow", {"url": f"{upstream.url}/in-two-parts"})
    sending = asyncio.create_task(mcp.legacy("tools/call", {"name": "site_slow"}))
    await asyncio.sleep(0.3)
    sending.cancel()
    await asyncio.sleep(0.3)
    upstream.second_part.set()
    record = await api.recorded_call()
    assert (record["outcome"], record["response_bytes"]) == ("ok", 30)


async def test_a_subscription_tells_of_changes_of_the_list(api, mcp, library):
    async with listening(mcp.http) as (found, acknowledged):
        assert acknowledged == {
            "jsonrpc": "2.0",
            "method": "notifications/subscriptions/acknowledged",
            "params": {"_meta": {SUBSCRIPTION: "sub-1"}, "notifications": {"toolsListChanged": True}},
        }
        await api.tool(library, "another", {})
        assert await next_message(found) == {
            "jsonrpc": "2.0",
            "method": "notifications/tools/list_changed",
            "params": {"_meta": {SUBSCRIPTION: "sub-1"}},
        }
        names = [tool["name"] for tool in (await mcp.modern("tools/list")).json()["result"]["tools"]]
        assert "library_another" in names


async def test_a_subscription_does_not_tell_of_what_its_key_does_not_see(api, mcp, library):
    limited = await api.client("tools:read", providers={"other"})
    async with listening(limited) as (found, _), listening(mcp.http) as (all_of_them, _):
        await api.tool(library, "another", {})
        await next_message(all_of_them)
        other = await api.provider("other")
        await api.tool(other, "one", {})
        await next_message(all_of_them)
        # The first message is that of its own change: there was none before.
        assert (await next_message(found))["method"] == "notifications/tools/list_changed"
        with pytest.raises(TimeoutError):
            await next_message(found, seconds=1.5)


async def listed_names(mcp):
    return {tool["name"] for tool in (await mcp.modern("tools/list")).json()["result"]["tools"]}


async def test_a_client_that_lists_after_each_notification_ends_with_the_final_list(api, mcp, library):
    """Wherever changes fall between its list and its subscription."""

    async def run(client, random_, provider):
        final = {f"{provider.name}_{number}" for number in range(3)}
        listed = await listed_names(client)

        async def change():
            for number in range(3):
                await asyncio.sleep(random_.random() * 0.1)
                await api.tool(provider, str(number), {})

        changing = asyncio.create_task(change())
        await asyncio.sleep(random_.random() * 0.3)
        async with listening(client.http) as (found, _):
            while not listed >= final:
                assert (await anext(found))["method"] == "notifications/tools/list_changed"
                listed = await listed_names(client)
        await changing
        assert listed == final

    async with asyncio.timeout(60), asyncio.TaskGroup() as tasks:
        for number in range(12):
            provider = await api.provider(f"changed{number}")
            limits = {"providers": {provider.name}, "seconds": 60}
            client = McpClient(await api.application.client("tools:read", **limits))
            tasks.create_task(run(client, random.Random(number), provider))


async def test_a_subscription_begins_with_a_notification_only_after_another_list(api, mcp, library):
    await listed_names(mcp)
    async with listening(mcp.http) as (found, _):
        await api.tool(library, "another", {})
        await next_message(found)
    async with listening(mcp.http) as (found, _):
        # What the client had listed before is not what there is now.
        assert (await next_message(found))["method"] == "notifications/tools/list_changed"
    other = McpClient(await api.client("tools:read"))
    await listed_names(other)
    async with listening(other.http) as (found, _):
        with pytest.raises(TimeoutError):
            await next_message(found, seconds=1.5)


async def test_only_changes_of_tools_are_honoured(mcp, library, api):
    wanted = {"promptsListChanged": True, "resourcesListChanged": True, "toolsListChanged": False}
    async with listening(mcp.http, wanted=wanted) as (_, acknowledged):
        assert acknowledged["params"]["notifications"] == {}


async def test_a_revoked_key_ends_its_subscriptions_with_a_result(api, mcp, library):
    key = mcp.http.headers["authorization"].removeprefix("Bearer ")
    principal = await api.services.keys.verify(key, host="127.0.0.1", is_call=False)
    admin = await api.client("admin")
    async with listening(mcp.http) as (found, _):
        assert (await admin.delete(f"/keys/{principal.key_id}")).status_code == 204
        ended = await next_message(found)
        assert ended["id"] == "sub-1"
        assert ended["result"]["resultType"] == "complete"
        assert ended["result"]["_meta"][SUBSCRIPTION] == "sub-1"
        with pytest.raises(StopAsyncIteration):
            await next_message(found)


async def test_a_subscription_needs_event_streams_and_a_filter(mcp):
    params = {"notifications": {"toolsListChanged": True}}
    response = await mcp.modern("subscriptions/listen", params, headers={"Accept": "application/json"})
    assert error_of(response) == (406, -32600)
    assert error_of(await mcp.modern("subscriptions/listen", {})) == (400, -32602)


async def test_open_subscriptions_are_bounded_and_no_calls_in_progress(api):
    subscriptions = ListSubscriptions(max_streams=10, max_streams_per_key=2)
    admission = api.application.app.admission
    server = replace(api.application.mcp, subscriptions=subscriptions)
    async with api.with_services(mcp=server) as bounded:
        mcp = McpClient(await bounded.client())
        async with listening(mcp.http), listening(mcp.http):
            assert len(subscriptions) == 2
            assert admission.running == 0
            params = {"notifications": {"toolsListChanged": True}}
            assert (await mcp.modern("subscriptions/listen", params)).status_code == 503
            other = McpClient(await bounded.client("tools:read"))
            async with listening(other.http):
                assert len(subscriptions) == 3
        async with asyncio.timeout(10):
            while len(subscriptions):  # noqa: ASYNC110 - the end of a connection has no event.
                await asyncio.sleep(0.02)
        assert admission.running == 0


async def test_json_with_line_breaks_is_one_event(api, mcp):
    async def respond(request):
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        await response.write(b'data: {"total":\ndata: 1,\ndata:\ndata:  "items": []}\n\n')
        return response

    application = web.Application()
    application.router.add_get("/broken", respond)
    async with web_server(application) as url:
        await api.tool(await api.provider("lines"), "broken", {"url": f"{url}/broken"})
        call = request_of("tools/call", {"name": "lines_broken"}, meta={"progressToken": 1})
        async with mcp.http.stream("POST", "/mcp", **call) as response:
            *_, result = [one async for one in messages(response)]
    assert result["result"]["structuredContent"] == {"total": 1, "items": []}
    assert result["result"]["content"][0]["text"] == '{"total":\n1,\n\n "items": []}'
