"""The released clients of the Model Context Protocol, each in its modes, against the gateway."""

import json
import os
import subprocess
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from app.toolsets.meta_tools import META_TOOL_NAMES
from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream
from tests.harness.upstream import upstream as run_upstream
from tests.interop.clients import ask_program, place_program
from tests.interop.environments import install_mcp, install_node, interpreter, required
from tests.interop.mcp.fixture import TOOLSET, fixture_upstream, register
from tests.protocols.kits.mcp import mcp_server

HERE = Path(__file__).parent / "mcp"
TOOLS = [
    "json_schema_2020_12_tool", "read_more", "test_audio_content", "test_embedded_resource", "test_error_handling",
    "test_header_input", "test_image_content", "test_multiple_content_types", "test_simple_text", "test_tool_with_progress",
]  # fmt: skip
PYTHON = ("mcp2/auto", "mcp2/legacy", "mcp2/2026-07-28", "mcp1", "fastmcp", "langchain-mcp")
TYPESCRIPT = ("ts1", "ts2/legacy", "ts2/auto", "ts2/pinned", "ai-sdk")
CLIENTS = (*PYTHON, *TYPESCRIPT)
ERAS = ("legacy", "auto", "modern")
"""The modes of the Inspector."""
AGENTS = "agents"
KINDS = {
    "open": "echo_open", "key": "echo_withKey", "login": "echo_withLogin", "token": "echo_withToken",
    "oauth": "echo_withOAuth", "image": "fixture_test_image_content", "error": "fixture_test_error_handling",
    "schema": "fixture_json_schema_2020_12_tool",
}  # fmt: skip
"""The names of tools in the registry by what they show."""
ADDRESSES = {"/mcp": KINDS, f"/toolsets/{AGENTS}/mcp": {kind: f"{kind}_here" for kind in KINDS}}
"""The names of these tools at each address; the toolset has others for all of them."""
SENT = {
    "open": ("/echo/open", "", ""),
    "key": ("/echo/key", "api_key=canary-key", ""),
    "login": ("/echo/login", "", f"Basic {b64encode(b'user:canary-password').decode()}"),
    "token": ("/echo/token", "", "Bearer canary-token"),
    "oauth": ("/echo/oauth", "", ""),
}
"""What the upstream gets by the kind of credentials: path, query and Authorization; that of OAuth has a
token that the upstream has issued.
"""
LARGE_ADDRESSES = ("/mcp", "/toolsets/large/mcp")
NO_PROGRESS = ("langchain-mcp", "ai-sdk")
"""Clients by which a program cannot ask for progress."""
NO_UNKNOWN = ("langchain-mcp", "ai-sdk")
"""Clients that look a tool up in their own list before they call it."""


@dataclass
class Registry:
    gateway: RunningGateway
    upstream: Upstream


@pytest.fixture(scope="module")
def registry(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A gateway with a tool of each kind of credentials, and the toolset of the conformance suites."""
    with (
        run_upstream() as site,
        fixture_upstream() as fixture,
        serve(servers, tmp_path_factory.mktemp("mcp")) as gateway,
        gateway.client() as admin,
    ):
        body = {"name": "echo", "source": {"document": json.dumps(site.openapi())}}
        created = admin.post("/providers", json=body)
        assert created.status_code == 201, created.text
        for slot, secret in {
            "key": {"kind": "api_key", "value": "canary-key"},
            "login": {"kind": "basic", "username": "user", "password": "canary-password"},
            "token": {"kind": "bearer", "token": "canary-token"},
            "oauth": {
                "kind": "oauth2",
                "client_id": "client",
                "client_secret": "canary-client",
                "token_url": f"{site.url}/token",
            },
        }.items():
            stored = admin.put(f"/providers/echo/credentials/{slot}", json=secret)
            assert stored.status_code < 300, stored.text
        register(admin, fixture)
        # Each client calls the tool that fails: without a breaker, since all of them are one caller.
        changed = admin.patch("/providers/fixture", json={"limits": {"breaker_failures": 0}})
        assert changed.status_code == 200, changed.text
        # `echo_open` is the tool `echo.open`.
        changes = {
            name.replace("_", ".", 1): {"name": f"{kind}_here"} for kind, name in ADDRESSES["/mcp"].items()
        }
        definition = {"providers": ["echo", "fixture"], "changes": changes}
        made = admin.put(f"/toolsets/{AGENTS}", json={"definition": definition})
        assert (made.status_code, made.json()["problems"]) == (201, []), made.text
        yield Registry(gateway, site)


@pytest.fixture(scope="module")
def large(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    """A gateway with more tools than are listed themselves, and a toolset with all of them."""

    def tool(number: int) -> dict[str, Any]:
        template = {"call_template_type": "http", "url": f"{site.url}/echo/{number}", "http_method": "GET"}
        description = f"Read shelf number {number}."
        inputs = {"type": "object", "properties": {}}
        name = f"read_{number}"
        return {"name": name, "description": description, "inputs": inputs, "tool_call_template": template}

    with (
        run_upstream() as site,
        serve(servers, tmp_path_factory.mktemp("large")) as gateway,
        gateway.client() as admin,
    ):
        tools = [tool(number) for number in range(60)]
        manual = {"utcp_version": "1.0.1", "manual_version": "1.0.0", "tools": tools}
        created = admin.post("/providers", json={"name": "many", "source": {"manual": manual}})
        assert created.status_code == 201, created.text
        made = admin.put("/toolsets/large", json={"definition": {"providers": ["many"]}})
        assert made.status_code == 201, made.text
        yield Registry(gateway, site)


def run(
    client: str, url: str, key: str, calls: list[tuple[str, dict[str, Any]]], *options: str
) -> dict[str, Any]:
    """Return what a client lists and gets; with the option `progress`, it asks for that of its calls."""
    if client in PYTHON:
        program = [str(interpreter(client.partition("/")[0])), str(HERE / "client_python.py")]
    else:
        program = [str(required(install_node)), str(place_program(HERE / "client.js", required(install_mcp)))]
    return ask_program(program, url, key, calls, client, *options)


def inspect(url: str, key: str, era: str, home: Path, *method: str, fails: bool = False) -> str:
    """Return what the Inspector prints; with `fails`, of a call whose failure its exit code says, too."""
    program = required(install_mcp) / "node_modules" / ".bin" / "mcp-inspector"
    command = [
        str(required(install_node)), str(program), "--cli", url, "--transport", "http",
        "--protocol-era", era, "--header", f"Authorization: Bearer {key}", *method,
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert bool(done.returncode) is fails, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout + done.stderr if fails else done.stdout


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_lists_and_calls_the_tools_of_a_toolset(registry: Registry, client: str) -> None:
    url = f"{registry.gateway.url}/toolsets/{TOOLSET}/mcp"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("test_simple_text", {}),
        ("test_image_content", {}),
        ("test_error_handling", {}),
        ("test_header_input", {"region": "Zürich"}),
    ]
    found = run(client, url, registry.gateway.key, calls)
    assert sorted(found["tools"]) == TOOLS
    text, image, error, in_header = found["results"]
    assert text == [False, [["text", "This is a simple text response for testing."]]]
    # Those of 2026-07-28 have sent the header, without which the call is rejected.
    assert in_header[0] is False, in_header
    assert image[0] is False
    assert ["image", "image/png"] in image[1]
    # The adapter returns the text of an error to the model, without the flag.
    assert client == "langchain-mcp" or error[0] in (True, "raised"), error
    assert "500" in json.dumps(error)


@pytest.mark.parametrize("address", ADDRESSES)
@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_calls_tools_of_the_registry_and_of_a_toolset(
    registry: Registry, client: str, address: str
) -> None:
    names = ADDRESSES[address]
    calls: list[tuple[str, dict[str, Any]]] = [
        *((names[kind], {}) for kind in SENT),
        (names["image"], {}),
        (names["error"], {}),
        (names["schema"], {"unknown": 1}),
        ("no_such_tool", {}),
    ]
    first = len(registry.upstream.requests)
    found = run(client, f"{registry.gateway.url}{address}", registry.gateway.key, calls)
    assert set(names.values()) <= set(found["tools"])
    *good, image, error, invalid, unknown = found["results"]
    assert [one[0] for one in good] == [False] * len(SENT), good
    assert_credentials_were_sent(registry.upstream, first)
    assert image[0] is False
    assert ["image", "image/png"] in image[1]
    assert "500" in json.dumps(error)
    assert "unknown" in json.dumps(invalid)
    # The adapter returns the text of an error to the model, without the flag.
    assert client == "langchain-mcp" or (error[0] in (True, "raised") and invalid[0] in (True, "raised"))
    assert unknown[0] in (True, "raised")
    assert client in NO_UNKNOWN or "no_such_tool" in json.dumps(unknown)
    assert_no_secrets(registry.upstream, json.dumps(found))


def assert_credentials_were_sent(upstream: Upstream, first: int) -> None:
    """Each request to the upstream, from the one with the index `first` on, had the stored credentials."""
    sent = {}
    for one in upstream.requests[first:]:
        path, _, query = one["path"].partition("?")
        sent[path] = (query, dict(one["headers"]).get("Authorization", ""))
    expected = {path: (query, header) for path, query, header in SENT.values()}
    expected["/echo/oauth"] = ("", f"Bearer token-{upstream.tokens}")
    assert {path: sent.get(path) for path in expected} == expected


def assert_no_secrets(upstream: Upstream, shown: str) -> None:
    """No stored credential, and no token that was got with one, is in a text."""
    assert "canary" not in shown
    assert not any(f"token-{number}" in shown for number in range(1, upstream.tokens + 1))


@pytest.mark.parametrize("address", LARGE_ADDRESSES)
@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_uses_a_large_catalogue_by_the_meta_tools(
    large: Registry, client: str, address: str
) -> None:
    first = len(large.upstream.requests)
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find_tools", {"query": "Read shelf number 17"}),
        ("describe_tools", {"names": ["many_read_17"]}),
        ("call_read_tool", {"name": "many_read_17", "arguments": {}}),
        ("call_tool", {"name": "many_read_18"}),
        ("call_tool", {"name": "many_raed_18"}),
    ]
    found = run(client, f"{large.gateway.url}{address}", large.gateway.key, calls)
    assert sorted(found["tools"]) == sorted(META_TOOL_NAMES)
    searched, described, called, other, unknown = found["results"]
    assert json.dumps(searched).count("many_read_17(") == 1
    assert "inputSchema" in json.dumps(described)
    assert called == other == [False, [["text", '{"ok": true}']]]
    assert client == "langchain-mcp" or unknown[0] in (True, "raised")
    assert "many_read_" in json.dumps(unknown)
    assert [one["path"] for one in large.upstream.requests[first:]] == ["/echo/17", "/echo/18"]


@pytest.fixture(scope="module")
def reporting(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with the tools of an MCP server of the official SDK, and with one whose upstream sends events."""

    @asynccontextmanager
    async def running() -> AsyncIterator[str]:
        async with mcp_server("http") as upstream:
            yield upstream.place

    with (
        beside(running()) as url,
        fixture_upstream() as fixture,
        serve(servers, tmp_path_factory.mktemp("reporting")) as gateway,
        gateway.client() as admin,
    ):
        register(admin, fixture)
        template = {"call_template_type": "mcp", "config": {"mcpServers": {"kit": {"url": url}}}}
        made = admin.post("/providers", json={"name": "steps", "source": {"call_template": template}})
        assert made.status_code == 201, made.text
        yield gateway


@pytest.mark.parametrize("client", [one for one in CLIENTS if one not in NO_PROGRESS])
def test_each_client_gets_the_progress_of_upstreams(reporting: RunningGateway, client: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("steps_kit_steps", {}),
        ("fixture_test_tool_with_progress", {}),
    ]
    url = f"{reporting.url}/mcp/all"
    found = run(client, url, reporting.key, calls, "progress")
    assert [one[0] for one in found["results"]] == [False, False], found["results"]
    of_server, of_events = found["progress"][:3], found["progress"][3:]
    assert of_server == [[n, 3, f"step {n}"] for n in range(3)]
    assert [one[0] for one in of_events] == [1, 2, 3]
    assert [json.loads(one[2]) for one in of_events] == [{"done": n} for n in (0, 50, 100)]
    assert run(client, url, reporting.key, calls)["progress"] == []


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_finds_no_fault_in_the_list(registry: Registry, tmp_path: Path, era: str) -> None:
    gateway = registry.gateway
    for address, names in ADDRESSES.items():
        url = f"{gateway.url}{address}"
        shown = inspect(url, gateway.key, era, tmp_path, "--method", "tools/list", "--strict")
        listed = {tool["name"] for tool in json.loads(shown)["tools"]}
        assert set(names.values()) <= listed


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_calls_tools(registry: Registry, tmp_path: Path, era: str) -> None:
    gateway = registry.gateway

    def call(address: str, name: str, *arguments: str, fails: bool = False) -> str:
        method = ["--method", "tools/call", "--tool-name", name, *arguments]
        return inspect(f"{gateway.url}{address}", gateway.key, era, tmp_path, *method, fails=fails)

    # Each call is a process. What the gateway sends upstream for each kind of credentials, the other clients show.
    shown = [call(address, names["token"]) for address, names in ADDRESSES.items()]
    assert all('\\"ok\\": true' in one for one in shown), shown
    address, names = next(iter(ADDRESSES.items()))
    shown += [
        call(address, names["image"]),
        call(address, names["error"], fails=True),
        call(address, names["schema"], "--tool-arg", "unknown=1", fails=True),
        call(address, "no_such_tool", fails=True),
    ]
    image, error, invalid, unknown = shown[-4:]
    assert '"mimeType": "image/png"' in image
    assert "HTTP 500" in error
    assert "/unknown" in invalid
    assert "no_such_tool" in unknown
    assert_no_secrets(registry.upstream, "".join(shown))


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_uses_a_large_catalogue_by_the_meta_tools(
    large: Registry, tmp_path: Path, era: str
) -> None:
    for address in LARGE_ADDRESSES:
        method = [
            "--method",
            "tools/call",
            "--tool-name",
            "call_read_tool",
            "--tool-arg",
            "name=many_read_17",
        ]
        shown = inspect(f"{large.gateway.url}{address}", large.gateway.key, era, tmp_path, *method)
        assert '\\"ok\\": true' in shown
