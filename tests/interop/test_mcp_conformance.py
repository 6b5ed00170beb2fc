"""The conformance suites of the Model Context Protocol, in each revision that they know.

What fails is expected, with the reason in mcp/conformance/*.yaml: the suites exit with 1 for anything else,
and for an entry that no longer fails.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.harness.servers import Pair
from tests.interop.environments import install_conformance, install_node, required
from tests.interop.mcp.fixture import conformance_server

EXPECTED = Path(__file__).parent / "mcp" / "conformance"
# The least number of checks that pass, so that a suite that skips them is noticed.
RUNS = [
    ("released", "2025-06-18", 12),
    ("released", "2025-11-25", 18),
    ("next", "2025-06-18", 38),
    ("next", "2025-11-25", 51),
    ("next", "2026-07-28", 117),
]


@pytest.fixture(scope="module")
def url(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with conformance_server(servers, tmp_path_factory.mktemp("conformance")) as found:
        yield found


@pytest.mark.parametrize(("suite", "revision", "least"), RUNS)
def test_the_suite_finds_nothing_but_what_is_expected(
    url: str, tmp_path: Path, suite: str, revision: str, least: int
) -> None:
    expected = EXPECTED / f"{suite}-{revision}.yaml"
    output = run_suite(suite, revision, url, tmp_path, "--expected-failures", str(expected))
    passed = [int(count) for count in re.findall(r"Total: (\d+) passed", output)]
    assert passed
    assert passed[-1] >= least


def test_the_one_scenario_of_2025_03_26_finds_no_session(url: str, tmp_path: Path) -> None:
    """Its three checks are of sessions, and it counts none where the server has none: see decision 70."""
    output = run_suite("next", "2025-03-26", url, tmp_path)
    assert re.findall(r"Running scenario: (\S+)", output) == ["server-session-lifecycle"]
    (checks,) = tmp_path.glob("server-server-session-lifecycle-*/checks.json")
    found = [(one["id"], one["status"]) for one in json.loads(checks.read_bytes())]
    assert found == [("server-session-lifecycle-skipped", "INFO")]


def run_suite(suite: str, revision: str, url: str, folder: Path, *options: str) -> str:
    """Run a suite against the server, with a result of 0, and return what it prints."""
    node = required(install_node)
    program = required(lambda: install_conformance(suite)) / "node_modules" / ".bin" / "conformance"
    command = [
        str(node), str(program), "server", "--url", url, "--suite", "all", "--spec-version", revision,
        "-o", str(folder), *options,
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=folder)
    print(done.stdout[-12_000:], done.stderr[-2_000:])
    assert done.returncode == 0
    return done.stdout
