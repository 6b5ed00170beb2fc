"""Providers of `cli`, registered and called through a running gateway whose operator allows one program."""

import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import orjson
import pytest
from aiohttp import web

from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

PYTHON = os.path.realpath("/usr/bin/python3")
SECRET = "secret-of-a-program-31"
ECHO = f"{PYTHON} -I -S -c " + shlex.quote(
    "import json, os, sys; print(json.dumps([sys.argv[1:], os.environ.get('KEY')]))"
)
COUNT = f"{PYTHON} -I -S -c " + shlex.quote("for n in range(3): print(n, flush=True)")


@pytest.fixture(scope="module")
def running(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    folder = tmp_path_factory.mktemp("gateway")
    more = {"PROGRAM_USER": "nobody"} if os.geteuid() == 0 else {}
    with serve(servers, folder, PROGRAMS=PYTHON, **more) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(running: RunningGateway) -> Iterator[httpx2.Client]:
    with running.client() as made:
        yield made


def manual(old: bool) -> dict[str, Any]:
    inputs = {"type": "object", "properties": {"q": {"type": "string"}}}
    if old:
        template = {"provider_type": "cli", "name": "x", "command_name": ECHO, "env_vars": {"KEY": "${KEY}"}}
        count = {"provider_type": "cli", "name": "x", "command_name": COUNT}
        tools = [
            {"name": "echo", "inputs": inputs, "tool_provider": template},
            {"name": "count", "inputs": {}, "tool_provider": count},
        ]
        return {"version": "0.2.3", "tools": tools}
    template = {"call_template_type": "cli", "env_vars": {"KEY": "${KEY}"},
                "commands": [{"command": f"{ECHO} --q UTCP_ARG_q_UTCP_END"}, {"command": ECHO + " $CMD_0_OUTPUT"}]}  # fmt: skip
    count = {"call_template_type": "cli", "commands": [{"command": COUNT}]}
    tools = [
        {"name": "echo", "inputs": inputs, "tool_call_template": template},
        {"name": "count", "inputs": {}, "tool_call_template": count},
    ]
    return {"utcp_version": "1.0.1", "tools": tools}


@pytest.mark.parametrize("old", [True, False], ids=["0.x", "1.x"])
def test_a_program_is_discovered_and_called(client: httpx2.Client, tmp_path: Path, old: bool) -> None:
    name = "old" if old else "new"
    path = tmp_path / "manual.json"
    path.write_bytes(orjson.dumps(manual(old)))
    for folder in (tmp_path, *tmp_path.parents[:-2]):
        folder.chmod(0o755)
    command = f"{PYTHON} -I -S -c " + shlex.quote(f"print(open({str(path)!r}).read())")
    template = (
        {"provider_type": "cli", "command_name": command}
        if old
        else {"call_template_type": "cli", "commands": [{"command": command}]}
    )
    body = {"name": name, "source": {"call_template": template}, "variables": {"KEY": {"value": SECRET}}}
    made = client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["report"]["counts"]["accepted"] == 2, made.text
    assert made.json()["origins"] == [f"cli://{PYTHON}"]
    masked = client.post(f"/tools/{name}.echo/call", json={"q": "two words"})
    assert masked.status_code == 200, masked.text
    assert SECRET not in masked.text
    assert masked.json()[-1] == "***"
    unmasked = client.patch(f"/providers/{name}", json={"options": {"mask_responses": False}})
    assert unmasked.status_code == 200, unmasked.text
    response = client.post(f"/tools/{name}.echo/call", json={"q": "two words"})
    assert response.status_code == 200, response.text
    if old:
        assert response.json() == [["--q", "two words"], SECRET]
        rejected = client.post(f"/tools/{name}.echo/call", json={"q": "x", "exec": "id"})
        assert rejected.status_code == 422
    else:
        assert response.json() == [[f'[["--q", "two words"], "{SECRET}"]'], SECRET]
    with client.stream(
        "POST", f"/tools/{name}.count/call", json={}, headers={"Accept": "text/event-stream"}
    ) as stream:
        lines = [line for line in stream.iter_lines() if line.startswith("data:")]
    assert [line.removeprefix("data:").strip() for line in lines[:3]] == ["0", "1", "2"]
    described = client.post(f"/tools/{name}.echo/call?dry_run=true", json={"q": "hello"})
    assert described.json()["body"]["environment"] == {"KEY": "***"}, described.text
    assert SECRET not in described.text + client.get(f"/tools/{name}.echo").text + client.get("/export").text
    assert client.post(f"/providers/{name}/refresh").status_code == 200
    assert client.delete(f"/providers/{name}").status_code == 204
    assert client.post(f"/tools/{name}.echo/call", json={}).status_code == 404


def test_a_gateway_runs_nothing_until_its_operator_says_so(
    gateway: RunningGateway, client: httpx2.Client
) -> None:
    template = {"call_template_type": "cli", "commands": [{"command": ECHO}]}
    with gateway.client() as other:
        rejected = other.post("/providers", json={"name": "p", "source": {"call_template": template}})
    assert rejected.status_code == 422
    assert "PROGRAMS" in rejected.text
    template["commands"] = [{"command": "/bin/cat /etc/passwd"}]
    rejected = client.post("/providers", json={"name": "p", "source": {"call_template": template}})
    assert rejected.status_code == 422
    assert rejected.json()["errors"][0]["pointer"].endswith("/commands/0/command")


@pytest.mark.parametrize("protocol", ["cli", "mcp"])
def test_no_program_is_run_on_the_word_of_a_fetched_manual(client: httpx2.Client, protocol: str) -> None:
    local = {
        "cli": {"call_template_type": "cli", "commands": [{"command": ECHO}]},
        "mcp": {
            "call_template_type": "mcp",
            "tool_name": "x",
            "config": {"mcpServers": {"s": {"command": PYTHON}}},
        },
    }[protocol]
    tools = [{"name": "run", "inputs": {}, "tool_call_template": local}]

    async def respond(_: web.Request) -> web.Response:
        return web.json_response({"utcp_version": "1.0.1", "tools": tools})

    application = web.Application()
    application.router.add_get("/utcp", respond)
    with beside(web_server(application)) as url:
        body = {"name": f"far_{protocol}", "call_template_type": "http", "url": f"{url}/utcp"}
        made = client.post("/providers", json=body)
    assert made.status_code in (201, 422), made.text
    assert client.get(f"/tools?provider=far_{protocol}").json().get("items", []) == []
    if made.status_code == 201:
        assert "may not have tools" in made.text
        assert client.delete(f"/providers/far_{protocol}").status_code == 204
