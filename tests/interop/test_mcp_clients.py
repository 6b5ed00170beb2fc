"""The released clients of the Model Context Protocol, each in its modes, against the gateway."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.harness.upstream import Upstream
from tests.harness.upstream import upstream as run_upstream
from tests.interop.environments import install_mcp, install_node, interpreter, required
from tests.interop.mcp.fixture import TOOLSET, fixture_upstream, register

HERE = Path(__file__).parent / "mcp"
TOOLS = [
    "json_schema_2020_12_tool", "read_more", "test_audio_content", "test_embedded_resource", "test_error_handling",
    "test_image_content", "test_multiple_content_types", "test_simple_text", "test_tool_with_progress",
]  # fmt: skip
PYTHON = ("mcp2/auto", "mcp2/legacy", "mcp2/2026-07-28", "mcp1", "fastmcp", "langchain-mcp")
TYPESCRIPT = ("ts1", "ts2/legacy", "ts2/auto", "ts2/pinned", "ai-sdk")
CLIENTS = (*PYTHON, *TYPESCRIPT)
ERAS = ("legacy", "auto", "modern")
"""The modes of the Inspector."""
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
        yield Registry(gateway, site)


def run(client: str, url: str, key: str, calls: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Return what a client lists and gets."""
    arguments = [url, key, json.dumps(calls), client]
    if client in PYTHON:
        python = interpreter(client.partition("/")[0])
        return _output([str(python), str(HERE / "client_python.py"), *arguments])
    installed, node = required(install_mcp), required(install_node)
    with tempfile.TemporaryDirectory() as folder:
        for name in ("client.js", "package.json"):
            shutil.copy(HERE / name, folder)
        (Path(folder) / "node_modules").symlink_to(installed / "node_modules")
        return _output([str(node), str(Path(folder) / "client.js"), *arguments])


def inspect(url: str, key: str, era: str, home: Path, *method: str) -> str:
    """Return what the Inspector prints."""
    program = required(install_mcp) / "node_modules" / ".bin" / "mcp-inspector"
    command = [
        str(required(install_node)), str(program), "--cli", url, "--transport", "http",
        "--protocol-era", era, "--header", f"Authorization: Bearer {key}", *method,
    ]  # fmt: skip
    environment = {"PATH": os.environ["PATH"], "HOME": str(home)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    return done.stdout


def _output(command: list[str]) -> dict[str, Any]:
    environment = {"PATH": os.environ["PATH"]}
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False, env=environment)
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_lists_and_calls_the_tools_of_a_toolset(registry: Registry, client: str) -> None:
    url = f"{registry.gateway.url}/toolsets/{TOOLSET}/mcp"
    calls: list[tuple[str, dict[str, Any]]] = [
        ("test_simple_text", {}),
        ("test_image_content", {}),
        ("test_error_handling", {}),
    ]
    found = run(client, url, registry.gateway.key, calls)
    assert sorted(found["tools"]) == TOOLS
    text, image, error = found["results"]
    assert text == [False, [["text", "This is a simple text response for testing."]]]
    assert image[0] is False
    assert ["image", "image/png"] in image[1]
    # The adapter returns the text of an error to the model, without the flag.
    assert client == "langchain-mcp" or error[0] in (True, "raised"), error
    assert "500" in json.dumps(error)


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_calls_tools_of_the_registry(registry: Registry, client: str) -> None:
    url = f"{registry.gateway.url}/mcp/all"
    wrong = ("json_schema_2020_12_tool", {"unknown": 1})
    calls: list[tuple[str, dict[str, Any]]] = [
        ("echo_open", {}), ("echo_withKey", {}), ("echo_withLogin", {}), ("echo_withToken", {}),
        ("echo_withOAuth", {}),
        ("fixture_" + wrong[0], wrong[1]), ("no_such_tool", {}),
    ]  # fmt: skip
    found = run(client, url, registry.gateway.key, calls)
    assert {"echo_open", "echo_withKey", "fixture_test_simple_text"} <= set(found["tools"])
    *good, invalid, unknown = found["results"]
    assert [one[0] for one in good] == [False] * 5, good
    assert "unknown" in json.dumps(invalid)
    assert client == "langchain-mcp" or invalid[0] in (True, "raised")
    assert unknown[0] in (True, "raised")
    assert client in NO_UNKNOWN or "no_such_tool" in json.dumps(unknown)
    assert "canary" not in json.dumps(found)
    assert not any(
        f"token-{number}" in json.dumps(found) for number in range(1, registry.upstream.tokens + 1)
    )
    sent = [
        dict(one["headers"]).get("Authorization")
        for one in registry.upstream.requests
        if one["path"] == "/echo/oauth"
    ]
    assert sent[-1] == f"Bearer token-{registry.upstream.tokens}"


@pytest.mark.parametrize("client", CLIENTS)
def test_each_client_uses_a_large_catalogue_by_the_meta_tools(registry: Registry, client: str) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("find_tools", {"query": "simple text"}),
        ("describe_tools", {"names": ["fixture_test_simple_text"]}),
        ("call_tool", {"name": "fixture_test_simple_text", "arguments": {}}),
    ]
    found = run(client, f"{registry.gateway.url}/mcp/search", registry.gateway.key, calls)
    assert "echo_open" not in found["tools"]
    searched, described, called = found["results"]
    assert "fixture_test_simple_text" in json.dumps(searched)
    assert "fixture_test_simple_text" in json.dumps(described)
    assert called == [False, [["text", "This is a simple text response for testing."]]]


@pytest.mark.parametrize("era", ERAS)
def test_the_inspector_finds_no_fault_in_the_list(registry: Registry, tmp_path: Path, era: str) -> None:
    gateway = registry.gateway
    for method in (
        ["--method", "tools/list", "--strict"],
        ["--method", "tools/call", "--tool-name", "fixture_test_simple_text"],
    ):
        shown = inspect(f"{gateway.url}/mcp/all", gateway.key, era, tmp_path, *method)
        assert "fixture_test_simple_text" in shown or "simple text response" in shown
