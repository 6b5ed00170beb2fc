"""schemathesis against the running gateway: all checks, positive and negative data, all phases. No failure."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from app.cli.sample import sample_api
from tests.harness.gateway import RunningGateway, serve
from tests.harness.servers import Pair

ROOT = Path(__file__).parents[2]
LONG = bool(os.environ.get("FUZZ_LONG"))
EXAMPLES = "200" if LONG else "3"
PHASES = ("examples,coverage", "fuzzing,stateful")
"""Each pair is a run of its own, so that two cores share them."""
SEEDS = tuple(os.environ.get("FUZZ_SEEDS", "1,2,3" if LONG else "1").split(","))


@pytest.fixture(scope="module")
def fuzzed(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway of its own with the sample API in it; outgoing calls end soon."""
    folder = tmp_path_factory.mktemp("fuzz")
    # Generated tools point at upstreams that do not exist; without breakers every 503 is a finding.
    settings = {
        "CONNECT_TIMEOUT": "1",
        "FIRST_BYTE_TIMEOUT": "2",
        "TOTAL_TIMEOUT": "3",
        "BREAKER_FAILURES": "0",
    }
    with (
        serve(servers, folder, **settings) as running,
        sample_api(folder, port=0) as registration,
        running.client() as client,
    ):
        made = client.post("/providers", json=registration)
        assert made.status_code == 201, made.text
        yield running


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("phases", PHASES)
def test_no_check_fails(fuzzed: RunningGateway, phases: str, seed: str, tmp_path: Path) -> None:
    command = [
        str(Path(sys.executable).with_name("st")), "--config-file", str(ROOT / "schemathesis.toml"), "run",
        f"{fuzzed.url}/openapi.json", "--header", f"Authorization: Bearer {fuzzed.key}", "--checks", "all",
        "--mode", "all", "--phases", phases, "--max-examples", EXAMPLES,
        "--seed", seed, "--workers", "1", "--request-timeout", "20", "--warnings", "off",
        "--continue-on-failure", "--report", "junit", "--report-junit-path", str(tmp_path / "junit.xml"),
    ]  # fmt: skip
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, timeout=7200 if LONG else 290, check=False
    )
    assert done.returncode == 0, f"{done.stdout[-12000:]}\n{done.stderr[-2000:]}"
    log = fuzzed.log.read_text()
    assert "Traceback" not in log
