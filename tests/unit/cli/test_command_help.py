"""What `--help` says of values: words for people, no types of Python."""

import re
from collections.abc import Callable
from typing import Any

from typer.testing import CliRunner

from app.cli.root import app
from tests.harness.cases import for_each
from tests.unit.cli.test_contract import all_commands

PYTHON = re.compile(r"<(?:str|int|float|bool|path|class|list|uuid)|list\[|\bTEXT\b|(?<!\$)\{\w+\}")


@for_each("words", [[], *(name.split() for name in all_commands())])
def test_help_names_values_without_types_of_python(words: list[str]) -> None:
    ran = CliRunner().invoke(app, [*words, "--help"])
    assert ran.exit_code == 0
    assert PYTHON.findall(ran.output) == []


def test_usage_and_values_have_their_words(run: Callable[..., Any]) -> None:
    for words, lines in (
        ("providers remove", ("[OPTIONS] NAME...", "  NAME...  The providers.")),
        ("export", ("[OPTIONS] [FILE]",)),
        (
            "keys create",
            ("--scope SCOPE ", "--expires TIME ", "--mock-seed NUMBER ", "--upstream-mode MODE "),
        ),
        ("stats", ("--interval minute|hour|day ", "--errors / --no-errors ")),
        ("serve", ("--data-dir FOLDER ", "--sample / --no-sample ")),
    ):
        shown = run(*words.split(), "--help").out
        assert [line for line in lines if line not in shown] == [], words
