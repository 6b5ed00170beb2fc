"""Providers of `mcp`, registered and called through a running gateway: over HTTP, and as a program."""

import json
import sys
import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.harness.beside import beside
from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway, run_command, serve
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
            response = client.post(f"/tools/{echo[which]}/call", json={"body": {"q": [1, None]}})
            assert response.status_code == 200, response.text
            assert response.json() == {"q": [1, None]}
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
        rejected = other.post("/providers", json={"name": "p", "source": {"call_template": template}})
    assert rejected.status_code == 422
    assert "PROGRAMS" in rejected.text


def test_a_manual_as_utcp_clients_write_it_is_called_by_the_names_of_its_tools(
    client: httpx2.Client, peer: McpUpstream
) -> None:
    """Each tool is called `server.tool`, and has the template of the whole manual."""
    with tempfile.TemporaryDirectory() as folder:
        servers = {
            "far": {"transport": "http", "url": peer.place},
            "near": {"command": sys.executable, "args": ["-P", str(SCRIPT), "stdio", folder]},
        }
        template = {
            "name": "docs",
            "call_template_type": "mcp",
            "auth": None,
            "config": {"mcpServers": servers},
            "register_resources_as_tools": False,
        }
        names = ("far.echo", "docs.near.echo", "lost")
        tools = [{"name": name, "inputs": {}, "tool_call_template": template} for name in names]
        body = {"name": "docs", "source": {"manual": {"utcp_version": "1.0.1", "tools": tools}}}
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        outcomes = {one["source_key"]: one for one in made.json()["report"]["operations"]}
        assert outcomes["lost"]["outcome"] == "skipped"
        assert "server of the tool" in outcomes["lost"]["reason"]
        for name in names[:2]:
            called = client.post(f"/tools/{outcomes[name]['name']}/call", json={"body": {"q": name}})
            assert called.json() == {"q": name}, called.text
        one = {"provider": "docs", "name": "near_several", "call_template": template}
        assert client.post("/tools", json=one).status_code == 201
        assert client.post("/tools/docs.near_several/call", json={}).json() == ["one", {"two": 2}]
        rejected = client.post("/tools", json={**one, "name": "several"}).json()
        assert rejected["errors"][0]["pointer"] == "/call_template/config/mcpServers"
        assert rejected["errors"][0]["expected"] == ["far", "near"]


def test_a_server_that_cannot_be_read_loses_no_other_and_is_named(
    client: httpx2.Client, peer: McpUpstream
) -> None:
    """At a refresh the tools of such a server are left as they are."""
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder) / "server.py"
        text = SCRIPT.read_text()
        script.write_text(text)
        words = ["-P", str(script), "stdio", folder]
        broken = "import os, sys; print('no token:', os.environ['TOKEN'], file=sys.stderr); sys.exit(4)"
        servers = {
            "far": {"url": peer.place},
            "near": {"command": sys.executable, "args": words},
            "broken": {"command": sys.executable, "args": ["-c", broken], "env": {"TOKEN": SECRET}},
        }
        body = {"name": "partly", "source": {"call_template": {
            "call_template_type": "mcp", "config": {"mcpServers": servers}}}}  # fmt: skip
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        (warning,) = (one for one in made.json()["report"]["warnings"] if "broken" in one["detail"])
        assert warning["pointer"] == "/source/call_template/config/mcpServers/broken"
        assert "exit code 4" in warning["detail"]
        assert "no token: ***" in warning["detail"]
        assert SECRET not in made.text + client.get("/providers/partly").text
        assert client.post("/tools/partly.near_several/call", json={}).json() == ["one", {"two": 2}]
        before = client.get("/tools?provider=partly&limit=100").json()["items"]
        assert {one["name"].partition(".")[2].partition("_")[0] for one in before} == {"far", "near"}

        script.write_text("import sys; sys.exit(5)")
        refreshed = client.post("/providers/partly/refresh")
        assert refreshed.status_code == 200, refreshed.text
        warnings = [one["detail"] for one in refreshed.json()["report"]["warnings"]]
        assert len([one for one in warnings if "'near'" in one and "exit code 5" in one]) == 1
        assert client.get("/tools?provider=partly&limit=100").json()["items"] == before
        notes = [
            one["notes"]
            for one in refreshed.json()["report"]["operations"]
            if one["name"].startswith("partly.near")
        ]
        assert notes
        assert all("could not be read" in one[0] for one in notes)

        script.write_text(text.replace("async def several(", "async def various("))
        assert client.post("/providers/partly/refresh").status_code == 200
        after = {one["name"] for one in client.get("/tools?provider=partly&limit=100").json()["items"]}
        assert {one["name"] for one in before} - after == {"partly.near_several"}
        assert after - {one["name"] for one in before} == {"partly.near_various"}


def test_where_no_server_can_be_read_the_error_names_each(client: httpx2.Client) -> None:
    code = "import sys; print('no such file', file=sys.stderr); sys.exit({})"
    servers = {str(n): {"command": sys.executable, "args": ["-c", code.format(n)]} for n in (6, 7)}
    template = {"call_template_type": "mcp", "config": {"mcpServers": servers}}
    for number, name in ((2, "both"), (1, "one")):
        config = {"mcpServers": dict(list(servers.items())[:number])}
        source = {"call_template": {**template, "config": config}}
        rejected = client.post("/providers", json={"name": name, "source": source})
        assert rejected.status_code == 502, rejected.text
        problem = rejected.json()
        assert all(f"exit code {n}" in problem["detail"] for n in (6, 7)[:number])
        assert problem["upstream_body"] == {"exit_code": 6, "stderr": "no such file\n"}
        assert client.get(f"/providers/{name}").status_code == 404


def test_the_configuration_of_an_mcp_client_is_a_provider(client: httpx2.Client, peer: McpUpstream) -> None:
    """As the documentation of servers gives it; secrets in it are sealed, and placeholders are variables."""
    with tempfile.TemporaryDirectory() as folder:
        pasted = {
            "mcpServers": {
                "near": {"command": sys.executable, "args": ["-P", str(SCRIPT), "stdio", folder],
                         "env": {"X_CANARY": SECRET}, "autoApprove": ["echo"]},
                "far": {"type": "http", "url": peer.place, "headers": {"X-Canary": "Bearer ${input:far-key}"}},
                "off": {"command": "/nowhere", "disabled": True},
            },
            "globalShortcut": "",
        }  # fmt: skip
        rejected = client.post("/providers?name=pasted", json=pasted)
        assert rejected.status_code == 422
        assert rejected.json()["variables"] == ["far_key"]
        body = {**pasted, "name": "pasted", "variables": {"far_key": {"value": SECRET}}, "tags": ["t"]}
        made = client.post("/providers", json=body)
        assert made.status_code == 201, made.text
        for which in ("near", "far"):
            called = client.post(f"/tools/pasted.{which}_echo/call", json={"body": {"q": which}})
            assert called.json() == {"q": which}, called.text
        assert peer.seen[-1]["x-canary"] == f"Bearer {SECRET}"
        assert SECRET in (Path(folder) / "seen").read_text()
        shown = made.text + client.get("/export").text + client.get("/tools/pasted.near_echo").text
        assert SECRET not in shown
        assert not [
            name for name in (one["name"] for one in made.json()["report"]["operations"]) if "off" in name
        ]
        assert client.post("/providers/pasted/refresh").status_code == 200


PASTES = [
    {"mcpServers": {"solo": {"serverUrl": "URL"}}},
    {"mcpServers": {"solo": {"httpUrl": "URL"}}},
    {"servers": {"solo": {"type": "http", "url": "URL"}}, "inputs": []},
    {"mcp": {"servers": {"solo": {"url": "URL"}}}},
]


@for_each("number", range(len(PASTES)))
@for_each("way", ["json", "yaml", "file", "source", "list"])
def test_the_configurations_of_several_clients_are_read_in_every_form_of_a_registration(
    client: httpx2.Client, peer: McpUpstream, number: int, way: str
) -> None:
    text = json.dumps(PASTES[number]).replace("URL", peer.place)
    pasted = json.loads(text)
    match way:
        case "json":
            made = client.post("/providers", json=pasted)
        case "yaml":
            made = client.post("/providers", content=text, headers={"Content-Type": "application/yaml"})
        case "file":
            files = {
                "file": ("mcp.json", text, "application/json"),
                "tags": (None, '["t"]', "application/json"),
            }
            made = client.post("/providers", files=files)
        case "source":
            made = client.post("/providers", json={"name": "solo", "source": {"document": pasted}})
        case _:
            made = client.post("/providers", json=[pasted])
    assert made.status_code in (200, 201, 207), made.text
    assert client.post("/tools/solo.several/call", json={}).json() == ["one", {"two": 2}]
    assert client.delete("/providers/solo").status_code == 204


WRONG_PASTES = [
    ({"mcpServers": {"a": {"command": "npx", "args": ["-y", "x"]}}}, "/mcpServers/a/command", "PROGRAMS="),
    ({"mcpServers": {"a": {"command": sys.executable, "env": {"PATH": "/x", "HOME": "/y", "KEY": "z"}}}},
     "/mcpServers/a/env/PATH", "PROGRAM_ENV_NAMES=PATH,HOME"),
    ({"mcpServers": {"a": {"url": 7}}}, "/mcpServers/a/url", ""),
    ({"mcpServers": {"a": {"type": "carrier-pigeon", "url": "https://x.example"}}}, "/mcpServers/a/transport", ""),
    ({"mcpServers": {"a": {}}}, "/mcpServers/a", ""),
    ({"mcpServers": {"a": 7}}, "/mcpServers/a", ""),
    ({"mcpServers": {}}, "/mcpServers", ""),
    ({"mcpServers": {"a": {"url": "https://x.example"}, "b": {"url": "https://y.example"}}}, "/name", ""),
    ({"mcpServers": {"a": {"url": "https://x.example"}}, "tags": 7}, "/tags", ""),
    ({"servers": {"a": {"url": "x.example", "protocol": "kafka"}}}, "", "none of the forms"),
]  # fmt: skip


@for_each(("pasted", "at", "word"), WRONG_PASTES, ids=[str(n) for n in range(len(WRONG_PASTES))])
def test_a_configuration_that_cannot_be_used_is_rejected_with_a_pointer_into_it(
    client: httpx2.Client, pasted: Any, at: str, word: str
) -> None:
    name = "" if at == "/name" else "?name=wrong"
    rejected = client.post(f"/providers{name}", json=pasted)
    assert rejected.status_code == 422, rejected.text
    errors = rejected.json()["errors"]
    assert errors[0]["pointer"] == at, errors
    assert word in errors[0]["detail"]


def test_what_a_program_writes_when_it_ends_is_masked_in_the_error_of_a_call(client: httpx2.Client) -> None:
    script = SCRIPT.parents[1] / "mcp_requests.py"
    code = script.read_text().replace(
        '    params = message["params"]\n',
        '    import os\n    print("token", os.environ["TOKEN"], file=sys.stderr)\n    sys.exit(9)\n',
    )
    server = {"command": sys.executable, "args": ["-c", code], "env": {"TOKEN": SECRET}}
    made = client.post("/providers?name=ending", json={"mcpServers": {"ending": server}})
    assert made.status_code == 201, made.text
    failed = client.post("/tools/ending.asks/call", json={"method": "ping"})
    assert failed.status_code == 502, failed.text
    assert failed.json()["upstream_body"] == {"exit_code": 9, "stderr": "token ***\n"}
    assert SECRET not in failed.text


def test_the_command_line_registers_the_configuration_of_an_mcp_client(
    servers: Pair, tmp_path_factory: pytest.TempPathFactory, peer: McpUpstream
) -> None:
    folder = tmp_path_factory.mktemp("command-line")
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": {"far": {"url": peer.place}}}))
    with serve(servers, folder) as gateway:
        environment = {
            **gateway.environment,
            "UTCP_GATEWAY_URL": gateway.url,
            "UTCP_GATEWAY_KEY": gateway.key,
        }
        added = run_command(
            "providers", "add", str(folder / "mcp.json"), "--name", "pasted", environment=environment
        )
        assert added.returncode == 0, added.stderr
        tagged = run_command(
            "providers", "add", str(folder / "mcp.json"), "--tag", "t", environment=environment
        )
        assert tagged.returncode == 0, tagged.stderr
        with gateway.client() as other:
            assert other.post("/tools/pasted.far_several/call", json={}).json() == ["one", {"two": 2}]
            assert other.post("/tools/far.several/call", json={}).json() == ["one", {"two": 2}]
