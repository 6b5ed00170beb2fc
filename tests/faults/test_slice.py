"""The short form of `make faults`: one run, one test per promise."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.faults.nginx import PROGRAM, NginxMissing
from tests.faults.scenarios import SCENARIOS, SLICE

_SECONDS = 600


@pytest.fixture(scope="module")
def rows(tmp_path_factory: pytest.TempPathFactory, repository_root: Path) -> list[dict[str, Any]]:
    """The rows of all scenarios of the slice."""
    if PROGRAM is None:
        if os.environ.get("CI"):
            pytest.fail(str(NginxMissing()))
        pytest.skip(str(NginxMissing()))
    found = tmp_path_factory.mktemp("faults") / "rows.json"
    done = subprocess.run(
        [sys.executable, "-m", "tests.faults", "--slice", "--json", str(found)],
        cwd=repository_root, capture_output=True, text=True, timeout=_SECONDS, check=False,
    )  # fmt: skip
    assert found.exists(), f"{done.stdout[-2000:]}\n{done.stderr[-6000:]}"
    return list(json.loads(found.read_text()))


@pytest.mark.slow
@pytest.mark.time_limit(1200)
@pytest.mark.parametrize("name", [*SLICE, "*"])
def test_what_is_promised_is_kept(rows: list[dict[str, Any]], name: str) -> None:
    mine = [row for row in rows if row["id"] == name]
    assert mine, f"{SCENARIOS[name].TITLE if name in SCENARIOS else 'the logs'}: no row"
    broken = [row for row in mine if not row["ok"]]
    assert not broken, "\n".join(
        f"{row['tried']}: expected {row['expected']}; found {row['found']}" for row in broken
    )
