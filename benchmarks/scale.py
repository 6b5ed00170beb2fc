"""`python -m benchmarks.scale`: what 100,000 tools cost in memory, at the start, in search and in manuals.

Stalls of the event loop are those of `benchmarks.heartbeat`. CPU time is that of the serving process, all its
threads; wall times are medians where there are many, and meaningful on a quiet machine only.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote

import orjson
from rich.console import Console
from rich.table import Table

from benchmarks.gateway import OBSERVED, RequestFailed, RunningGateway, register, short_folder, start_gateway
from benchmarks.heartbeat import PATH
from benchmarks.population import manual, population, words
from benchmarks.servers import free_port, start_server
from benchmarks.shape import ARGUMENTS

STALL = 50.0
"""The longest stall of the event loop that is allowed, in milliseconds."""


@dataclass(frozen=True, slots=True)
class ProcessStats:
    """Figures of the serving process: milliseconds of the longest stall, CPU milliseconds, resident MB."""

    stall: float
    cpu: float
    resident: float


@dataclass(slots=True)
class Report:
    """The rows of the table: what was measured, its value, its unit, and its target (a maximum) or None."""

    rows: list[tuple[str, float, str, float | None]] = field(default_factory=list)
    title: str = "Scale"

    def add(self, what: str, value: float, unit: str, maximum: float | None = None) -> None:
        """Add a figure, and print it at once, because the whole run takes minutes."""
        self.rows.append((what, value, unit, maximum))
        print(f"  {what}: {value:,.2f} {unit}", file=sys.stderr, flush=True)

    def missed(self) -> list[str]:
        """Return the rows that exceed their targets."""
        return [what for what, value, _, maximum in self.rows if maximum is not None and value > maximum]

    def show(self, console: Console) -> None:
        """Print the table."""
        table = Table(title=self.title)
        for column in ("", "measured", "target"):
            table.add_column(column, justify="right" if column else "left")
        for what, value, unit, maximum in self.rows:
            target = (
                "" if maximum is None else f"<= {maximum:g} {unit}{'' if value <= maximum else ' (missed)'}"
            )
            table.add_row(what, f"{value:,.1f} {unit}", target)
        console.print(table)


def read_stats(gateway: RunningGateway) -> ProcessStats:
    """Return the figures and reset the longest stall."""
    facts = orjson.loads(gateway.client.get(PATH).body)
    return ProcessStats(facts["stall"] * 1e3, facts["cpu"] * 1e3, facts["resident"] / 1e6)


@contextmanager
def record_stall(gateway: RunningGateway, report: Report, what: str) -> Iterator[None]:
    """Add the longest stall within the block to the report."""
    read_stats(gateway)
    yield
    time.sleep(0.02)
    report.add(f"{what}: longest stall", read_stats(gateway).stall, "ms", STALL)


def await_search(gateway: RunningGateway) -> float:
    """Return the seconds until the search index is complete."""
    began = time.perf_counter()
    while True:
        try:
            gateway.client.get("/tools/search?q=anything")
            return time.perf_counter() - began
        except RequestFailed:
            time.sleep(0.1)


def measure_import(
    gateway: RunningGateway, report: Report, upstream: str, *, tools: int, providers: int
) -> None:
    """Measure the registration of all tools."""
    seconds = []
    with record_stall(gateway, report, f"registering {tools:,} tools"):
        for number in range(providers):
            text = population(tools // providers, server=upstream, seed=number)
            seconds.append(register(gateway.client, f"p{number}", text))
    report.add(f"registering {tools // providers:,} tools, median", statistics.median(seconds), "s")


def measure_search(gateway: RunningGateway, report: Report, *, tools: int, times: int) -> None:
    """Measure searches for two or three words, frequent and rare ones."""
    rng = random.Random(7)
    vocabulary = words()
    weights = [1 / rank for rank in range(1, len(vocabulary) + 1)]
    milliseconds = []
    before = read_stats(gateway)
    for _ in range(times):
        query = " ".join(rng.choices(vocabulary, weights, k=rng.randint(2, 3)))
        began = time.perf_counter()
        gateway.client.get(f"/tools/search?q={quote(query)}")
        milliseconds.append((time.perf_counter() - began) * 1e3)
    after = read_stats(gateway)
    report.add(f"/tools/search, {tools:,} tools: p50", statistics.median(milliseconds), "ms", 5.0)
    report.add(f"/tools/search, {tools:,} tools: CPU", (after.cpu - before.cpu) / times, "ms")
    report.add(f"/tools/search, {tools:,} tools: longest stall", after.stall, "ms", STALL)


def measure_manual(gateway: RunningGateway, report: Report, path: str, *, what: str, times: int) -> None:
    """Measure the first response (rendered), the next (cached), and 304s."""
    before = read_stats(gateway)
    first = gateway.client.get(path, **{"Accept-Encoding": "gzip"})
    time.sleep(0.02)
    after = read_stats(gateway)
    report.add(f"{what}: first response, CPU", after.cpu - before.cpu, "ms")
    report.add(f"{what}: first response, longest stall", after.stall, "ms", STALL)
    before = read_stats(gateway)
    for _ in range(times):
        response = gateway.client.get(
            path, **{"Accept-Encoding": "gzip", "If-None-Match": first.headers["etag"]}
        )
        if response.status != 304:
            raise RuntimeError(f"{what}: {response.status} instead of 304")
    report.add(f"{what}: 304, CPU", (read_stats(gateway).cpu - before.cpu) / times, "ms", 1.0)


def measure_change(
    gateway: RunningGateway, report: Report, changed: tuple[str, str], path: str, *, what: str
) -> None:
    """Measure a change of one resource (method and path), and the manual after it."""
    before = read_stats(gateway)
    for text in ("one", "another"):
        gateway.client.send("PATCH", changed[1], {changed[0]: f"Changed to {text}"})
        gateway.client.get(path, **{"Accept-Encoding": "gzip"})
    time.sleep(0.02)
    after = read_stats(gateway)
    report.add(f"{what}: CPU", (after.cpu - before.cpu) / 2, "ms")
    report.add(f"{what}: longest stall", after.stall, "ms", STALL)


def measure_start(folder: Path, report: Report, *, tools: int) -> None:
    """Measure a start with all tools in the database."""
    began = time.perf_counter()
    with start_gateway(folder, command=OBSERVED) as gateway:
        gateway.client.send("POST", "/tools/p0.get1/call", ARGUMENTS)
        report.add(f"start with {tools:,} tools to the first call", time.perf_counter() - began, "s", 15.0)
        await_search(gateway)
        report.add(f"start with {tools:,} tools to the first search", time.perf_counter() - began, "s")
        found = read_stats(gateway)
        report.add("start: longest stall", found.stall, "ms", STALL)
        report.add("start: CPU", found.cpu / 1e3, "s")


def measure_large_manual(gateway: RunningGateway, report: Report, upstream: str, *, tools: int) -> None:
    """Measure the registration of a UTCP manual in one request."""
    text = manual(tools, server=upstream)
    what = f"registering a manual of {tools:,} tools ({len(text) >> 20} MB)"
    began = time.perf_counter()
    with record_stall(gateway, report, what):
        gateway.client.send("POST", "/providers?name=large", text)
    report.add(what, time.perf_counter() - began, "s")


def measure_control(gateway: RunningGateway, report: Report, upstream: str, *, operations: int) -> None:
    """Measure the stalls of the control plane's requests with one large document."""
    text = population(operations, server=upstream, seed=77)
    other = text.replace(b'"minimum":1', b'"minimum":2').replace(b"/items/", b"/things/")
    changed = {"description": "Changed"}
    requests: tuple[tuple[str, str, str, Any], ...] = (
        ("preview", "POST", "/providers/preview?name=control", text),
        ("registration", "POST", "/providers?name=control", text),
        ("preview of what is registered", "POST", "/providers/preview?name=control", other),
        ("refresh", "POST", "/providers/control/refresh", None),
        ("provider with its report", "GET", "/providers/control", None),
        ("change of the provider", "PATCH", "/providers/control", changed),
        ("its UTCP manual", "GET", "/utcp?provider=control", None),
        ("its direct manual", "GET", "/utcp?provider=control&mode=direct", None),
        ("export", "GET", "/export", None),
    )
    for what, method, path, body in requests:
        with record_stall(gateway, report, f"{operations:,} operations, {what}"):
            gateway.client.send(method, path, body)
    exported = gateway.client.get("/export").body
    with record_stall(gateway, report, f"{operations:,} operations, deletion"):
        gateway.client.send("DELETE", "/providers/control")
    with record_stall(gateway, report, f"{operations:,} operations, import of an export"):
        gateway.client.send("POST", "/import", exported)
    gateway.client.send("DELETE", "/providers/control")
    with record_stall(gateway, report, f"{operations:,} operations, background import"):
        headers = {"Prefer": "respond-async"}
        place = gateway.client.send("POST", "/providers?name=control", text, headers=headers).headers[
            "location"
        ]
        while orjson.loads(gateway.client.get(place).body)["state"] == "running":
            time.sleep(0.1)


def run(
    report: Report, *, tools: int, providers: int, manual_tools: int, operations: int, times: int
) -> None:
    """Take all measurements, in one gateway and its second start."""
    with short_folder() as folder, tempfile.TemporaryDirectory(prefix="bench") as logs:
        port = free_port()
        arguments = ["-m", "benchmarks.upstream", str(port)]
        with start_server(arguments, port=port, folder=Path(logs)) as upstream:
            with start_gateway(folder, command=OBSERVED) as gateway:
                _filled(gateway, report, upstream.url, tools=tools, providers=providers, times=times)
                if operations:
                    measure_control(gateway, report, upstream.url, operations=operations)
                if manual_tools:
                    measure_large_manual(gateway, report, upstream.url, tools=manual_tools)
            measure_start(folder, report, tools=tools)


def _filled(
    gateway: RunningGateway, report: Report, upstream: str, *, tools: int, providers: int, times: int
) -> None:
    empty = read_stats(gateway).resident
    report.add("start without tools to ready", gateway.seconds, "s")
    report.add("one worker without tools, resident", empty, "MB", 220.0)
    measure_import(gateway, report, upstream, tools=tools, providers=providers)
    await_search(gateway)
    measure_search(gateway, report, tools=tools, times=times)
    grown = read_stats(gateway).resident - empty
    report.add("each further tool, resident", grown * 1e3 / tools, "kB", 30.0)
    each = tools // providers
    one = f"/utcp of {each:,} tools"
    measure_manual(gateway, report, "/utcp?provider=p0", what=one, times=times)
    measure_change(
        gateway,
        report,
        ("description", "/tools/p0.get1"),
        "/utcp?provider=p0",
        what=f"{one}: one tool changed",
    )
    whole = f"/utcp of {tools:,} tools"
    measure_manual(gateway, report, "/utcp", what=whole, times=times)
    measure_change(
        gateway, report, ("description", "/tools/p0.get1"), "/utcp", what=f"{whole}: one tool changed"
    )
    measure_change(
        gateway,
        report,
        ("description", f"/providers/p{providers - 1}"),
        "/utcp",
        what=f"{whole}: a provider changed",
    )
    grown = read_stats(gateway).resident - empty
    report.add("each further tool with manuals, resident", grown * 1e3 / tools, "kB", 30.0)


def main() -> int:
    """Measure and print; 1 when a target is missed and --strict is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.scale", description=__doc__)
    parser.add_argument("--tools", type=int, default=100_000)
    parser.add_argument("--providers", type=int, default=10, help="providers that they are spread over")
    parser.add_argument("--manual-tools", type=int, default=30_000, help="of one large UTCP manual; 0: none")
    parser.add_argument("--operations", type=int, default=10_000, help="of one large document; 0: none")
    parser.add_argument("--times", type=int, default=300, help="searches, and 304s")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    report = Report()
    run(
        report,
        tools=options.tools,
        providers=options.providers,
        manual_tools=options.manual_tools,
        operations=options.operations,
        times=options.times,
    )
    report.show(Console(width=None if sys.stdout.isatty() else 120))
    return 1 if options.strict and report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
