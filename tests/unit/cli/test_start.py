"""What a command imports: a command in a loop of a script must start fast, so it loads what it uses only."""

import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any

import pytest
from typer.core import TyperGroup

from app.cli.root import COMMANDS, load_command

#: Libraries of the gateway, each of which takes longer to import than a whole command of the client.
SERVER = {
    "fastapi",
    "starlette",
    "uvicorn",
    "sqlalchemy",
    "sqlmodel",
    "alembic",
    "asyncpg",
    "redis",
    "tantivy",
}
SERVER |= {
    "pydantic_settings",
    "cryptography",
    "jsonschema_rs",
    "opentelemetry",
    "structlog",
    "prometheus_client",
}
#: Those of single commands: tables, HTTP, YAML, conversion of documents.
TABLES, HTTP, YAML = {"rich"}, {"httpx2"}, {"yaml"}
CONVERSION = {"app.openapi", "jsonpath"}
#: Typer needs pydantic for the values of options, so `--help` alone does without.
VALUES = {"pydantic"}


def imported(*words: str, env: Mapping[str, str] | None = None) -> set[str]:
    """The modules that a command has imported when it ends."""
    code = (
        "import atexit, sys\n"
        "atexit.register(lambda: sys.stderr.write('\\n@' + ' '.join(sys.modules)))\n"
        "from app.cli.main import main; main()"
    )
    environment = {**os.environ, **(env or {})}
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, env=environment, check=False, timeout=60)
    return set(done.stderr.decode().rpartition("\n@")[2].split())


@pytest.mark.parametrize("words", [("--help",), ("--version",), ()])
def test_list_of_commands_imports_no_command(words: tuple[str, ...], clean_environment: None) -> None:
    found = imported(*words)
    assert "app.cli.root" in found
    assert not found & (
        SERVER | TABLES | HTTP | YAML | CONVERSION | VALUES | {"app.cli.tools", "app.cli.serve"}
    )


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_does_not_import_what_it_would_use(name: str, clean_environment: None) -> None:
    assert not imported(name, "--help") & (SERVER | TABLES | HTTP | YAML | CONVERSION)


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (("tools", "list"), TABLES),
        (("tools", "list", "-o", "json"), set()),
        (("tools", "list", "-o", "name"), set()),
        (("tools", "list", "-o", "yaml"), YAML),
        (("tools", "call", "a.b"), set()),
        (("providers", "add", "https://a.example/openapi.json", "-o", "json"), set()),
    ],
)
def test_client_command_imports_what_it_uses(
    stub: Any, clean_environment: None, words: tuple[str, ...], more: set[str]
) -> None:
    stub.on("GET", "/tools", {"items": [{"name": "a.b"}], "next_cursor": None})
    stub.on("POST", "/tools/a.b/call", {})
    stub.on("POST", "/providers", {"name": "a"})
    found = imported(*words, env={"UTCP_GATEWAY_URL": stub.url, "UTCP_GATEWAY_KEY": "k"})
    assert found & (SERVER | TABLES | HTTP | YAML | CONVERSION) == HTTP | more


def test_list_of_commands_agrees_with_the_commands() -> None:
    for name, entry in COMMANDS.items():
        command = load_command(name)
        assert command.name == name
        first = " ".join(str(command.help).split())
        assert isinstance(command, TyperGroup) == (entry.attribute == "commands")
        if isinstance(command, TyperGroup):
            assert first == entry.summary
        else:
            assert first.split()[0] == entry.summary.split()[0]
