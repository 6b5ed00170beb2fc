"""MCP over each of its transports, against servers of the official SDK and the public reference server."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.core.errors import (
    InvalidArguments,
    InvalidInput,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credential_rendering import WireCredential
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.protocols.base import AdapterContext
from app.security.masking import Masker
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import call_of
from tests.protocols.kits.base import free_port
from tests.protocols.kits.cli import alive
from tests.protocols.kits.mcp import SCRIPT, McpUpstream, mcp_server
from tests.protocols.peers.mcp import McpPeer

if TYPE_CHECKING:
    # It imports the SDK, which takes as long as all else that is collected of a protocol.
    from app.protocols.mcp.adapter import McpAdapter

ROOT = Path(__file__).parents[2]

KINDS = ["http", "sse", "stdio"]


@pytest.fixture(scope="module", params=KINDS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[McpUpstream]:
    async with mcp_server(request.param) as upstream:
        upstream.kind = request.param
        yield upstream


@pytest.fixture(scope="module")
async def adapter(server: McpUpstream) -> AsyncIterator[McpAdapter]:
    """One adapter for the server, whose session stays open from test to test."""
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    settings = Settings(_env_file=None, programs=(sys.executable,))
    from app.protocols.mcp.adapter import McpAdapter

    running = McpAdapter(AdapterContext(engine, engine.network, Masker(), settings))
    yield running
    await running.aclose()
    await engine.aclose()


@pytest.fixture
async def adapter_of(engine, masker):
    made = []

    def build(**settings: Any) -> McpAdapter:
        settings = {"programs": (sys.executable,), **settings}
        from app.protocols.mcp.adapter import McpAdapter

        adapter = McpAdapter(
            AdapterContext(engine, engine.network, masker, Settings(_env_file=None, **settings))
        )
        made.append(adapter)
        return adapter

    yield build
    for adapter in made:
        await adapter.aclose()


def config(server: McpUpstream, **fields: Any) -> dict[str, Any]:
    if server.kind == "stdio":
        return {"command": sys.executable, "args": ["-P", str(SCRIPT), "stdio", str(server.folder)], **fields}
    return {"transport": server.kind, "url": server.place, **fields}


def template(server: McpUpstream, tool: str = "", **fields: Any) -> dict[str, Any]:
    named = {"tool_name": tool} if tool else {}
    own = fields.pop("own", {})
    return {
        "call_template_type": "mcp",
        "config": {"mcpServers": {"kit": config(server, **own)}},
        **named,
        **fields,
    }


async def call_and_decode(adapter: McpAdapter, raw: Any, arguments: Any = None, **fields: Any) -> Any:
    result = await adapter.call(call_of(adapter, raw, arguments, **fields))
    return json.loads(await result.read())


async def test_tools_are_listed_and_called(adapter, server):
    found = await adapter.discover(call_of(adapter, template(server)))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert "kit.echo" in tools
    assert not [name for name in tools if "resource" in name]
    assert tools["kit.structured"]["inputs"]["required"] == ["n"]
    assert tools["kit.structured"]["tool_call_template"] == {
        "call_template_type": "mcp",
        "tool_name": "structured",
    }
    assert await call_and_decode(adapter, template(server, "echo"), {"body": {"a": [1, None]}}) == {
        "a": [1, None]
    }
    assert await call_and_decode(adapter, template(server, "structured"), {"n": 3}) == {"n": 3}
    assert await call_and_decode(adapter, template(server, "wrapped"), {"n": 3}) == [3, 3]
    assert await call_and_decode(adapter, template(server, "several")) == ["one", {"two": 2}]


async def test_progress_comes_as_events(adapter, server):
    result = await adapter.call(call_of(adapter, template(server, "steps"), streaming=True))
    events = [(event.name, json.loads(event.data)) async for event in result.events]
    assert events[-1] == ("", {"done": True})
    reports = [value for name, value in events[:-1] if name == "progress"]
    assert [report["progress"] for report in reports] == [0, 1, 2]
    assert reports[1] == {"progress": 1, "total": 3, "message": "step 1"}
    assert await call_and_decode(adapter, template(server, "steps")) == {"done": True}


async def test_resources_are_tools_by_option(adapter, server):
    found = await adapter.discover(call_of(adapter, template(server, register_resources_as_tools=True)))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert tools["kit.resource_of"]["inputs"]["required"] == ["topic"]
    uri = tools["kit.resource_plain"]["tool_call_template"]["resource_uri"]
    assert await call_and_decode(adapter, template(server, resource_uri=uri)) == "plain text"
    of = template(server, resource_uri="kit://of/{topic}")
    assert await call_and_decode(adapter, of, {"topic": "birds"}) == {"topic": "birds"}
    assert adapter.describe(call_of(adapter, of, {"topic": "a/b c"}))["body"]["params"] == {
        "uri": "kit://of/a%2Fb%20c"
    }
    with pytest.raises(InvalidArguments):
        await call_and_decode(adapter, of)
    assert adapter.is_safe(adapter.prepare(of))
    with pytest.raises(UpstreamRejected):
        await call_and_decode(adapter, template(server, resource_uri="kit://nowhere"))


async def test_the_error_of_a_server_has_its_reason(adapter, server):
    with pytest.raises(UpstreamRejected) as caught:
        await call_and_decode(adapter, template(server, "rejects"))
    assert caught.value.status == 422
    assert "no such thing" in caught.value.response.body
    with pytest.raises(UpstreamRejected):
        await call_and_decode(adapter, template(server, "not-there"))
    with pytest.raises(UpstreamRejected):
        await call_and_decode(adapter, template(server, "structured"), {"n": "x"})
    with pytest.raises(InvalidArguments):
        await call_and_decode(adapter, template(server))


async def test_a_tool_that_elicits_ends_with_an_error_that_names_it(adapter, server):
    with pytest.raises(UpstreamRejected) as caught:
        await call_and_decode(adapter, template(server, "elicits"))
    assert "elicitation" in f"{caught.value.detail} {caught.value.response.body}"
    # By MCP of 2026-07-28 the server knows that it cannot ask, and does not.
    assert ("does not support" in caught.value.detail) == (server.kind == "sse")


async def test_a_session_serves_many_calls_and_outlives_a_call_that_fails(adapter, server):
    server.gone.clear()
    await call_and_decode(adapter, template(server, "several"))
    before = list(adapter._sessions._sessions.values())
    with pytest.raises(UpstreamTimeout):
        await call_and_decode(adapter, template(server, "silent"), seconds=0.5)
    calling = asyncio.create_task(call_and_decode(adapter, template(server, "silent")))
    await asyncio.sleep(0.1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.gather(
        *(call_and_decode(adapter, template(server, "structured"), {"n": n}) for n in range(10))
    )
    assert list(adapter._sessions._sessions.values()) == before
    async with asyncio.timeout(10):
        await server.gone.wait()


async def test_each_credential_has_its_own_session_up_to_the_limit(adapter_of, server):
    # No session becomes idle within the test.
    adapter = adapter_of(mcp_sessions=2, mcp_idle_seconds=600)
    field = "env" if server.kind == "stdio" else "headers"
    for value in ("one-secret", "two-secret", "three-secret"):
        raw = template(server, "several", own={field: {"X_CANARY": ""}})
        wire = WireCredential("field", f"/config/mcpServers/kit/{field}/X_CANARY", Secret(value), "default")
        await call_and_decode(adapter, raw, credentials=(wire,))
        shown = json.dumps(adapter.describe(call_of(adapter, raw, credentials=(wire,))))
        assert value not in shown
        assert "***" in shown
    assert len(adapter._sessions._sessions) == 2


async def test_an_idle_session_is_closed(adapter_of, server):
    adapter = adapter_of(mcp_idle_seconds=1)
    await call_and_decode(adapter, template(server, "several"))
    async with asyncio.timeout(60):
        while adapter._sessions._sessions:  # noqa: ASYNC110 - nothing tells of it.
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("server", ["stdio"], indirect=True)
async def test_a_server_that_dies_is_started_again_at_the_next_call(adapter_of, server):
    adapter = adapter_of()
    first = await call_and_decode(adapter, template(server, "pid"))
    assert await call_and_decode(adapter, template(server, "pid")) == first
    with pytest.raises(UpstreamUnreachable) as caught:
        await call_and_decode(adapter, template(server, "breaks"))
    assert caught.value.request_sent
    second = await call_and_decode(adapter, template(server, "pid"))
    assert second != first
    os.kill(second, 9)
    async with asyncio.timeout(5):
        while alive(second):  # noqa: ASYNC110 - another process sets no event.
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    third = await call_and_decode(adapter, template(server, "pid"))
    await adapter.aclose()
    assert not alive(third)


@pytest.mark.parametrize("server", ["stdio"], indirect=True)
async def test_a_server_that_is_a_program_has_the_rules_of_programs(adapter_of, server, tmp_path):
    adapter = adapter_of()
    wire = WireCredential("field", "/config/mcpServers/kit/env/X_CANARY", Secret("very-secret"), "default")
    raw = template(server, "echo", own={"env": {"X_CANARY": ""}})
    await call_and_decode(adapter, raw, {"body": {}}, credentials=(wire,))
    names = {name for name in server.seen[-1] if name.startswith("env:")} - {"env:lc_ctype"}
    assert names == {"env:x_canary"}
    for given in (template(server, "x", own={"command": "/bin/cat"}), template(server, "x", own={"cwd": "/etc"}),
                  template(server, "x", own={"env": {"LD_PRELOAD": "x"}})):  # fmt: skip
        with pytest.raises(InvalidInput):
            adapter.prepare(given)
    with pytest.raises(InvalidInput, match="PROGRAMS"):
        adapter_of(programs=()).prepare(template(server, "x"))
    header = WireCredential("header", "X-Key", Secret("very-secret"), "default")
    with pytest.raises(InvalidInput, match="by env only"):
        await call_and_decode(adapter, raw, credentials=(header,))
    for words in (["-c", "import sys; sys.exit(1)"], ["-c", "print('x' * 100)"]):
        broken = template(server, "x", own={"args": words})
        with pytest.raises((UpstreamUnreachable, UpstreamRejected)) as caught:
            await call_and_decode(adapter, broken)
        assert not caught.value.request_sent


@pytest.fixture
async def peer() -> AsyncIterator[McpPeer]:
    running = McpPeer()
    async with running.serve():
        yield running


async def test_a_session_that_the_server_forgot_is_opened_anew_once(adapter_of, peer):
    adapter = adapter_of()
    assert await call_and_decode(adapter, peer.template()) == "ok"
    peer.unknown_session_responses = 1
    assert await call_and_decode(adapter, peer.template()) == "ok"
    calls = [session for method, session in peer.messages if method == "tools/call"]
    assert calls == ["s1", "s1", "s2"]
    peer.unknown_session_responses = 5
    with pytest.raises(UpstreamUnreachable):
        await call_and_decode(adapter, peer.template())
    assert peer.unknown_session_responses == 3


@for_each(("status", "error"), [(401, UpstreamUnauthorized), (403, UpstreamRejected),
                                               (500, UpstreamRejected), (307, UpstreamRejected)])  # fmt: skip
@for_each("when", ["opening", "calling"])
async def test_a_status_is_reported_and_no_redirect_followed(adapter_of, peer, masker, status, error, when):
    masker.add("secret-of-the-peer")
    adapter = adapter_of()
    if when == "calling":
        await call_and_decode(adapter, peer.template())
    peer.status = status
    with pytest.raises(error) as caught:
        await call_and_decode(adapter, peer.template())
    assert caught.value.response.status == status
    assert "secret-of-the-peer" not in str(caught.value.as_problem())
    before = len(adapter._sessions._sessions)
    assert before == (1 if when == "calling" else 0)
    peer.status = 200
    assert await call_and_decode(adapter, peer.template()) == "ok"


async def test_one_bad_tool_does_not_lose_the_others(adapter_of, peer):
    peer.tools = [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "none"}, {"inputSchema": {}}, 7, {"name": ""},
                  {"name": "odd", "description": 7, "inputSchema": [1], "outputSchema": "x", "annotations": 3}]  # fmt: skip
    adapter = adapter_of()
    found = await adapter.discover(call_of(adapter, peer.template()))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert list(tools) == ["p.good", "p.none", "p.odd"]
    assert tools["p.odd"]["inputs"] == {"type": "object"}


@for_each(("result", "value"), [
    ({"content": [], "structuredContent": {"result": [1]}}, [1]),
    ({"content": [], "structuredContent": {"result": {"a": 1}}}, {"result": {"a": 1}}),
    ({"content": []}, []),
    ({"content": [{"type": "text", "text": "42"}]}, 42),
    ({"content": [{"type": "text", "text": "007"}]}, "007"),
    ({"content": [{"type": "text", "text": "{no"}]}, "{no"),
    ({"content": [{"type": "image", "data": "AA==", "mimeType": "image/png"}]},
     {"type": "image", "data": "AA==", "mimeType": "image/png"}),
])  # fmt: skip
async def test_what_a_result_becomes(adapter_of, peer, result, value):
    peer.result = result
    assert await call_and_decode(adapter_of(), peer.template()) == value


async def test_an_invalid_result_is_malformed(adapter_of, peer):
    peer.result = {"content": 7}
    adapter = adapter_of()
    with pytest.raises(UpstreamMalformed):
        await call_and_decode(adapter, peer.template())
    peer.result = {"content": [{"type": "text", "text": "ok"}]}
    assert await call_and_decode(adapter, peer.template()) == "ok"
    assert peer.sessions == 1


def everything() -> Path:
    """The public reference server, from npm; CI installs it before."""
    root = Path(os.environ.get("MCP_EVERYTHING", ROOT / ".venvs" / "mcp-everything"))
    script = root / "node_modules/@modelcontextprotocol/server-everything/dist/index.js"
    if shutil.which("node") and script.exists():
        return script
    message = "This needs node, and @modelcontextprotocol/server-everything in the folder MCP_EVERYTHING."
    if os.environ.get("CI") == "true":
        pytest.fail(message)
    pytest.skip(message)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_public_reference_server(adapter_of, kind):
    script, node = everything(), shutil.which("node")
    adapter = adapter_of(programs=(node,))
    process = None
    one: dict[str, Any] = {"command": node, "args": [str(script), "stdio"]}
    if kind != "stdio":
        port = free_port()
        words = [node, str(script), "streamableHttp" if kind == "http" else "sse"]
        process = subprocess.Popen(  # noqa: ASYNC220 - it comes back at once.
            words, env={"PORT": str(port)}, stderr=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        one = {"transport": kind, "url": f"http://127.0.0.1:{port}/{'mcp' if kind == 'http' else 'sse'}"}
        async with asyncio.timeout(15):
            while True:
                try:
                    (await asyncio.open_connection("127.0.0.1", port))[1].close()
                    break
                except OSError:
                    await asyncio.sleep(0.05)
    raw = {
        "call_template_type": "mcp",
        "config": {"mcpServers": {"all": one}},
        "register_resources_as_tools": True,
    }
    try:
        found = json.loads((await adapter.discover(call_of(adapter, raw))).raw)
        names = [tool["name"] for tool in found["tools"]]
        assert "all.echo" in names
        assert any(name.startswith("all.resource_") for name in names)
        assert (
            await call_and_decode(adapter, {**raw, "tool_name": "echo"}, {"message": "hello"})
            == "Echo: hello"
        )
        add = next(name for name in names if name.endswith(("add", "get-sum"))).partition(".")[2]
        assert "5" in str(await call_and_decode(adapter, {**raw, "tool_name": add}, {"a": 2, "b": 3}))
    finally:
        await adapter.aclose()
        if process is not None:
            process.kill()
            process.wait()
