"""The conformance suites of the Model Context Protocol, in each revision that they know.

What fails is expected, with the reason in mcp/conformance/*.yaml: the suites exit with 1 for anything else,
and for an entry that no longer fails.
"""

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
    ("next", "2026-07-28", 108),
]


@pytest.fixture(scope="module")
def url(servers: Pair, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with conformance_server(servers, tmp_path_factory.mktemp("conformance")) as found:
        yield found


@pytest.mark.parametrize(("suite", "revision", "least"), RUNS)
def test_the_suite_finds_nothing_but_what_is_expected(
    url: str, tmp_path: Path, suite: str, revision: str, least: int
) -> None:
    node = required(install_node)
    program = required(lambda: install_conformance(suite)) / "node_modules" / ".bin" / "conformance"
    expected = EXPECTED / f"{suite}-{revision}.yaml"
    command = [
        str(node), str(program), "server", "--url", url, "--suite", "all", "--spec-version", revision,
        "-o", str(tmp_path), "--expected-failures", str(expected),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False, cwd=tmp_path)
    print(done.stdout[-12_000:], done.stderr[-2_000:])
    assert done.returncode == 0
    passed = [int(count) for count in re.findall(r"Total: (\d+) passed", done.stdout)]
    assert passed
    assert passed[-1] >= least
