"""Providers of `mcp`, registered and called through a running gateway: over HTTP, and as a program."""

import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.beside import beside
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.protocols.kits.mcp import SCRIPT, McpUpstream, mcp_server

SECRET = "secret-of-an-mcp-server-31"


@pytest.fixture(scope="module")
def client(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[httpx2.Client]:
    with (
        serve(servers, tmp_path_factory.mktemp("gateway"), PROGRAMS=sys.executable) as gateway,
        gateway.client() as made,
    ):
        yield made


@pytest.fixture(scope="module")
def peer() -> Iterator[McpUpstream]:
    found: list[McpUpstream] = []

    @asynccontextmanager
    async def running() -> AsyncIterator[str]:
        async with mcp_server("http") as upstream:
            found.append(upstream)
            yield upstream.place

    with beside(running()):
        yield found[0]


@pytest.mark.parametrize("spelling", ["provider_type", "call_template_type"])
def test_servers_of_two_transports_are_one_provider(
    client: httpx2.Client, peer: McpUpstream, spelling: str
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        name = f"m_{spelling}"
        config = {"mcpServers": {
            "far": {"transport": "http", "url": peer.place, "headers": {"X-Canary": "${KEY}"}},
            "near": {"transport": "stdio", "command": sys.executable, "args": ["-P", str(SCRIPT), "stdio", folder],
                     "env": {"X_CANARY": "${KEY}"}},
        }}  # fmt: skip
        template = {spelling: "mcp", "config": config, "register_resources_as_tools": True}
        body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        names = [one["name"] for one in client.get(f"/tools?provider={name}&limit=100").json()["items"]]
        report: Any = made.json()["report"]
        assert {one["pointer"] for one in report["operations"] if not one.get("name")} == set(), report
        echo = {
            which: next(n for n in names if which in n and n.endswith("echo")) for which in ("far", "near")
        }
        for which in ("far", "near"):
            answer = client.post(f"/tools/{echo[which]}/call", json={"body": {"q": [1, None]}})
            assert answer.status_code == 200, answer.text
            assert answer.json() == {"q": [1, None]}
            described = client.post(f"/tools/{echo[which]}/call?dry_run=true", json={"body": {}})
            assert described.status_code == 200, described.text
            assert SECRET not in described.text
        assert peer.seen[-1]["x-canary"] == SECRET
        assert SECRET in (Path(folder) / "seen").read_text()
        steps = next(n for n in names if "far" in n and n.endswith("steps"))
        with client.stream(
            "POST", f"/tools/{steps}/call", json={}, headers={"Accept": "text/event-stream"}
        ) as stream:
            text = "".join(stream.iter_text())
        assert text.count("event: progress") == 3, text
        assert '"done"' in text
        rejected = client.post(f"/tools/{echo['far'].removesuffix('echo')}rejects/call", json={})
        assert rejected.status_code == 422
        assert any(n.endswith("resource_plain") for n in names)
        plain = next(n for n in names if "far" in n and n.endswith("resource_plain"))
        assert client.post(f"/tools/{plain}/call", json={}).text.strip('"') == "plain text"
        shown = client.get(f"/tools/{echo['far']}").text + client.get("/export").text
        assert SECRET not in shown
        assert client.post(f"/providers/{name}/refresh").status_code == 200
        assert client.delete(f"/providers/{name}").status_code == 204
        assert client.post(f"/tools/{echo['far']}/call", json={}).status_code == 404


def test_a_program_is_denied_where_none_is_allowed(gateway: RunningGateway) -> None:
    template = {"call_template_type": "mcp", "config": {"mcpServers": {"x": {"command": sys.executable}}}}
    with gateway.client() as other:
        refused = other.post("/providers", json={"name": "p", "source": {"call_template": template}})
    assert refused.status_code == 422
    assert "PROGRAMS" in refused.text
