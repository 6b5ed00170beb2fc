"""The tables of what is spoken to upstreams name tests that exist, and leave no kind of credential out."""

import re
from pathlib import Path
from typing import get_args

from app.formats.utcp.oauth2_grant import GrantType
from app.security.sealed_credentials import CREDENTIAL_KINDS
from tests.harness.cases import for_each

ROOT = Path(__file__).parents[3]
SECTION = (
    (ROOT / "docs" / "protocols.md").read_text().partition("\n## What is spoken\n")[2].partition("\n## ")[0]
)
ROWS = [
    [cell.strip() for cell in line.strip("|").split(" | ")]
    for line in SECTION.splitlines()
    if line.startswith("|") and not line.startswith(("|---", "| authentication |", "| transport |"))
]


def test_there_are_rows() -> None:
    assert len(ROWS) > 20
    assert all(len(row) == 2 for row in ROWS)


@for_each("row", ROWS, ids=lambda row: row[0][:60])
def test_each_row_names_a_test_that_exists(row: list[str]) -> None:
    found = re.fullmatch(r"`(tests/[\w/]+\.py)::(test_\w+)`", row[1])
    assert found is not None
    path, name = found.groups()
    assert re.search(rf"^ *(?:async )?def {name}\(", (ROOT / path).read_text(), re.MULTILINE)


@for_each("kind", sorted({*CREDENTIAL_KINDS, *get_args(GrantType)}))
def test_each_kind_and_grant_has_a_row(kind: str) -> None:
    assert any(f"`{kind}`" in row[0] for row in ROWS)
