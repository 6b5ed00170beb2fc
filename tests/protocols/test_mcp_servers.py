"""Servers of MCP that request something of their client, and programs that end before they have spoken."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from app.core.errors import UpstreamError, UpstreamRejected, UpstreamTimeout, UpstreamUnreachable
from app.core.settings import Settings
from app.outbound.http import Engine
from app.protocols.base import AdapterContext
from app.security.masking import Masker
from tests.protocols.calling import call_of, read_response
from tests.protocols.peers.mcp import McpPeer

if TYPE_CHECKING:
    # It imports the SDK, which takes as long as all else that is collected of a protocol.
    from app.protocols.mcp.adapter import McpAdapter

SCRIPT = Path(__file__).with_name("mcp_requests.py")
SECRET = "secret-of-a-program-77"
METHODS = ["elicitation/create", "sampling/createMessage", "roots/list", "something/else"]


@pytest.fixture
async def adapter(engine: Engine, masker: Masker) -> AsyncIterator[McpAdapter]:
    masker.add(SECRET)
    settings = Settings(_env_file=None, programs=(sys.executable,))
    from app.protocols.mcp.adapter import McpAdapter

    running = McpAdapter(AdapterContext(engine, engine.network, masker, settings))
    yield running
    await running.aclose()


def program(*words: str, tool: str = "x") -> dict[str, Any]:
    server = {"command": sys.executable, "args": list(words)}
    return {"call_template_type": "mcp", "tool_name": tool, "config": {"mcpServers": {"p": server}}}


@pytest.mark.parametrize("method", METHODS)
async def test_a_request_of_the_server_gets_the_error_method_not_found(
    adapter: McpAdapter, method: str
) -> None:
    tool = program(str(SCRIPT), tool="asks")
    answer = json.loads(await read_response(adapter, tool, {"method": method, "as_result": True}))
    assert answer["error"] == {
        "code": -32601,
        "message": "The client, a gateway, does not support this.",
        "data": method,
    }
    with pytest.raises(UpstreamRejected) as caught:
        await read_response(adapter, tool, {"method": method})
    assert method in caught.value.detail
    assert "does not support" in caught.value.detail
    # A later call of the same session is not told of it.
    with pytest.raises(UpstreamRejected) as caught:
        await read_response(adapter, tool, {"method": "ping"})
    assert "does not support" not in caught.value.detail


async def test_a_ping_of_the_server_is_answered(adapter: McpAdapter) -> None:
    tool = program(str(SCRIPT), tool="asks")
    answer = json.loads(await read_response(adapter, tool, {"method": "ping", "as_result": True}))
    assert answer["result"] == {}


async def test_a_call_that_waits_for_such_a_request_names_it_at_its_end(adapter: McpAdapter) -> None:
    tool = program(str(SCRIPT), tool="waits")
    with pytest.raises(UpstreamTimeout) as caught:
        await read_response(adapter, tool, {"method": "elicitation/create"}, seconds=1)
    assert "elicitation/create" in caught.value.detail


async def test_input_that_a_result_requests_is_named(adapter: McpAdapter) -> None:
    peer = McpPeer()
    requests = {"1": {"method": "elicitation/create", "params": {}}, "2": {"method": "a\nb"}, "3": 7}
    peer.result = {"resultType": "input_required", "inputRequests": requests, "requestState": "s"}
    async with peer.serve():
        with pytest.raises(UpstreamError) as caught:
            await read_response(adapter, peer.template())
    assert "a\nb" not in caught.value.detail


ENDED = [
    (["-c", f"import sys; print('no such key: {SECRET}', file=sys.stderr); sys.exit(3)"], 3),
    (["-c", "import sys; sys.stderr.write('x' * 100_000 + ' at the end'); sys.exit(1)"], 1),
    (["-c", "import os, sys; print('killed', file=sys.stderr, flush=True); os.kill(os.getpid(), 9)"], -9),
]  # fmt: skip


@pytest.mark.parametrize(("words", "code"), ENDED, ids=["text", "long", "signal"])
async def test_a_program_that_ends_at_once_says_why(adapter: McpAdapter, words: list[str], code: int) -> None:
    with pytest.raises(UpstreamUnreachable) as caught:
        await adapter.discover(call_of(adapter, program(*words)))
    error = caught.value
    assert not error.request_sent
    assert f"exit code {code}" in error.detail
    body = error.response.body
    assert body["exit_code"] == code
    assert 0 < len(body["stderr"]) <= 8192
    assert body["stderr"].rstrip().endswith(("***", "at the end", "killed"))
    assert SECRET not in str(error.as_problem())


async def test_a_program_that_speaks_something_else_says_why(adapter: McpAdapter) -> None:
    words = ["-c", "import sys; print('usage: x', file=sys.stderr, flush=True); sys.stdin.read()"]
    call = call_of(adapter, program(*words))
    call.limits = type(call.limits)(connect=0.5, first_byte=1)
    with pytest.raises(UpstreamTimeout) as caught:
        await adapter.discover(call)
    assert caught.value.response.body == {"stderr": "usage: x\n"}


async def test_a_program_that_ends_during_a_call_says_why(adapter: McpAdapter) -> None:
    code = SCRIPT.read_text().replace(
        '    params = message["params"]\n', '    print("out of memory", file=sys.stderr)\n    sys.exit(9)\n'
    )
    with pytest.raises(UpstreamUnreachable) as caught:
        await read_response(adapter, program("-c", code, tool="asks"), {"method": "ping"})
    assert caught.value.request_sent
    assert caught.value.response.body == {"exit_code": 9, "stderr": "out of memory\n"}
