"""Two linters of OpenAPI documents find nothing in openapi/gateway.json: no error, warning or hint."""

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.generators import HERE, install_npm, required

CONTRACT = HERE.parents[1] / "openapi" / "gateway.json"
# Both are told where their rules are; neither may look for a newer release or report its use.
SPECTRAL = (
    "spectral",
    "lint",
    "--ruleset",
    "spectral.yaml",
    "--fail-severity",
    "hint",
    "--format",
    "json",
    "--quiet",
)
REDOCLY = ("redocly", "lint", "--config", "redocly.yaml", "--format", "json", "--max-problems", "1000")
OFFLINE = {"REDOCLY_TELEMETRY": "off", "REDOCLY_SUPPRESS_UPDATE_NOTICE": "true"}


# Planted, to see that the linters have read and judged: it has no servers, no tags and no parameter `id`.
PLANTED = {
    "openapi": "3.1.0",
    "info": {"title": "Pets", "version": "1"},
    "paths": {"/pets/{id}": {"get": {"responses": {"200": {"description": "Pets"}}}}},
}


@pytest.mark.parametrize("linter", [SPECTRAL, REDOCLY], ids=lambda linter: linter[0])
def test_the_linter_finds_nothing_in_the_contract(linter: tuple[str, ...], tmp_path: Path) -> None:
    planted = tmp_path / "planted.json"
    planted.write_text(json.dumps(PLANTED))
    by_file = findings(*linter, documents=[CONTRACT, planted])
    assert len(by_file.pop(planted.name)) >= 4
    assert by_file == {}


def findings(program: str, *arguments: str, documents: list[Path]) -> dict[str, list[dict[str, Any]]]:
    """Return what a linter has found in documents, by the names of their files."""
    command = required(install_npm) / ".bin" / program
    done = subprocess.run(
        [command, *arguments, *documents], cwd=HERE, env={**os.environ, **OFFLINE},
        capture_output=True, text=True, timeout=120, check=False,
    )  # fmt: skip
    by_file: dict[str, list[dict[str, Any]]] = {}
    for one in reports(done.stdout):
        source = one["source"] if "source" in one else one["location"][0]["source"]["ref"]
        by_file.setdefault(Path(source).name, []).append(one)
    assert by_file, done.stderr
    return by_file


def reports(text: str) -> Iterator[dict[str, Any]]:
    """Yield what a linter reports: Spectral writes one list, Redocly an object with `problems` for each document."""
    decoder = json.JSONDecoder()
    rest = text.strip()
    while rest:
        found, end = decoder.raw_decode(rest)
        yield from found["problems"] if isinstance(found, dict) else found
        rest = rest[end:].strip()
