"""schemathesis against the running gateway: all checks, positive and negative data, all phases. No failure."""

import os
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from app.cli.sample import serve_sample_api
from tests.fuzz.contract import read_operations
from tests.fuzz.coverage_table import recorded
from tests.fuzz.planted import PlantedGateway, planted_gateway
from tests.fuzz.schemathesis_run import EXAMPLES, LONG, ROOT, SECONDS, SchemathesisRun
from tests.harness.servers import Pair

SEEDS = tuple(os.environ.get("FUZZ_SEEDS", "1,2,3" if LONG else "1").split(","))
GENERATION, BOUNDARIES = "examples,fuzzing,stateful", "coverage"
"""The phases of two separate runs, so that they can run in parallel."""
LARGEST_BODIES = () if LONG else ("registerProvider", "previewProvider")
"""Two thirds of all cases of the phase `coverage` are bodies of these: in `make fuzz` only."""


@pytest.fixture(scope="module")
def fuzzed(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlantedGateway]:
    """A gateway of its own with the sample API in it, which the examples of the contract name."""
    folder = tmp_path_factory.mktemp("fuzz")
    with (
        planted_gateway(servers, folder) as planted,
        serve_sample_api(folder, port=0) as registration,
        planted.gateway.client() as client,
    ):
        made = client.post("/providers", json=registration)
        assert made.status_code == 201, made.text
        yield planted


@pytest.mark.time_limit(SECONDS + 60)
@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("phases", "excluded"),
    [
        pytest.param(GENERATION, (), marks=pytest.mark.xdist_group("generation"), id="generation"),
        pytest.param(
            BOUNDARIES, LARGEST_BODIES, marks=pytest.mark.xdist_group("boundaries"), id="boundaries"
        ),
    ],
)
def test_schemathesis_finds_no_failure(
    fuzzed: PlantedGateway, phases: str, excluded: tuple[str, ...], seed: str, tmp_path: Path, coverage: Path
) -> None:
    source = f"schemathesis {phases} {seed}"
    run = SchemathesisRun(phases, seed, fuzzed.gateway.key, EXAMPLES, source=source, excluded=excluded)
    run.execute(fuzzed, tmp_path, coverage=coverage)
    assert "Traceback" not in fuzzed.gateway.log.read_text()
    assert fuzzed.leaks_beside_responses() == []
    reached = {one.operation_id for one in recorded(coverage) if one.source == source}
    assert read_operations(fuzzed.gateway).keys() - reached == {*_disabled(), *excluded}


def test_the_configuration_names_operations_of_the_contract(fuzzed: PlantedGateway) -> None:
    named = {name for entry in _configured() for name in _names(entry)}
    assert named | {*LARGEST_BODIES} <= read_operations(fuzzed.gateway).keys()


def _configured() -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = tomllib.loads((ROOT / "schemathesis.toml").read_text())["operations"]
    return found


def _names(entry: dict[str, Any]) -> list[str]:
    """Return the ids of the operations of an entry of the configuration."""
    found = entry["include-operation-id"]
    return [found] if isinstance(found, str) else list(found)


def _disabled() -> list[str]:
    """Return the operations that schemathesis leaves out; the provocations reach these, too."""
    return [name for entry in _configured() if not entry.get("enabled", True) for name in _names(entry)]
