"""Which worker runs which tests, and in which order: the longest files first, and those that start programs last.

A file stays with one worker, because its tests share what its fixtures have made. `tests/durations.txt` has the seconds of the files that take longest;
`--record-durations` writes it anew.
"""

from collections import defaultdict
from pathlib import Path

import pytest

_DURATIONS = Path(__file__).parents[1] / "durations.txt"
_HEAD = """\
# Seconds that the longest files of tests take, so that they begin first: make test ARGS=--record-durations
"""
# Shorter files fill the end of a run, in any order.
_MIN_SECONDS = 2.0


def read_durations() -> dict[str, float]:
    """Return the seconds of the files in the list, by their path."""
    lines = _DURATIONS.read_text().splitlines() if _DURATIONS.exists() else []
    pairs = [line.split(maxsplit=1) for line in lines if line and not line.startswith("#")]
    return {path: float(seconds) for seconds, path in pairs}


def get_file(item: pytest.Item) -> str:
    """Return the path of a test's file, as in its id."""
    return item.nodeid.split("::", 1)[0]


def sort_items(items: list[pytest.Item]) -> None:
    """Sort tests by file: files without the marker `process` first, and among each kind the longest first.

    The tests of a file keep their order. The result depends on the files alone, so that all workers have the same.
    """
    durations = read_durations()
    starts_programs = {get_file(item) for item in items if item.get_closest_marker("process") is not None}

    def get_rank(item: pytest.Item) -> tuple[bool, float]:
        path = get_file(item)
        return path in starts_programs, -durations.get(path, 0.0)

    items.sort(key=get_rank)


class DurationRecorder:
    """Writes `tests/durations.txt` at the end of a run."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._seconds[report.nodeid.split("::", 1)[0]] += report.duration

    def pytest_sessionfinish(self) -> None:
        rows = sorted(self._seconds.items(), key=lambda row: (-row[1], row[0]))
        lines = [f"{seconds:6.1f} {path}\n" for path, seconds in rows if seconds >= _MIN_SECONDS]
        _DURATIONS.write_text(_HEAD + "".join(lines))
