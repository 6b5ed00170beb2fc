"""The folder of a run's recordings, and the coverage table at its end."""

import os
import shutil
import tempfile
from pathlib import Path

import pytest

from tests.fuzz.contract import operations_of
from tests.fuzz.coverage_table import FOLDER_VARIABLE, CoverageTable, recorded
from tests.harness.contract import CONTRACT


def pytest_configure(config: pytest.Config) -> None:
    """Create the folder in the process that starts the others, which inherit its environment."""
    if not hasattr(config, "workerinput"):
        os.environ[FOLDER_VARIABLE] = tempfile.mkdtemp(prefix="ugw-fuzz-")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print the table of all processes, and what only another source of requests has reached."""
    responses = recorded(coverage_folder())
    if not responses:
        return
    operations = operations_of(CONTRACT)
    sources = sorted({one.source for one in responses})
    terminalreporter.section(f"responses by operation and status ({', '.join(sources)})")
    terminalreporter.write_line(CoverageTable(operations, responses).rendered())


def pytest_unconfigure(config: pytest.Config) -> None:
    """Remove the folder."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(coverage_folder(), ignore_errors=True)


@pytest.fixture(scope="session")
def coverage() -> Path:
    """The folder of the recordings."""
    return coverage_folder()


def coverage_folder() -> Path:
    """Return the folder of the recordings of this run."""
    return Path(os.environ[FOLDER_VARIABLE])
