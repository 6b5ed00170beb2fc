"""`python -m benchmarks`: CPU time, throughput and latency of a warm proxied call, and of HTTP clients.

All rows call the same upstream in the same run, in turn, in several rounds, of which the median is shown. A
row that cannot run is skipped, and its name and the reason are printed.
"""

import argparse
import os
import platform
import statistics
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

from rich.console import Console
from rich.table import Table

from benchmarks.console.measurements import show_first_paints
from benchmarks.measure import Load
from benchmarks.rows import ROWS, Row, RowContext, measure_rows, start_rows, upstream
from benchmarks.utcp1 import VERSION, client, direct
from benchmarks.venvs import NotInstalled

CLIENTS = ("aiohttp", "httpx2", "httpx")
_ALONE = ("utcp", "clients", "console")


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--calls", type=int, default=5_000, help="calls measured in each round")
    parser.add_argument("--warm-up", type=int, default=500, help="calls before that")
    parser.add_argument("--connections", type=int, default=8, help="calls at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3.0, help="at half load, in each round; 0: none")
    parser.add_argument("--spread", type=int, default=10, help="different tools that are called")
    parser.add_argument(
        "--only", nargs="+", choices=[*ROWS, *_ALONE], default=[*ROWS, *_ALONE], metavar="ROW",
        help=f"rows and tables to measure: {', '.join([*ROWS, *_ALONE])}",
    )  # fmt: skip
    parser.add_argument(
        "--limit", type=float, help="fail if a gateway with tools-* costs more than this many bare proxies"
    )
    return parser.parse_args()


def median(row: Row, member: str) -> float:
    """The median of one figure over the rounds of a row."""
    return float(statistics.median(getattr(one, member) for one in row.rounds))


def cost(row: Row) -> float:
    """Return the CPU microseconds of a call in the processes that do the work."""
    return median(row, "own") + (median(row, "others") if row.forks else 0.0)


def cost_of_all(row: Row) -> float:
    """Return the CPU microseconds of a call in all processes of a row: also in PostgreSQL and Redis."""
    return median(row, "own") + median(row, "others")


def show_calls(console: Console, rows: Sequence[Row], utcp: float | None) -> None:
    """The table of proxied calls: ratios to the bare proxy, `Redis` round trips and `SQL` commits."""
    table = Table(title="A warm proxied call")
    columns = (
        "",
        "CPU us",
        "x bare",
        "all processes",
        "x bare",
        "calls/s",
        "p50 ms",
        "p99 ms",
        "MB",
        "Redis",
        "SQL",
    )
    for column in columns:
        table.add_column(column, justify="right" if column else "left")
    bare = next((cost(row) for row in rows if row.name.startswith("bare")), None)
    for row in rows:
        lowest, highest = (pick(one.own for one in row.rounds) for pick in (min, max))
        spread = "" if row.forks else f" ({lowest:.0f}-{highest:.0f})"
        table.add_row(
            row.name,
            f"{cost(row):.0f}{spread}",
            f"{cost(row) / bare:.2f}" if bare else "",
            f"{cost_of_all(row):.0f}",
            f"{cost_of_all(row) / bare:.2f}" if bare else "",
            f"{median(row, 'rate'):,.0f}",
            f"{median(row, 'p50'):.1f}",
            f"{median(row, 'p99'):.1f}",
            f"{median(row, 'resident') / 2**20:.0f}",
            f"{statistics.median(row.redis):.1f}" if row.sockets else "",
            f"{statistics.median(row.commits):.2f}" if row.sockets else "",
        )
    if utcp is not None:
        ratio = f"{utcp / bare:.2f}" if bare else ""
        table.add_row(f"utcp {VERSION} client, direct", f"{utcp:.0f}", ratio, f"{utcp:.0f}", ratio, *[""] * 6)
    console.print(table)


def show_clients(console: Console, target: str, load: Load, *, rounds: int) -> None:
    """Print the table of HTTP clients, measured in turn as the rows are."""
    measurements = [{name: client(name, target, load) for name in CLIENTS} for _ in range(rounds)]
    medians = {name: statistics.median(one[name] for one in measurements) for name in CLIENTS}
    table = Table(title="CPU per call of the HTTP client alone")
    for column in ("", "us a call", "x aiohttp"):
        table.add_column(column, justify="right" if column else "left")
    for name, us in medians.items():
        table.add_row(name, f"{us:.0f}", f"{us / medians['aiohttp']:.2f}")
    console.print(table)


def utcp_directly(target: str, load: Load) -> float | None:
    """Return the CPU microseconds of a call with the UTCP client, None where it cannot run."""
    try:
        return direct(target, load)
    except (NotInstalled, RuntimeError) as reason:
        print(f"  left out: utcp {VERSION} client: {reason}", file=sys.stderr)
        return None


def max_ratio(rows: Sequence[Row]) -> float:
    """Return the highest ratio to the bare proxy of a gateway with API keys."""
    bare = next((cost(row) for row in rows if row.name.startswith("bare")), None)
    ours = [cost(row) for row in rows if row.name.endswith(" tools")]
    return max(ours) / bare if bare and ours else 0.0


def main() -> int:
    """Measure and print; return 1 where the gateway costs more than --limit."""
    options = parse_options()
    load = Load(options.calls, options.warm_up, options.connections, options.seconds)
    console = Console(width=None if sys.stdout.isatty() else 130)
    console.print(
        f"Python {platform.python_version()}, {os.cpu_count()} CPUs; {options.calls:,} calls after "
        f"{options.warm_up:,}, {options.connections} at once, then {options.seconds:g} s at half that rate; "
        f"median of {options.rounds} rounds",
        highlight=False,
    )
    worst = 0.0
    with tempfile.TemporaryDirectory(prefix="bench") as name, ExitStack() as stack:
        folder = Path(name)
        target = stack.enter_context(upstream(folder)).url
        names = [row for row in ROWS if row in options.only]
        rows = measure_rows(
            start_rows(names, RowContext(stack, folder, target, options.spread)), load, rounds=options.rounds
        )
        utcp = utcp_directly(target, load) if "utcp" in options.only else None
        if rows or utcp is not None:
            show_calls(console, rows, utcp)
            worst = max_ratio(rows)
        if "clients" in options.only:
            show_clients(console, target, load, rounds=options.rounds)
        if "console" in options.only:
            show_first_paints(console)
    return 1 if options.limit is not None and not 0 < worst <= options.limit else 0


if __name__ == "__main__":
    sys.exit(main())
