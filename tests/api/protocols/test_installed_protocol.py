"""A protocol that an installed package adds is registered, discovered, called and served as any other."""

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
import utcp_gateway_webrtc

from tests.harness.cases import for_each
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair
from tests.protocols.toy.upstream import Upstream, listening

PACKAGES = Path(__file__).parents[2] / "protocols" / "toy"
SECRET = "secret-of-a-toy-73"


@pytest.fixture(scope="module")
def running(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    with serve(servers, tmp_path_factory.mktemp("gateway"), PYTHONPATH=str(PACKAGES)) as gateway:
        yield gateway


@pytest.fixture(scope="module")
def client(running: RunningGateway) -> Iterator[httpx2.Client]:
    with running.client() as made:
        yield made


@pytest.fixture(scope="module")
def upstream() -> Iterator[Upstream]:
    with listening(methods=("double", "repeat")) as served:
        yield served


@pytest.fixture(scope="module")
def template(upstream: Upstream) -> dict[str, Any]:
    return {
        "call_template_type": "toy",
        "host": "127.0.0.1",
        "port": upstream.port,
        "password": "${PASSWORD}",
    }


@pytest.fixture(scope="module")
def discovered(client: httpx2.Client, template: dict[str, Any]) -> None:
    body = {
        "name": "toys",
        "source": {"call_template": template},
        "variables": {"PASSWORD": {"value": SECRET, "secret": True}},
        "options": {"direct": True},
    }
    made = client.post("/providers", json=body)
    assert made.status_code == 201, made.text
    assert made.json()["protocol"] == "toy"


@pytest.mark.usefixtures("discovered")
def test_tools_are_discovered_and_called(client: httpx2.Client, upstream: Upstream) -> None:
    names = [tool["name"] for tool in client.get("/tools?provider=toys").json()["items"]]
    assert names == ["toys.double", "toys.repeat"]
    called = client.post("/tools/toys.double/call", json={"n": 21})
    assert (called.status_code, called.json()) == (200, {"method": "double", "arguments": {"n": 21}})
    assert upstream.requests[-1]["password"] == SECRET


@pytest.mark.usefixtures("discovered")
def test_dry_run_shows_the_request_without_secrets(client: httpx2.Client) -> None:
    shown = client.post("/tools/toys.double/call?dry_run=true", json={"n": 21}).json()
    assert '"***"' in json.dumps(shown)
    assert SECRET not in json.dumps(shown)


@pytest.mark.usefixtures("discovered")
def test_manuals_serve_the_tools(client: httpx2.Client) -> None:
    names = {tool["name"] for tool in client.get("/utcp").json()["tools"]}
    assert len(names) == 2


@pytest.mark.usefixtures("discovered")
@pytest.mark.parametrize("version", [0, 1])
def test_direct_mode_gives_the_template_with_variables_for_secrets(
    client: httpx2.Client, upstream: Upstream, version: int
) -> None:
    query = {"mode": "direct", "protocol": "toy", "version": str(version)}
    found = client.get("/utcp", params=query)
    assert found.status_code == 200, found.text
    tools = found.json()["tools"]
    assert len(tools) == 2
    spelled = tools[0]["tool_provider" if version == 0 else "tool_call_template"]
    assert spelled["provider_type" if version == 0 else "call_template_type"] == "toy"
    assert (spelled["port"], spelled["method"]) == (upstream.port, "double")
    assert spelled["password"].startswith("${")


def test_custom_tool_is_added_under_an_alias_of_the_protocol(
    client: httpx2.Client, template: dict[str, Any]
) -> None:
    given = {"provider_type": "plaything", "host": "127.0.0.1", "port": template["port"], "method": "triple"}
    made = client.post("/tools", json={"provider": "custom", "name": "triple", "call_template": given})
    assert made.status_code == 201, made.text
    called = client.post("/tools/custom.triple/call", json={})
    assert called.json() == {"method": "triple", "arguments": {}}


def test_origins_of_the_protocol_may_be_allowed_for_credentials(client: httpx2.Client) -> None:
    body = {"kind": "bearer", "token": "t", "allowed_origins": ["toy://elsewhere.example:7"]}
    stored = client.put("/providers/custom/credentials/default", json=body)
    assert stored.status_code in (200, 201), stored.text


def test_without_the_package_the_protocol_is_unknown(
    gateway: RunningGateway, template: dict[str, Any]
) -> None:
    with gateway.client() as client:
        made = client.post("/providers", json={"name": "toys", "source": {"call_template": template}})
    assert made.status_code == 422
    assert "toy" not in made.json()["errors"][0]["expected"]


def test_entry_point_that_is_no_record_ends_the_start(tmp_path: Path) -> None:
    folder = tmp_path / "wrong-1.0.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: wrong\nVersion: 1.0\n")
    (folder / "entry_points.txt").write_text("[utcp_gateway.protocols]\nwrong = json:dumps\n")
    done = subprocess.run(
        [sys.executable, "-c", "import app.protocols.registry"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "The entry point wrong of utcp_gateway.protocols is not a ProtocolRecord." in done.stderr


@for_each("folder", [PACKAGES / "toy_protocol", Path(utcp_gateway_webrtc.__file__).parent])
def test_packages_import_one_module_of_the_gateway(folder: Path) -> None:
    imported = {
        str(node.module)
        for path in sorted(folder.glob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.ImportFrom) and str(node.module).partition(".")[0] == "app"
    }
    assert imported == {"app.protocols.extension"}
