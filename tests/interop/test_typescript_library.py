"""The TypeScript client library at a running gateway: its own tests in packages/typescript/test/gateway, run by Node.js."""

from collections.abc import Iterator
from typing import Any

import pytest

from app.cli.sample import serve_sample_api
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.interop.environments import install_node, install_typescript_library, required
from tests.interop.model_providers import providers
from tests.interop.typescript_library import run_node


@pytest.fixture(scope="module")
def built() -> None:
    """The library and its tests as JavaScript."""
    required(install_node)
    required(install_typescript_library)
    done = run_node(["--run", "build-tests"])
    assert done.returncode == 0, done.stdout


@pytest.fixture(scope="module")
def registered(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample API, registered as `library`, and as `interop`, which the scripted models call; the key of an agent.

    `library.getOpeningHours` requires approval, and the toolset `shelf` has `library.searchBooks` as `find`.
    """
    with (
        serve_sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration,
        gateway.client() as client,
    ):

        def create(path: str, body: dict[str, Any]) -> dict[str, Any]:
            made = client.post(path, json=body)
            assert made.status_code == 201, made.text
            found: dict[str, Any] = made.json()
            return found

        for name in ("library", "interop"):
            create("/providers", registration | {"name": name})
        edited = client.patch("/tools/library.getOpeningHours", json={"requires_approval": True})
        assert edited.status_code == 200, edited.text
        tool = "library.searchBooks"
        definition = {"tools": [tool], "changes": {tool: {"name": "find"}}}
        create("/toolsets", {"name": "shelf", "definition": definition})
        agent = create("/keys", {"name": "agent", "scopes": ["tools:read", "tools:call"]})
        yield agent["key"]
        for path in ("/toolsets/shelf", "/providers/library", "/providers/interop", f"/keys/{agent['id']}"):
            client.delete(path)


@pytest.fixture(scope="module")
def model_url() -> Iterator[str]:
    """The servers with the wire formats of model providers."""
    with beside(web_server(providers())) as url:
        yield url


@pytest.mark.usefixtures("built")
@pytest.mark.parametrize("name", ["gateway", "sdks", "readme"])
def test_typescript_library_at_a_gateway(
    name: str, gateway: RunningGateway, registered: str, model_url: str
) -> None:
    environment = {
        "UTCP_GATEWAY_URL": gateway.url, "UTCP_GATEWAY_KEY": gateway.key, "AGENT_KEY": registered,
        "MODEL_URL": model_url, "NO_COLOR": "1",
    }  # fmt: skip
    done = run_node(["--test", f"build/gateway/{name}.test.js"], environment=environment)
    assert done.returncode == 0, done.stdout[-5000:] + done.stderr[-1000:]
    assert gateway.key not in done.stdout + done.stderr
