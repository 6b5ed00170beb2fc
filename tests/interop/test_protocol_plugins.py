"""The released plugins of UTCP 1.x call the servers that our adapters call: both must see the same result."""

import asyncio
import base64
import contextlib
import json
import os
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from app.core.processes import run_child_process
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext, Call, Result
from app.protocols.registry import Adapters
from app.security.masking import Masker
from tests.interop.environments import interpreter
from tests.protocols.kits.all import KITS, settings
from tests.protocols.kits.base import Upstream

HERE = Path(__file__).parent

Json = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Case:
    """A call of one protocol: its template and arguments, made of the kit's running upstream."""

    protocol: str
    name: str
    make: Callable[[Any, Upstream], Json]
    arguments: Json
    tool: str = "m.echo"


def http(kit: Any, upstream: Upstream) -> Json:
    template: Json = kit.template(upstream, "echo")
    return template


def lines(kit: Any, upstream: Upstream) -> Json:
    return {**kit.template(upstream, "stream"), "http_method": "GET", "body_field": None}


def events(kit: Any, upstream: Upstream) -> Json:
    return {**kit.template(upstream, "stream"), "body_field": None}


def in_json(kit: Any, upstream: Upstream) -> Json:
    return {**kit.template(upstream, "echo"), "request_data_format": "json", "request_data_template": None}


def in_text(kit: Any, upstream: Upstream) -> Json:
    text = "GET UTCP_ARG_word_UTCP_ARG; UTCP_ARG_number_UTCP_ARG"
    return {**kit.template(upstream, "echo"), "request_data_template": text}


def raw(kit: Any, upstream: Upstream) -> Json:
    return {**in_text(kit, upstream), "response_byte_format": None}


def message(kit: Any, upstream: Upstream) -> Json:
    arguments = {"word": "UTCP_ARG_word_UTCP_ARG", "text": "n = UTCP_ARG_number_UTCP_ARG"}
    return {**kit.template(upstream, "echo"), "message": {"key": "", "arguments": arguments}}


def as_text(kit: Any, upstream: Upstream) -> Json:
    return {**message(kit, upstream), "response_format": "text"}


def in_a_string(kit: Any, upstream: Upstream) -> Json:
    text = '{"key": "", "arguments": {"word": "UTCP_ARG_word_UTCP_ARG", "number": UTCP_ARG_number_UTCP_ARG}}'
    return {**kit.template(upstream, "echo"), "message": text}


def command(kit: Any, upstream: Upstream) -> Json:
    template = kit.template(upstream, "echo")
    steps = [
        {**step, "command": step["command"].rpartition(" ")[0] + " UTCP_ARG_word_UTCP_END"}
        for step in template["commands"]
    ]
    return {**template, "commands": steps, "inherit_env_vars": None}


def server(kit: Any, upstream: Upstream) -> Json:
    template = kit.template(upstream, "echo")
    (settings_of,) = template["config"]["mcpServers"].values()
    return {**template, "config": {"mcpServers": {"server": settings_of}}}


def file(kit: Any, upstream: Upstream) -> Json:
    template: Json = kit.template(upstream, "echo")
    return template


WORDS = {"word": "wörld", "number": 7}
CASES = [
    Case("http", "body", http, {"body": {"a": [1, "x"]}}),
    Case("streamable_http", "lines", lines, {}),
    Case("sse", "events", events, {}),
    Case("tcp", "json", in_json, WORDS),
    Case("tcp", "text", in_text, WORDS),
    Case("tcp", "bytes", raw, WORDS),
    Case("udp", "json", in_json, WORDS),
    Case("udp", "text", in_text, WORDS),
    Case("udp", "bytes", raw, WORDS),
    Case("websocket", "json", message, WORDS),
    Case("websocket", "text", as_text, WORDS),
    Case("websocket", "string", in_a_string, WORDS),
    Case("graphql", "document", file, WORDS),
    Case("mcp", "tool", server, {"body": WORDS}, tool="m.server.echo"),
    Case("cli", "json", command, {"word": '{"a": [1, "it\'s"]}'}),
    Case("cli", "text", command, {"word": "a $HOME; `id` \\n"}),
    Case("text", "content", file, {}),
    Case("file", "content", file, {}),
]


@pytest.fixture(scope="module")
async def upstreams() -> AsyncIterator[dict[str, tuple[Any, Upstream]]]:
    """The upstreams of all cases."""
    protocols = {case.protocol for case in CASES}
    async with contextlib.AsyncExitStack() as stack:
        yield {
            kit.protocol: (kit, await stack.enter_async_context(kit.serve()))
            for kit in KITS
            if kit.protocol in protocols
        }


@pytest.fixture(scope="module")
async def theirs(upstreams: dict[str, tuple[Any, Upstream]]) -> dict[Case, Any]:
    """The results of the plugins, from one process."""
    python = await asyncio.to_thread(interpreter, "utcp-plugins")
    calls = [
        {
            "protocol": case.protocol, "tool": case.tool, "arguments": case.arguments,
            "template": case.make(*upstreams[case.protocol]),
        }
        for case in CASES
    ]  # fmt: skip
    command = (str(python), str(HERE / "client_plugins.py"), json.dumps(calls))
    environment = {"PATH": os.environ["PATH"]}
    async with run_child_process(*command, env=environment, stderr=asyncio.subprocess.PIPE) as child:
        async with asyncio.timeout(240):
            out, err = await child.communicate()
    assert child.returncode == 0, err.decode()[-3000:]
    return dict(zip(CASES, json.loads(out.decode().strip().splitlines()[-1]), strict=True))


async def value(result: Result) -> Any:
    """Return our response as a UTCP client would decode it."""
    body = await result.read()
    await result.aclose()
    media = result.media_type.partition(";")[0]
    if media == "application/json":
        return orjson.loads(body)
    if media.startswith("text/"):
        return body.decode()
    return {"base64": base64.b64encode(body).decode()}


def decoded(found: Any) -> Any:
    """Decode a string that is JSON, because clients serialise it differently."""
    if isinstance(found, str):
        with contextlib.suppress(orjson.JSONDecodeError):
            return orjson.loads(found)
    return found


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.protocol}-{case.name}")
async def test_plugin_and_gateway_return_the_same_result(
    case: Case, upstreams: dict[str, tuple[Any, Upstream]], theirs: dict[Case, Any]
) -> None:
    engine = Engine(Guard(allow_networks=["127.0.0.0/8"]))
    adapters = Adapters(AdapterContext(engine, engine.network, Masker(), settings()))
    adapter = adapters[case.protocol]
    # Stored templates have no null members, which a UTCP client treats as absent.
    given = case.make(*upstreams[case.protocol]).items()
    template = {key: member for key, member in given if member is not None or key == "response_byte_format"}
    deadline = asyncio.get_running_loop().time() + 30
    call = Call(adapter.prepare(template), case.arguments, (), deadline, Limits(), "id")
    try:
        ours = await value(await adapter.call(call))
    finally:
        await adapters.aclose()
        await engine.aclose()
    found = theirs[case]
    assert "ok" in found, found
    assert decoded(found["ok"]) == decoded(ours)
