"""`python -m benchmarks.registration`: what `POST /providers` costs for a small document, for one of 10,000
operations, and for Microsoft Graph.

The small document is registered with a fork server for conversions and without one, in gateways that run side
by side and take turns, so that their ratio is meaningful on a busy machine. CPU time is that of the serving
process and of the conversion. A stall is measured as in `benchmarks.heartbeat`.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import orjson
from rich.console import Console

from benchmarks.corpus.download import FOLDER, CorpusUnavailableError, corpus
from benchmarks.gateway import OBSERVED, RequestFailed, RunningGateway, short_folder, start_gateway
from benchmarks.heartbeat import PATH
from benchmarks.population import population
from benchmarks.scale import STALL, Report
from benchmarks.shape import document

SMALL_MS: Final = 150.0
LARGE_SECONDS: Final = 4.0
_SERVER: Final = "https://api.example.com"
_GRAPH: Final = FOLDER / "package" / "api" / "microsoft.com" / "graph"


@dataclass(frozen=True, slots=True)
class RegistrationCost:
    """What one registration took: wall-clock and CPU seconds, and the longest stall in milliseconds.

    `peak` and `conversion_peak` are the largest resident MB so far of the gateway and of any of its children.
    """

    seconds: float
    cpu: float
    conversion_cpu: float
    stall: float
    peak: float
    conversion_peak: float


def read_facts(gateway: RunningGateway) -> dict[str, float]:
    """Return the figures of `benchmarks.heartbeat`, and reset the longest stall."""
    facts: dict[str, float] = orjson.loads(gateway.client.get(PATH).body)
    return facts


def register(gateway: RunningGateway, name: str, text: bytes) -> RegistrationCost:
    """Register a document; return what it took."""
    before = read_facts(gateway)
    began = time.perf_counter()
    gateway.client.send("POST", f"/providers?name={name}", text)
    seconds = time.perf_counter() - began
    # The heartbeat reports a stall at its next turn.
    time.sleep(0.05)
    after = read_facts(gateway)
    return RegistrationCost(
        seconds=seconds,
        cpu=after["cpu"] - before["cpu"],
        conversion_cpu=after["children_cpu"] - before["children_cpu"],
        stall=after["stall"] * 1e3,
        peak=after["peak"] / 1e6,
        conversion_peak=after["children_peak"] / 1e6,
    )


def measure_small(gateways: dict[str, RunningGateway], report: Report, *, times: int, pause: float) -> None:
    """Measure a document of three operations, `pause` seconds after the one before it."""
    text = document(3, server=_SERVER)
    costs: dict[str, list[RegistrationCost]] = {what: [] for what in gateways}
    for turn in range(times + 1):
        for what, gateway in gateways.items():
            time.sleep(pause)
            cost = register(gateway, f"small{turn}", text)
            if turn:
                costs[what].append(cost)
    medians = {}
    for what, found in costs.items():
        medians[what] = statistics.median(one.seconds for one in found) * 1e3
        target = SMALL_MS if what == "fork" else None
        report.add(f"small document, {what}: median", medians[what], "ms", target)
        report.add(f"small document, {what}: fastest", min(one.seconds for one in found) * 1e3, "ms")
        report.add(f"small document, {what}: CPU, gateway", _median_ms(found, "cpu"), "ms")
        report.add(f"small document, {what}: CPU, conversion", _median_ms(found, "conversion_cpu"), "ms")
    if len(medians) == 2:
        report.add("small document: fork / new process", medians["fork"] / medians["new process"], "x")


def _median_ms(costs: Sequence[RegistrationCost], member: str) -> float:
    return 1e3 * float(statistics.median(getattr(one, member) for one in costs))


def measure_back_to_back(gateway: RunningGateway, report: Report, *, times: int) -> None:
    """Measure small documents one directly after the other."""
    text = document(3, server=_SERVER)
    began = time.perf_counter()
    for turn in range(times):
        gateway.client.send("POST", f"/providers?name=row{turn}", text)
    each = (time.perf_counter() - began) / times
    report.add("small documents one after the other, each", each * 1e3, "ms")


def measure_large(gateway: RunningGateway, report: Report, *, operations: int, times: int) -> None:
    """Measure a document of many operations."""
    found = []
    for turn in range(times):
        found.append(register(gateway, f"large{turn}", population(operations, server=_SERVER, seed=turn)))
        gateway.client.send("DELETE", f"/providers/large{turn}")
    what = f"{operations:,} operations"
    report.add(f"{what}: median", statistics.median(one.seconds for one in found), "s", LARGE_SECONDS)
    report.add(f"{what}: fastest", min(one.seconds for one in found), "s")
    report.add(f"{what}: CPU, gateway", _median_ms(found, "cpu") / 1e3, "s")
    report.add(f"{what}: CPU, conversion", _median_ms(found, "conversion_cpu") / 1e3, "s")
    report.add(f"{what}: longest stall", max(one.stall for one in found), "ms", STALL)


def graph_document() -> Path | None:
    """Return Microsoft Graph of the corpus, downloaded if it is missing; None where that is not possible."""
    try:
        corpus()
    except CorpusUnavailableError as error:
        print(f"  Microsoft Graph is left out: {error}", file=sys.stderr)
        return None
    found = sorted(_GRAPH.glob("v1*/*.json"))
    return found[0] if found else None


def measure_document(gateway: RunningGateway, report: Report, path: Path, *, what: str) -> None:
    """Measure the registration of one file."""
    text = path.read_bytes()
    try:
        cost = register(gateway, "document", text)
    except RequestFailed as failed:
        print(f"  {what} was not registered: {failed}", file=sys.stderr)
        report.add(f"{what}: registered", 1, "failure", 0)
        return
    tools = orjson.loads(gateway.client.get("/providers/document").body)["tool_count"]
    report.add(f"{what}: size", len(text) / 1e6, "MB")
    report.add(f"{what}: tools", tools, "tools")
    report.add(f"{what}: registration", cost.seconds, "s")
    report.add(f"{what}: CPU, gateway", cost.cpu, "s")
    report.add(f"{what}: CPU, conversion", cost.conversion_cpu, "s")
    report.add(f"{what}: longest stall", cost.stall, "ms")
    report.add(f"{what}: peak memory, gateway", cost.peak, "MB")
    report.add(f"{what}: peak memory, conversion", cost.conversion_peak, "MB")


def main() -> int:
    """Measure and print; 1 when a target is missed and --strict is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.registration", description=__doc__)
    parser.add_argument("--times", type=int, default=20, help="registrations of the small document")
    parser.add_argument("--pause", type=float, default=0.7, help="seconds between them")
    parser.add_argument("--operations", type=int, default=10_000, help="of the large document; 0: none")
    parser.add_argument("--large-times", type=int, default=3, help="registrations of the large document")
    parser.add_argument("--graph", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--document", type=Path, help="a file to measure in place of Microsoft Graph")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    report = Report(title="Registration")
    if options.times:
        with ExitStack() as stack:
            gateways = {}
            for what, enabled in (("fork", "true"), ("new process", "false")):
                folder = stack.enter_context(short_folder())
                environment = {"CONVERSION_FORK_SERVER": enabled}
                started = start_gateway(folder, command=OBSERVED, environment=environment)
                gateways[what] = stack.enter_context(started)
            measure_small(gateways, report, times=options.times, pause=options.pause)
            measure_back_to_back(gateways["fork"], report, times=options.times)
            time.sleep(1)
            report.add("fork server, resident", read_facts(gateways["fork"])["fork_server"] / 1e6, "MB")
    if options.operations:
        with short_folder() as folder, start_gateway(folder, command=OBSERVED) as gateway:
            measure_large(gateway, report, operations=options.operations, times=options.large_times)
    path = options.document or (graph_document() if options.graph else None)
    if path is not None:
        # The peak of a new process is known to its parent; that of a fork is not.
        settings = {"CONVERSION_FORK_SERVER": "false"}
        with (
            short_folder() as folder,
            start_gateway(folder, command=OBSERVED, environment=settings) as gateway,
        ):
            measure_document(gateway, report, path, what=options.document or "Microsoft Graph v1.0")
    report.show(Console(width=None if sys.stdout.isatty() else 120))
    return 1 if options.strict and report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
