"""`python -m benchmarks.protocols`: CPU time of a call by each protocol, through the gateway and by the plain
library, of the same upstream in the same run.

The calls are echoes of a small object. The programs that `cli` starts are counted in both columns.
"""

import argparse
import json
import platform
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
from rich.console import Console
from rich.table import Table

from benchmarks.gateway import Client, RequestFailed, short_folder, start_gateway
from benchmarks.measure import Load, LoadFailed, Request, measure
from benchmarks.protocols.plain import WAYS
from benchmarks.servers import ServerProcess, free_port, start_server

# A call of these takes milliseconds: they get a share of the calls.
_SHARES: Mapping[str, int] = {"cli": 20, "mcp": 5, "webrtc": 5}


@dataclass(frozen=True, slots=True)
class ProtocolCosts:
    """CPU microseconds of a call; `plain` is None where there is no library to compare with."""

    gateway: float
    plain: float | None
    rate: float


def parse_options() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.protocols", description=__doc__)
    parser.add_argument("--calls", type=int, default=2_000, help="calls measured in each round")
    parser.add_argument("--connections", type=int, default=8, help="calls at a time")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", metavar="PROTOCOL", help="protocols to measure")
    return parser.parse_args()


def environment(allowed: Mapping[str, Any]) -> dict[str, str]:
    """Return the settings of the measured gateway as environment variables."""
    words = {
        name: ",".join(value) if isinstance(value, list) else str(value) for name, value in allowed.items()
    }
    return {"ALLOW_NETWORKS": "127.0.0.0/8", **{name.upper(): value for name, value in words.items()}}


def register_tool(client: Client, protocol: str, templates: Mapping[str, Any]) -> str:
    """Register the protocol's tool and return its call path. Raises RequestFailed."""
    body = {"provider": f"bench-{protocol}", "name": "echo", "call_template": templates["template"]}
    client.send("POST", "/tools", body)
    return f"/tools/bench-{protocol}.echo/call"


def measure_library(protocol: str, templates: Mapping[str, Any], load: Load) -> float | None:
    """Return the CPU microseconds of a call with the library, in a process of its own."""
    if protocol not in WAYS:
        return None
    order = {
        "protocol": protocol, "calls": load.calls, "warm_up": load.warm_up, "connections": load.connections,
        **templates,
    }  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.protocols.plain"],
        input=json.dumps(order) + "\n", capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    if done.returncode:
        raise LoadFailed(done.stderr.strip().splitlines()[-1])
    return float(done.stdout)


def row(
    server: ServerProcess,
    request: Request,
    protocol: str,
    templates: Mapping[str, Any],
    options: argparse.Namespace,
) -> ProtocolCosts:
    """Return the medians of the rounds, gateway and library in turn. Raises LoadFailed."""
    share = _SHARES.get(protocol, 1)
    calls = max(50, options.calls // share)
    load = Load(calls, max(20, calls // 5), options.connections)
    ours, theirs, rates = [], [], []
    for _ in range(options.rounds):
        measured = measure(server, [request], load)
        ours.append(measured.own + (measured.others if protocol == "cli" else 0.0))
        rates.append(measured.rate)
        theirs.append(measure_library(protocol, templates, load))
    plain = [one for one in theirs if one is not None]
    return ProtocolCosts(
        statistics.median(ours), statistics.median(plain) if plain else None, statistics.median(rates)
    )


def show(console: Console, found: Mapping[str, ProtocolCosts]) -> None:
    """The table."""
    table = Table(title="CPU of a call by protocol")
    for column in ("", "gateway us", "plain library us", "x plain", "calls/s"):
        table.add_column(column, justify="right" if column else "left")
    for protocol, figures in found.items():
        plain = "" if figures.plain is None else f"{figures.plain:.0f}"
        ratio = "" if figures.plain is None else f"{figures.gateway / figures.plain:.2f}"
        table.add_row(protocol, f"{figures.gateway:.0f}", plain, ratio, f"{figures.rate:,.0f}")
    console.print(table)


def main() -> int:
    """Measure and print; 1 where a protocol could not be measured."""
    options = parse_options()
    console = Console(width=None if sys.stdout.isatty() else 110)
    found: dict[str, ProtocolCosts] = {}
    missing = 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="bench")))
        port = free_port()
        command = ["-m", "benchmarks.protocols.upstream", str(port)]
        stack.enter_context(start_server(command, port=port, folder=folder))
        upstream = httpx2.get(f"http://127.0.0.1:{port}/", trust_env=False).json()
        templates = upstream["protocols"]
        short = stack.enter_context(short_folder())
        started = stack.enter_context(start_gateway(short, environment=environment(upstream["settings"])))
        for protocol in options.only or templates:
            try:
                path = register_tool(started.client, protocol, templates[protocol])
                headers = {"Authorization": f"Bearer {started.key}"}
                request = Request(path, headers, templates[protocol]["arguments"])
                found[protocol] = row(started.server, request, protocol, templates[protocol], options)
            except (RequestFailed, LoadFailed) as failed:
                missing += 1
                print(f"  left out: {protocol}: {failed}", file=sys.stderr)
    console.print(
        f"Python {platform.python_version()}; {options.calls:,} calls, {options.connections} at a time"
    )
    show(console, found)
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
