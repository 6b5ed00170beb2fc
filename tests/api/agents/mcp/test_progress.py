"""Progress of upstreams is sent to clients of MCP that ask for it, while the call runs."""

import asyncio
import json
import time
from contextlib import aclosing

import httpx2
import pytest
from aiohttp import web

from app.agents.mcp.progress_queue import INTERVAL, MAX_BURST
from tests.api.agents.mcp.test_streams import messages, request_of
from tests.harness.beside import web_server
from tests.protocols.kits.mcp import mcp_server

SECRET = "canary-of-progress-47"
ESCAPED = SECRET.replace("c", "\\u0063")


@pytest.fixture(scope="module")
async def peer():
    """A server of the official SDK."""
    async with mcp_server("http") as upstream:
        yield upstream


@pytest.fixture
async def tools(api, peer):
    """The tools of the server `peer`: steps, reports, endless."""
    server = {"transport": "http", "url": peer.place}
    row = await api.provider("peer")
    for name in ("steps", "reports", "endless"):
        template = {
            "call_template_type": "mcp",
            "config": {"mcpServers": {"kit": server}},
            "tool_name": name,
        }
        await api.tool(row, name, template)
    return row


class Events:
    """An upstream that sends events; after the first one it waits until `rest` is set."""

    def __init__(self):
        self.rest = asyncio.Event()
        self.left = asyncio.Event()
        self.url = ""

    async def sse(self, request):
        secret = request.headers.get("X-Key", "none")
        texts = [f'{{"step": 0, "key": "{secret}"}}', f"text {secret}"]
        if secret == SECRET:
            texts.append(f'{{"key": "{ESCAPED}"}}')
        return await self.send(request, "text/event-stream", [f"data: {one}\n\n" for one in texts])

    async def lines(self, request):
        return await self.send(request, "application/x-ndjson", ['{"n": 1}\n', '{"n": 2}\n'])

    async def bytes(self, request):
        return await self.send(request, "application/octet-stream", ["x" * 10, "y" * 20], length=30)

    async def send(self, request, media_type, pieces, length=None):
        response = web.StreamResponse(headers={"Content-Type": media_type})
        response.content_length = length
        await response.prepare(request)
        try:
            await response.write(pieces[0].encode())
            await self.rest.wait()
            for piece in pieces[1:]:
                await response.write(piece.encode())
        except asyncio.CancelledError:
            self.left.set()
            raise
        return response


@pytest.fixture
async def events():
    found = Events()
    application = web.Application()
    for name in ("sse", "lines", "bytes"):
        application.router.add_get(f"/{name}", getattr(found, name))
    async with web_server(application, handler_cancellation=True) as found.url:
        yield found


def calling(mcp, name, arguments=None, meta=None, **headers):
    """Open the response to a call that asks for progress."""
    params = {"name": name, "arguments": arguments or {}}
    call = request_of("tools/call", params, meta={"progressToken": "token-1", **(meta or {})})
    call["headers"] |= headers
    return mcp.http.stream("POST", "/mcp", **call)


async def all_of(response):
    """Return the parameters of the notifications of progress, and the result."""
    *progress, result = [one async for one in messages(response)]
    assert {one["method"] for one in progress} <= {"notifications/progress"}
    assert all(one["params"]["progressToken"] == "token-1" for one in progress)
    return [one["params"] for one in progress], result["result"]


async def test_progress_of_an_mcp_server_is_passed_on(mcp, tools):
    async with calling(mcp, "peer_steps") as response:
        assert response.headers["content-type"] == "text/event-stream"
        progress, result = await all_of(response)
    assert [one["progress"] for one in progress] == [0, 1, 2]
    assert [(one["total"], one["message"]) for one in progress] == [(3, f"step {n}") for n in range(3)]
    assert result["structuredContent"] == {"done": True}
    plain = await mcp.modern("tools/call", {"name": "peer_steps"})
    assert plain.headers["content-type"] == "application/json"
    assert plain.json()["result"]["content"] == result["content"]


@pytest.mark.parametrize("mode", ["auto", "legacy", "2026-07-28"])
async def test_the_official_client_gets_the_progress_of_an_official_server(api, mcp, tools, mode):
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    reports = []

    async def on_progress(progress, total, message):
        reports.append((progress, total, message))

    headers = {"Authorization": mcp.http.headers["authorization"]}
    async with httpx2.AsyncClient(headers=headers, trust_env=False) as http:
        transport = streamable_http_client(f"{api.url}/mcp", http_client=http)
        async with Client(transport, mode=mode) as client:
            called = await client.call_tool("peer_steps", {}, progress_callback=on_progress)
    assert called.structured_content == {"done": True}
    assert reports == [(n, 3, f"step {n}") for n in range(3)]


async def test_progress_of_an_mcp_server_only_rises(mcp, tools):
    async with calling(mcp, "peer_reports", {"values": [1, 3, 2, 3, 5]}) as response:
        progress, _ = await all_of(response)
    assert [one["progress"] for one in progress] == [1, 3, 5]


async def test_the_rate_of_progress_is_bounded_and_the_last_report_is_sent(mcp, tools):
    began = time.monotonic()
    async with calling(mcp, "peer_reports", {"values": list(range(1, 1001))}) as response:
        progress, result = await all_of(response)
    seconds = time.monotonic() - began
    assert len(progress) <= MAX_BURST + seconds / INTERVAL + 2
    assert len(progress) < 1000
    assert progress[-1]["progress"] == 1000
    assert result["structuredContent"] == {"done": True}


async def test_each_event_of_an_sse_tool_is_progress_while_the_call_runs(api, mcp, events):
    row = await api.provider("feed")
    await api.tool(row, "sse", {"call_template_type": "sse", "url": f"{events.url}/sse"})
    async with calling(mcp, "feed_sse") as response, aclosing(messages(response)) as found:
        first = (await anext(found))["params"]
        assert first["progress"] == 1
        assert json.loads(first["message"]) == {"step": 0, "key": "none"}
        # The upstream sends the rest only now.
        events.rest.set()
        second, last = [one async for one in found]
    assert second["params"] == {"progressToken": "token-1", "progress": 2, "message": "text none"}
    plain = await mcp.modern("tools/call", {"name": "feed_sse"})
    assert plain.headers["content-type"] == "application/json"
    assert plain.json()["result"]["content"] == last["result"]["content"]
    assert json.loads(last["result"]["content"][0]["text"]) == [{"step": 0, "key": "none"}, "text none"]


async def test_events_of_a_streamable_http_tool_are_progress(api, mcp, events):
    row = await api.provider("feed")
    await api.tool(row, "lines", {"call_template_type": "streamable_http", "url": f"{events.url}/lines"})
    async with calling(mcp, "feed_lines") as response, aclosing(messages(response)) as found:
        assert (await anext(found))["params"]["message"] == '{"n": 1}'
        events.rest.set()
        second, last = [one async for one in found]
    assert second["params"]["progress"] == 2
    assert json.loads(last["result"]["content"][0]["text"]) == [{"n": 1}, {"n": 2}]


async def test_bytes_of_a_streamable_http_tool_are_counted(api, mcp, events):
    row = await api.provider("feed")
    await api.tool(row, "bytes", {"call_template_type": "streamable_http", "url": f"{events.url}/bytes"})
    async with calling(mcp, "feed_bytes") as response, aclosing(messages(response)) as found:
        first = (await anext(found))["params"]
        assert first == {"progressToken": "token-1", "progress": 10, "total": 30}
        events.rest.set()
        second, _ = [one async for one in found]
    assert (second["params"]["progress"], second["params"]["total"]) == (30, 30)


async def test_secrets_are_masked_in_progress_of_an_sse_tool(api, mcp, events):
    auth = {"auth_type": "api_key", "api_key": "$KEY", "var_name": "X-Key", "location": "header"}
    admin = await api.client("admin")
    template = {"call_template_type": "sse", "url": f"{events.url}/sse", "auth": auth}
    tool = {"name": "masked", "inputs": {"type": "object"}, "tool_call_template": template}
    manual = {"utcp_version": "1.0.1", "tools": [tool]}
    body = {"name": "guarded", "source": {"manual": manual}, "variables": {"KEY": {"value": SECRET}}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    events.rest.set()
    async with calling(mcp, "guarded_masked") as response:
        text = "".join([line async for line in response.aiter_lines()])
    assert text.count("notifications/progress") == 3
    assert SECRET not in text
    assert ESCAPED not in text
    assert SECRET not in text.replace("\\\\", "\\").replace("\\u0063", "c")
    assert "text ***" in text


async def test_secrets_are_masked_in_progress_of_an_mcp_server(api, mcp, peer):
    admin = await api.client("admin")
    server = {"transport": "http", "url": peer.place, "headers": {"X-Canary": "${KEY}"}}
    template = {"call_template_type": "mcp", "config": {"mcpServers": {"kit": server}}}
    source = {"call_template": template}
    body = {"name": "guarded", "source": source, "variables": {"KEY": {"value": SECRET}}}
    made = await admin.post("/providers", json=body)
    assert made.status_code == 201, made.text
    name = next(one["name"] for one in made.json()["report"]["operations"] if one["name"].endswith("reports"))
    arguments = {"values": [1], "message": f"sent with {SECRET}"}
    async with calling(mcp, name.replace(".", "_"), arguments) as response:
        progress, _ = await all_of(response)
    assert [one["message"] for one in progress] == ["sent with ***"]


async def test_a_modern_client_that_leaves_during_progress_cancels_at_the_mcp_server(api, mcp, tools, peer):
    for note in peer.folder.iterdir():
        note.unlink()
    async with calling(mcp, "peer_endless") as response, aclosing(messages(response)) as found:
        assert (await anext(found))["params"]["progress"] == 1
        assert peer.noted("gone") == []
    assert (await api.recorded_call())["outcome"] == "cancelled"
    async with asyncio.timeout(30):
        while not peer.noted("gone"):  # noqa: ASYNC110 - another process sets no event.
            await asyncio.sleep(0.02)


async def test_a_modern_client_that_leaves_during_progress_ends_the_stream_of_events(api, mcp, events):
    row = await api.provider("feed")
    await api.tool(row, "sse", {"call_template_type": "sse", "url": f"{events.url}/sse"})
    async with calling(mcp, "feed_sse") as response, aclosing(messages(response)) as found:
        await anext(found)
    await events.left.wait()
    assert (await api.recorded_call())["outcome"] == "cancelled"


async def test_a_legacy_client_that_leaves_during_progress_does_not_cancel(api, mcp, events):
    row = await api.provider("feed")
    await api.tool(row, "sse", {"call_template_type": "sse", "url": f"{events.url}/sse"})
    params = {"name": "feed_sse", "_meta": {"progressToken": "token-1"}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
    headers = {"Content-Type": "application/json", "MCP-Protocol-Version": "2025-11-25"}
    async with (
        mcp.http.stream("POST", "/mcp", content=json.dumps(body), headers=headers) as response,
        aclosing(messages(response)) as found,
    ):
        assert (await anext(found))["params"]["progress"] == 1
    await asyncio.sleep(0.3)
    assert not events.left.is_set()
    events.rest.set()
    assert (await api.recorded_call())["outcome"] == "ok"


async def test_a_call_with_an_idempotency_key_has_progress_when_it_is_made(mcp, tools):
    key = {"Idempotency-Key": "progress-1"}
    async with calling(mcp, "peer_reports", {"values": [1, 2]}, **key) as response:
        progress, result = await all_of(response)
    assert [one["progress"] for one in progress] == [1, 2]
    async with calling(mcp, "peer_reports", {"values": [1, 2]}, **key) as response:
        assert response.headers["content-type"] == "application/json"
        replayed = json.loads(await response.aread())
    assert replayed["result"]["content"] == result["content"]


async def test_a_tool_that_a_meta_tool_calls_has_progress(mcp, tools):
    arguments = {"name": "peer_steps", "arguments": {}}
    async with calling(mcp, "call_tool", arguments) as response:
        progress, _ = await all_of(response)
    assert [one["message"] for one in progress] == [f"step {n}" for n in range(3)]
