"""The loop of the client library: tools that a search of a gateway finds, and models that check what they are sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.sample import sample_api
from tests.harness.beside import beside, web_server
from tests.harness.gateway import RunningGateway
from tests.interop.clients import run_program
from tests.interop.environments import install_client_library, required
from tests.interop.model_providers import CALLS, ERRORS, providers

HERE = Path(__file__).parent


@pytest.fixture(scope="module")
def library(gateway: RunningGateway, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The sample API, registered as `interop`."""
    with sample_api(tmp_path_factory.mktemp("sample"), port=0) as registration, gateway.client() as client:
        made = client.post("/providers", json=registration | {"name": "interop"})
        assert made.status_code == 201, made.text
        yield "interop"
        client.delete("/providers/interop")


@pytest.fixture(scope="module")
def provider_url() -> Iterator[str]:
    with beside(web_server(providers())) as url:
        yield url


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("dialect", ["openai-chat", "openai-responses", "anthropic", "gemini", "json-prompt"])
def test_calls_of_a_turn_are_answered_by_the_gateway_and_the_loop(
    dialect: str, gateway: RunningGateway, provider_url: str
) -> None:
    python = required(install_client_library)
    program = [str(python), str(HERE / "python_loop.py"), dialect, provider_url, gateway.url, gateway.key]
    assert run_program(program) == {
        "text": f"{len(CALLS)} results, {sum(ERRORS)} errors",
        "stopped": "done",
        "errors": sorted(ERRORS),
        "approvals": 0,
    }


@pytest.mark.usefixtures("library")
def test_blocking_client_of_a_toolset_with_calls_that_are_approved(
    gateway: RunningGateway, provider_url: str
) -> None:
    python = required(install_client_library)
    tool = "/tools/interop.searchBooks"
    with gateway.client() as admin:
        key = admin.post("/keys", json={"name": "agent", "scopes": ["tools:read", "tools:call"]}).json()[
            "key"
        ]
        definition = {"tools": ["interop.searchBooks", "interop.getBook"]}
        admin.put("/toolsets/desk", json={"definition": definition}).raise_for_status()
        admin.patch(tool, json={"requires_approval": True}).raise_for_status()
        try:
            found = run_program(
                [
                    str(python),
                    str(HERE / "python_loop.py"),
                    "anthropic",
                    provider_url,
                    gateway.url,
                    key,
                    "desk",
                    gateway.key,
                ]
            )
        finally:
            admin.patch(tool, json={"requires_approval": False}).raise_for_status()
            admin.delete("/toolsets/desk").raise_for_status()
    assert found == {
        "text": f"{len(CALLS)} results, {sum(ERRORS)} errors",
        "stopped": "done",
        "errors": sorted(ERRORS),
        # Identical calls of a tool that is read-only are one call, and one approval.
        "approvals": 1,
    }
