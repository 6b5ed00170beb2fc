"""`--profile`: the CPU time of the suite by file and by marker, in collection, fixtures and calls.

The time of a test is that of its own process and of the programs that it runs: embedded servers, gateways, child processes.
"""

import os
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

_PHASES = ("collection", "setup", "call", "teardown", "programs")
_TICKS = os.sysconf("SC_CLK_TCK")


@dataclass
class _Profile:
    """The CPU seconds of one process: `files[path][phase]`, `markers[name][phase]`, and the number of tests of each."""

    imports: float = 0.0
    files: dict[str, dict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    markers: dict[str, dict[str, float]] = field(
        default_factory=lambda: defaultdict(lambda: defaultdict(float))
    )
    _programs: float = 0.0

    def add(self, item: pytest.Item, phase: str, seconds: float) -> None:
        """Count CPU seconds of a phase of a test for its file and its markers."""
        self.files[_get_file(item)][phase] += seconds
        for marker in {marker.name for marker in item.iter_markers()} or {"(none)"}:
            self.markers[marker][phase] += seconds

    def add_programs(self, item: pytest.Item) -> None:
        """Count what the programs of this process have used since the last test."""
        total = _read_program_seconds()
        self.add(item, "programs", max(total - self._programs, 0.0))
        self.add(item, "tests", 1)
        self._programs = total

    def merge(self, files: dict[str, dict[str, float]], markers: dict[str, dict[str, float]]) -> None:
        """Add the profile of another process."""
        for ours, theirs in ((self.files, files), (self.markers, markers)):
            for name, phases in theirs.items():
                for phase, seconds in phases.items():
                    ours[name][phase] += seconds


def _get_file(item: pytest.Item) -> str:
    return item.nodeid.split("::", 1)[0]


def _read_program_seconds() -> float:
    """Return the CPU seconds of all programs that this process started, ended ones included (Linux; elsewhere the ended ones)."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    total = usage.ru_utime + usage.ru_stime
    waiting = [os.getpid()]
    while waiting:
        process = waiting.pop()
        children: set[int] = set()
        with suppress(OSError):
            for task in Path(f"/proc/{process}/task").iterdir():
                with suppress(OSError):
                    children.update(map(int, (task / "children").read_text().split()))
        for child in children:
            with suppress(OSError, IndexError):
                # The name of the program, in parentheses, may have spaces.
                fields = Path(f"/proc/{child}/stat").read_text().rsplit(")", 1)[1].split()
                total += sum(map(int, fields[11:15])) / _TICKS
                waiting.append(child)
    return total


class ProfilePlugin:
    """Measures this process; on the controller of xdist, adds the workers."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.profile = _Profile()
        self._workers = 0

    @pytest.hookimpl(wrapper=True)
    def pytest_collection(self) -> Iterator[None]:
        began = time.process_time()
        try:
            return (yield)
        finally:
            self.profile.imports += time.process_time() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_make_collect_report(
        self, collector: pytest.Collector
    ) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
        began = time.process_time()
        try:
            return (yield)
        finally:
            if isinstance(collector, pytest.File | pytest.Class):
                path = collector.nodeid.split("::", 1)[0]
                self.profile.files[path]["collection"] += time.process_time() - began

    @contextmanager
    def _measure(self, item: pytest.Item, phase: str) -> Iterator[None]:
        began = time.process_time()
        try:
            yield
        finally:
            self.profile.add(item, phase, time.process_time() - began)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item, "setup"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item, "call"):
            return (yield)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item) -> Iterator[None]:
        with self._measure(item, "teardown"):
            result = yield
        self.profile.add_programs(item)
        return result

    @pytest.hookimpl(wrapper=True, trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> Iterator[None]:
        result = yield
        output = getattr(session.config, "workeroutput", None)
        if output is not None:
            output["profile"] = {
                "imports": self.profile.imports,
                "files": {name: dict(phases) for name, phases in self.profile.files.items()},
                "markers": {name: dict(phases) for name, phases in self.profile.markers.items()},
            }
        return result

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: object) -> None:
        theirs = getattr(node, "workeroutput", {}).get("profile")
        if theirs:
            self._workers += 1
            self.profile.imports += theirs["imports"]
            self.profile.merge(theirs["files"], theirs["markers"])

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        write = terminalreporter.write_line
        processes = self._workers or 1
        write(f"CPU seconds; collection is the sum of {processes} processes ({self.profile.imports:.1f} s)")
        for title, rows in (("marker", self.profile.markers), ("file", self.profile.files)):
            write("")
            write(f"{'all':>8} " + " ".join(f"{phase:>10}" for phase in _PHASES) + f" {'tests':>6}  {title}")
            totals: dict[str, float] = defaultdict(float)
            for phases in rows.values():
                for phase, seconds in phases.items():
                    totals[phase] += seconds
            ranked = sorted(rows.items(), key=lambda row: -_sum_phases(row[1]))
            if title == "file":
                write(_format_row("all files", totals))
            for name, phases in ranked:
                write(_format_row(name, phases))


def _sum_phases(phases: dict[str, float]) -> float:
    return sum(phases.get(phase, 0.0) for phase in _PHASES)


def _format_row(name: str, phases: dict[str, float]) -> str:
    cells = " ".join(f"{phases.get(phase, 0.0):10.2f}" for phase in _PHASES)
    return f"{_sum_phases(phases):8.2f} {cells} {int(phases.get('tests', 0)):6}  {name}"
