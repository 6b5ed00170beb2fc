"""`python -m benchmarks`: CPU per warm proxied call, and per call of each HTTP client.

Everything calls the same upstream in the same run, in turn, several rounds; the median of the rounds counts.
What cannot run is left out by name and with the reason.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.gateway import Loaded, gateway
from benchmarks.measure import Load, LoadFailed, Measured, measure
from benchmarks.servers import NotStarted, Served, free_port, served
from benchmarks.utcp1 import VERSION, NotInstalled, client, direct

CLIENTS = ("aiohttp", "httpx2", "httpx")


@dataclass
class Subject:
    """Something that is measured, once in each round."""

    name: str
    once: Callable[[], Measured]
    rounds: list[Measured] = field(default_factory=list)

    def median(self, member: str) -> float:
        """The median of one figure over the rounds."""
        return statistics.median(getattr(one, member) for one in self.rounds)


def options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000, help="calls measured in each round")
    parser.add_argument("--warm-up", type=int, default=500, help="calls before that")
    parser.add_argument("--connections", type=int, default=8, help="calls at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tools", type=int, nargs="*", default=[10, 10_000], help="sizes of the registry")
    parser.add_argument("--spread", type=int, default=10, help="different tools that are called")
    parser.add_argument("--only", choices=["proxy", "clients"], help="only one of the two tables")
    parser.add_argument(
        "--limit", type=float, help="fail if the gateway costs more than this many bare proxies"
    )
    return parser.parse_args()


@contextmanager
def upstream(folder: Path) -> Iterator[Served]:
    """The upstream."""
    port = free_port()
    with served(["-m", "benchmarks.upstream", str(port)], port=port, folder=folder) as server:
        yield server


def bare(folder: Path, stack: ExitStack, target: str, load: Load, spread: int) -> Subject:
    """The bare proxy."""
    port = free_port()
    command = ["-m", "benchmarks.bare", str(port), target]
    server = stack.enter_context(served(command, port=port, folder=folder))
    targets = [f"/tools/{number}/call" for number in range(spread)]
    return Subject(
        "bare Starlette + aiohttp proxy",
        lambda: measure(server, targets=targets, headers={}, load=load),
    )


def ours(stack: ExitStack, target: str, load: Load, *, tools: int, spread: int) -> Subject:
    """The gateway with a number of tools."""
    loaded: Loaded = stack.enter_context(gateway(tools=tools, spread=min(spread, tools), upstream=target))
    print(f"  registered {tools:,} tools in {loaded.import_seconds:.1f} s", file=sys.stderr)
    headers = {"Authorization": f"Bearer {loaded.key}"}
    return Subject(
        f"utcp-gateway, {tools:,} tools",
        lambda: measure(loaded.server, targets=loaded.tools, headers=headers, load=load),
    )


def proxies(stack: ExitStack, folder: Path, target: str, given: argparse.Namespace) -> list[Subject]:
    """Measure the proxies in turn, round after round."""
    load = Load(given.calls, given.warm_up, given.connections)
    subjects = [bare(folder, stack, target, load, given.spread)]
    for tools in given.tools:
        try:
            subjects.append(ours(stack, target, load, tools=tools, spread=given.spread))
        except NotStarted as reason:
            print(f"  left out: utcp-gateway, {tools:,} tools: {reason}", file=sys.stderr)
    for _ in range(given.rounds):
        for subject in list(subjects):
            try:
                subject.rounds.append(subject.once())
            except LoadFailed as reason:
                print(f"  left out: {subject.name}: {reason}", file=sys.stderr)
                subjects.remove(subject)
    return subjects


def show_proxies(console: Console, subjects: list[Subject], utcp: float | None) -> float:
    """The table of proxied calls; answers with the highest ratio of the gateway to the bare proxy."""
    table = Table(title="CPU per warm proxied call")
    for column in ("", "us a call", "x bare", "with its children", "calls/s", "resident MB"):
        table.add_column(column, justify="right" if column else "left")
    base = subjects[0].median("own")
    for subject in subjects:
        own, others = subject.median("own"), subject.median("others")
        spread = f"{min(one.own for one in subject.rounds):.0f}-{max(one.own for one in subject.rounds):.0f}"
        table.add_row(
            subject.name,
            f"{own:.0f} ({spread})",
            f"{own / base:.2f}",
            f"{own + others:.0f}",
            f"{subject.median('rate'):,.0f}",
            f"{subject.median('resident') / 2**20:.0f}",
        )
    if utcp is not None:
        table.add_row(
            f"utcp {VERSION} client, direct", f"{utcp:.0f}", f"{utcp / base:.2f}", f"{utcp:.0f}", "", ""
        )
    console.print(table)
    return max((subject.median("own") / base for subject in subjects[1:]), default=0.0)


def show_clients(console: Console, target: str, given: argparse.Namespace) -> None:
    """The table of HTTP clients; rounds in turn, as above."""
    load = Load(given.calls, given.warm_up, given.connections)
    rounds = [{name: client(name, target, load) for name in CLIENTS} for _ in range(given.rounds)]
    medians = {name: statistics.median(one[name] for one in rounds) for name in CLIENTS}
    table = Table(title="CPU per call of the HTTP client alone")
    for column in ("", "us a call", "x aiohttp"):
        table.add_column(column, justify="right" if column else "left")
    for name, cost in medians.items():
        table.add_row(name, f"{cost:.0f}", f"{cost / medians['aiohttp']:.2f}")
    console.print(table)


def utcp_directly(target: str, given: argparse.Namespace) -> float | None:
    """The UTCP client, or None where it cannot be installed or run."""
    try:
        return direct(target, Load(given.calls, given.warm_up, given.connections))
    except (NotInstalled, RuntimeError) as reason:
        print(f"  left out: utcp {VERSION} client: {reason}", file=sys.stderr)
        return None


def main() -> int:
    """Measure and print; 1 when the gateway is dearer than --limit."""
    given = options()
    console = Console(width=None if sys.stdout.isatty() else 120)
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs; {given.calls:,} calls after "
        f"{given.warm_up:,}, {given.connections} at a time, median of {given.rounds} rounds",
        highlight=False,
    )
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="bench") as name, ExitStack() as stack:
        folder = Path(name)
        target = stack.enter_context(upstream(folder)).url
        if given.only != "clients":
            subjects = proxies(stack, folder, target, given)
            worst = show_proxies(console, subjects, utcp_directly(target, given))
        if given.only != "proxy":
            show_clients(console, target, given)
    return 1 if given.limit is not None and not 0 < worst <= given.limit else 0


if __name__ == "__main__":
    sys.exit(main())
