"""The table of what the texts behind the examples state names tests that exist."""

import re
from pathlib import Path

from tests.harness.cases import for_each

ROOT = Path(__file__).parents[3]
SECTION = (ROOT / "examples" / "README.md").read_text().partition("\n## What is tested\n")[2]
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| text |"))
]


def test_each_text_has_rows() -> None:
    assert all(len(row) == 3 for row in ROWS)
    assert len({row[0] for row in ROWS}) == 6


@for_each("row", ROWS, ids=lambda row: row[1][:60])
def test_each_statement_names_a_test_that_exists(row: list[str]) -> None:
    found = re.fullmatch(r"`((?:packages/python/)?tests/[\w/]+\.py)::(test_\w+)`", row[2])
    assert found is not None
    path, name = found.groups()
    assert re.search(rf"^ *(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


def test_each_example_is_run_by_a_test() -> None:
    folders = {page.parent.name for page in (ROOT / "examples").glob("*/README.md")}
    tests = (ROOT / "tests" / "interop" / "test_examples.py").read_text()
    assert folders
    assert folders <= set(re.findall(r"^def test_(\w+)\(", tests, re.MULTILINE))
