"""Names that a shell completes are asked of the gateway; whatever fails completes nothing."""

import shlex
from collections.abc import Mapping
from typing import Any

import pytest
from typer.testing import CliRunner

from app.cli.root import app
from tests.harness.cases import for_each
from tests.unit.cli.conftest import KEY

ITEMS = {
    "/providers": [{"name": "library"}, {"name": "letters"}, {"name": "weather"}],
    "/tools": [{"name": "library.getBook"}, {"name": "library.getStock"}, {"name": "weather.now"}],
    "/toolsets": [{"name": "support"}],
    "/keys": [
        {"id": "AbCdEfGhJkMn", "name": "agent"},
        {"id": "BbCdEfGhJkMn", "name": "the desk"},
        {"id": "CbCdEfGhJkMn", "name": "twin"},
        {"id": "DbCdEfGhJkMn", "name": "twin"},
    ],
}


def complete(words: str, environment: Mapping[str, str]) -> list[str]:
    """Return what Bash is told for the last of the words."""
    typed = f"utcp-gateway {words}"
    count = len(shlex.split(typed)) - (0 if typed.endswith(" ") else 1)
    asked = {"_UTCP_GATEWAY_COMPLETE": "complete_bash", "COMP_WORDS": typed, "COMP_CWORD": str(count)}
    ran = CliRunner().invoke(app, [], env={**environment, **asked}, prog_name="utcp-gateway")
    assert ran.exit_code == 0, ran.output
    return ran.stdout.split()


@pytest.fixture
def environment(stub: Any, clean_environment: None) -> Mapping[str, str]:
    for path, items in ITEMS.items():
        stub.on("GET", path, {"items": items, "next_cursor": None})
    return {"UTCP_GATEWAY_URL": stub.url, "UTCP_GATEWAY_KEY": KEY}


@for_each(
    ("words", "names"),
    [
        ("tools call ", ["library.getBook", "library.getStock", "weather.now"]),
        ("tools show library.getS", ["library.getStock"]),
        ("tools list --provider l", ["library", "letters"]),
        ("providers remove library l", ["library", "letters"]),
        ("credentials set weather", ["weather"]),
        ("keys revoke ", ["agent", "BbCdEfGhJkMn", "CbCdEfGhJkMn", "DbCdEfGhJkMn"]),
        ("keys show a", ["agent"]),
        ("calls list --key-id A", ["AbCdEfGhJkMn"]),
        ("toolsets show s", ["support"]),
        ("stats --tool w", ["weather.now"]),
        ("prov", ["providers"]),
        ("keys rev", ["revoke"]),
        ("calls tail --outcome x", []),
    ],
)
def test_names_are_completed(environment: Mapping[str, str], words: str, names: list[str]) -> None:
    assert complete(words, environment) == names


def test_completion_uses_the_connection_of_the_command_line(environment: Any, stub: Any) -> None:
    others = {"UTCP_GATEWAY_URL": "http://127.0.0.1:9", "UTCP_GATEWAY_KEY": ""}
    assert complete(f"--url {stub.url} --key ugw_typed tools show weather", others) == ["weather.now"]
    assert stub.seen[-1].headers["authorization"] == "Bearer ugw_typed"
    assert stub.seen[-1].query["q"] == "weather"


def test_a_gateway_that_fails_completes_nothing(environment: Any, stub: Any) -> None:
    stub.problem("GET", "/tools", status=403, title="Forbidden")
    assert complete("tools show ", environment) == []
    assert complete("tools show ", {**environment, "UTCP_GATEWAY_URL": "http://127.0.0.1:9"}) == []
    assert complete("tools show ", {**environment, "UTCP_GATEWAY_URL": "no address"}) == []
