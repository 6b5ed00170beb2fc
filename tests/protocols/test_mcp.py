"""MCP over each of its transports, against servers of the official SDK and the public reference server."""

import asyncio
import json
import os
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from app.errors import (
    InvalidArguments,
    InvalidInput,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.outbound.credential_rendering import WireCredential
from app.protocols.base import AdapterContext
from app.protocols.mcp.adapter import McpAdapter
from app.security.secret import Secret
from app.settings import Settings
from tests.protocols.calling import call_of
from tests.protocols.kits.base import free_port
from tests.protocols.kits.cli import alive
from tests.protocols.kits.mcp import SCRIPT, McpUpstream, mcp_server

ROOT = Path(__file__).parents[2]

KINDS = ["http", "sse", "stdio"]


@pytest.fixture(scope="module", params=KINDS)
async def server(request: pytest.FixtureRequest) -> AsyncIterator[McpUpstream]:
    async with mcp_server(request.param) as upstream:
        upstream.kind = request.param
        yield upstream


@pytest.fixture
async def adapter_of(engine, masker):
    made = []

    def build(**settings: Any) -> McpAdapter:
        settings = {"programs": (sys.executable,), **settings}
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


async def answer(adapter: McpAdapter, raw: Any, arguments: Any = None, **fields: Any) -> Any:
    result = await adapter.call(call_of(adapter, raw, arguments, **fields))
    return json.loads(await result.read())


async def test_tools_are_listed_and_called(adapter_of, server):
    adapter = adapter_of()
    found = await adapter.discover(call_of(adapter, template(server)))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert "kit.echo" in tools
    assert not [name for name in tools if "resource" in name]
    assert tools["kit.structured"]["inputs"]["required"] == ["n"]
    assert tools["kit.structured"]["tool_call_template"] == {
        "call_template_type": "mcp",
        "tool_name": "structured",
    }
    assert await answer(adapter, template(server, "echo"), {"body": {"a": [1, None]}}) == {"a": [1, None]}
    assert await answer(adapter, template(server, "structured"), {"n": 3}) == {"n": 3}
    assert await answer(adapter, template(server, "wrapped"), {"n": 3}) == [3, 3]
    assert await answer(adapter, template(server, "several")) == ["one", {"two": 2}]


async def test_progress_comes_as_events(adapter_of, server):
    adapter = adapter_of()
    result = await adapter.call(call_of(adapter, template(server, "steps"), streaming=True))
    events = [(event.name, json.loads(event.data)) async for event in result.events]
    assert events[-1] == ("", {"done": True})
    reports = [value for name, value in events[:-1] if name == "progress"]
    assert [report["progress"] for report in reports] == [0, 1, 2]
    assert reports[1] == {"progress": 1, "total": 3, "message": "step 1"}
    assert await answer(adapter, template(server, "steps")) == {"done": True}


async def test_resources_are_tools_by_option(adapter_of, server):
    adapter = adapter_of()
    found = await adapter.discover(call_of(adapter, template(server, register_resources_as_tools=True)))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert tools["kit.resource_of"]["inputs"]["required"] == ["topic"]
    uri = tools["kit.resource_plain"]["tool_call_template"]["resource_uri"]
    assert await answer(adapter, template(server, resource_uri=uri)) == "plain text"
    of = template(server, resource_uri="kit://of/{topic}")
    assert await answer(adapter, of, {"topic": "birds"}) == {"topic": "birds"}
    assert adapter.describe(call_of(adapter, of, {"topic": "a/b c"}))["body"]["params"] == {
        "uri": "kit://of/a%2Fb%20c"
    }
    with pytest.raises(InvalidArguments):
        await answer(adapter, of)
    assert adapter.is_safe(adapter.prepare(of))
    with pytest.raises(UpstreamRejected):
        await answer(adapter, template(server, resource_uri="kit://nowhere"))


async def test_what_a_server_refuses_says_why(adapter_of, server, masker):
    adapter = adapter_of()
    with pytest.raises(UpstreamRejected) as caught:
        await answer(adapter, template(server, "rejects"))
    assert caught.value.status == 422
    assert "no such thing" in caught.value.response.body
    with pytest.raises(UpstreamRejected):
        await answer(adapter, template(server, "not-there"))
    with pytest.raises(UpstreamRejected):
        await answer(adapter, template(server, "structured"), {"n": "x"})
    with pytest.raises(InvalidArguments):
        await answer(adapter, template(server))


async def test_a_session_serves_many_calls_and_outlives_a_call_that_fails(adapter_of, server):
    adapter = adapter_of()
    await answer(adapter, template(server, "several"))
    before = list(adapter._sessions._sessions.values())
    with pytest.raises(UpstreamTimeout):
        await answer(adapter, template(server, "silent"), seconds=0.5)
    calling = asyncio.create_task(answer(adapter, template(server, "silent")))
    await asyncio.sleep(0.1)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await asyncio.gather(*(answer(adapter, template(server, "structured"), {"n": n}) for n in range(10)))
    assert list(adapter._sessions._sessions.values()) == before
    async with asyncio.timeout(10):
        await server.gone.wait()


async def test_sessions_are_of_one_credential_each_bounded_and_left_when_idle(adapter_of, server):
    adapter = adapter_of(mcp_sessions=2, mcp_idle_seconds=3)
    field = "env" if server.kind == "stdio" else "headers"
    for value in ("one-secret", "two-secret", "three-secret"):
        raw = template(server, "several", own={field: {"X_CANARY": ""}})
        wire = WireCredential("field", f"/config/mcpServers/kit/{field}/X_CANARY", Secret(value), "default")
        await answer(adapter, raw, credentials=(wire,))
        shown = json.dumps(adapter.describe(call_of(adapter, raw, credentials=(wire,))))
        assert value not in shown
        assert "***" in shown
    assert len(adapter._sessions._sessions) == 2
    async with asyncio.timeout(10):
        while adapter._sessions._sessions:  # noqa: ASYNC110 - nothing tells of it.
            await asyncio.sleep(0.02)


@pytest.mark.parametrize("server", ["stdio"], indirect=True)
async def test_a_server_that_dies_is_started_again_at_the_next_call(adapter_of, server):
    adapter = adapter_of()
    first = await answer(adapter, template(server, "pid"))
    assert await answer(adapter, template(server, "pid")) == first
    with pytest.raises(UpstreamUnreachable) as caught:
        await answer(adapter, template(server, "breaks"))
    assert caught.value.request_sent
    second = await answer(adapter, template(server, "pid"))
    assert second != first
    os.kill(second, 9)
    async with asyncio.timeout(5):
        while alive(second):  # noqa: ASYNC110 - another process sets no event.
            await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)
    third = await answer(adapter, template(server, "pid"))
    await adapter.aclose()
    assert not alive(third)


@pytest.mark.parametrize("server", ["stdio"], indirect=True)
async def test_a_server_that_is_a_program_has_the_rules_of_programs(adapter_of, server, tmp_path):
    adapter = adapter_of()
    wire = WireCredential("field", "/config/mcpServers/kit/env/X_CANARY", Secret("very-secret"), "default")
    raw = template(server, "echo", own={"env": {"X_CANARY": ""}})
    await answer(adapter, raw, {"body": {}}, credentials=(wire,))
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
        await answer(adapter, raw, credentials=(header,))
    for words in (["-c", "import sys; sys.exit(1)"], ["-c", "print('x' * 100)"]):
        broken = template(server, "x", own={"args": words})
        with pytest.raises((UpstreamUnreachable, UpstreamRejected)) as caught:
            await answer(adapter, broken)
        assert not caught.value.request_sent


class Peer:
    """A server of the handshake of 2025-11-25, as strange as a test wants it."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, str]] = []
        self.sessions = 0
        self.forgets = 0
        self.status = 200
        self.tools: list[Any] = []
        self.result: Any = {"content": [{"type": "text", "text": "ok"}]}

    async def handle(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        message = await request.json()
        method, session = message["method"], request.headers.get("Mcp-Session-Id", "")
        self.seen.append((method, session))
        if self.status in (301, 307):
            raise web.HTTPTemporaryRedirect("/mcp/other")
        if self.status != 200:
            return web.json_response({"detail": "secret-of-the-peer"}, status=self.status)
        if method == "server/discover":
            return web.json_response({"detail": "no session"}, status=400)
        if "id" not in message:
            return web.Response(status=202)
        headers = {}
        result: Any = self.result
        if method == "initialize":
            self.sessions += 1
            headers = {"Mcp-Session-Id": f"s{self.sessions}", "Set-Cookie": "a=b"}
            info = {"name": "peer", "version": "1"}
            result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": info}
        elif self.forgets:
            self.forgets -= 1
            return web.Response(status=404)
        elif method == "tools/list":
            result = {"tools": self.tools}
        return web.json_response({"jsonrpc": "2.0", "id": message["id"], "result": result}, headers=headers)


@pytest.fixture
async def peer(serve):
    running = Peer()
    running.url = await serve(running.handle)
    return running


def at(peer: Peer, tool: str = "x") -> dict[str, Any]:
    return {
        "call_template_type": "mcp",
        "tool_name": tool,
        "config": {"mcpServers": {"p": {"url": f"{peer.url}/mcp"}}},
    }


async def test_a_session_that_the_server_forgot_is_opened_anew_once(adapter_of, peer):
    adapter = adapter_of()
    assert await answer(adapter, at(peer)) == "ok"
    peer.forgets = 1
    assert await answer(adapter, at(peer)) == "ok"
    calls = [session for method, session in peer.seen if method == "tools/call"]
    assert calls == ["s1", "s1", "s2"]
    peer.forgets = 5
    with pytest.raises(UpstreamUnreachable):
        await answer(adapter, at(peer))
    assert peer.forgets == 3


@pytest.mark.parametrize(("status", "error"), [(401, UpstreamUnauthorized), (403, UpstreamRejected),
                                               (500, UpstreamRejected), (307, UpstreamRejected)])  # fmt: skip
@pytest.mark.parametrize("when", ["opening", "calling"])
async def test_a_status_is_told_and_no_redirect_followed(adapter_of, peer, masker, status, error, when):
    masker.add("secret-of-the-peer")
    adapter = adapter_of()
    if when == "calling":
        await answer(adapter, at(peer))
    peer.status = status
    with pytest.raises(error) as caught:
        await answer(adapter, at(peer))
    assert caught.value.response.status == status
    assert "secret-of-the-peer" not in str(caught.value.as_problem())
    before = len(adapter._sessions._sessions)
    assert before == (1 if when == "calling" else 0)
    peer.status = 200
    assert await answer(adapter, at(peer)) == "ok"


async def test_one_bad_tool_does_not_lose_the_others(adapter_of, peer):
    peer.tools = [{"name": "good", "inputSchema": {"type": "object"}}, {"name": "none"}, {"inputSchema": {}}, 7, {"name": ""},
                  {"name": "odd", "description": 7, "inputSchema": [1], "outputSchema": "x", "annotations": 3}]  # fmt: skip
    adapter = adapter_of()
    found = await adapter.discover(call_of(adapter, at(peer)))
    tools = {tool["name"]: tool for tool in json.loads(found.raw)["tools"]}
    assert list(tools) == ["p.good", "p.none", "p.odd"]
    assert tools["p.odd"]["inputs"] == {"type": "object"}


@pytest.mark.parametrize(("result", "value"), [
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
    assert await answer(adapter_of(), at(peer)) == value


async def test_what_is_no_result_is_malformed(adapter_of, peer):
    peer.result = {"content": 7}
    adapter = adapter_of()
    with pytest.raises(UpstreamMalformed):
        await answer(adapter, at(peer))
    peer.result = {"content": [{"type": "text", "text": "ok"}]}
    assert await answer(adapter, at(peer)) == "ok"
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
        assert await answer(adapter, {**raw, "tool_name": "echo"}, {"message": "hello"}) == "Echo: hello"
        add = next(name for name in names if name.endswith(("add", "get-sum"))).partition(".")[2]
        assert "5" in str(await answer(adapter, {**raw, "tool_name": add}, {"a": 2, "b": 3}))
    finally:
        await adapter.aclose()
        if process is not None:
            process.kill()
            process.wait()


def test_without_the_library_the_protocol_says_what_it_needs():
    code = """
import sys
class Hidden:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ("mcp", "mcp_types"):
            raise ModuleNotFoundError(name=name)
sys.meta_path.insert(0, Hidden())
from app.errors import InvalidInput
from app.protocols.registry import PROTOCOLS
try:
    PROTOCOLS["mcp"].load()(None).prepare({})
except InvalidInput as error:
    print(error.detail, error.errors[0].pointer)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "pip install 'utcp-gateway[mcp]'. /call_template_type" in done.stdout, done.stderr
