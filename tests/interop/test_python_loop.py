"""The loop of the client library: tools that a search of a gateway finds, and models that check what they are sent."""

from pathlib import Path

import pytest

from tests.harness.gateway import RunningGateway
from tests.interop.clients import run_program
from tests.interop.environments import install_client_library, required
from tests.interop.model_providers import CALLS, ERRORS

HERE = Path(__file__).parent


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
