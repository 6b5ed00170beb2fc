"""`python -m benchmarks.console`: what the web console costs, in ratios of one run where possible.

`server`: CPU of the Tools page with 100,000 tools, memory, and p99 of calls while recorded sessions are
replayed over HTTP. `paint`, `scroll`, `tail`: in Chromium, with 10,000 tools.
"""

import argparse
import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import ExitStack

import orjson
from rich.console import Console

from benchmarks.console import browser, server
from benchmarks.gateway import OBSERVED, RunningGateway, register, short_folder, start_gateway
from benchmarks.measure import Request, driver
from benchmarks.population import population
from benchmarks.scale import Report, await_search
from benchmarks.servers import NotStarted, free_port, start_server
from benchmarks.shape import ARGUMENTS

PARTS = ("server", "paint", "scroll", "tail")
BROWSER_TOOLS = 10_000
TAIL_RATE = 500
PAINTED = ("/console/tools", "/console/calls")


def start_tail_load(
    gateway: RunningGateway, seconds: float
) -> Callable[[], Awaitable[Callable[[], Awaitable[float]]]]:
    """Return what begins calls at TAIL_RATE for `seconds`, and returns what waits for the rate reached."""

    def load() -> float:
        calls = round(TAIL_RATE * seconds)
        requests = [
            Request(f"/tools/p0.get{number}/call", {"Authorization": f"Bearer {gateway.key}"})
            for number in range(10)
        ]
        with driver(gateway.server.port, requests) as process:
            began = time.perf_counter()
            # A command may take two minutes at most.
            for _ in range(0, calls, TAIL_RATE * 60):
                process.drive(calls=min(calls, TAIL_RATE * 60), connections=64, rate=TAIL_RATE)
            return calls / (time.perf_counter() - began)

    async def start() -> Callable[[], Awaitable[float]]:
        running = asyncio.create_task(asyncio.to_thread(load))

        async def wait() -> float:
            return await running

        return wait

    return start


async def measure_browser(gateway: RunningGateway, report: Report, options: argparse.Namespace) -> None:
    """Take the measurements in Chromium."""
    base = gateway.server.url
    headers: Mapping[str, str] = server.session_headers(gateway.server.port, gateway.key)
    async with browser.chromium() as running:
        if "paint" in options.only:
            await browser.measure_paint(running, base, headers, report, paths=PAINTED, times=options.times)
        if "scroll" in options.only:
            await browser.measure_scroll(
                running, base, headers, report, path="/console/tools", pages=options.pages
            )
        if "tail" in options.only:
            minutes = options.minutes * 60
            await browser.measure_tail(
                running,
                base,
                headers,
                report,
                seconds=minutes,
                start_load=start_tail_load(gateway, minutes + 30),
            )


def run_browser(report: Report, options: argparse.Namespace) -> None:
    """Run the parts of the browser in a gateway with some tools and calls."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        port = free_port()
        upstream = stack.enter_context(
            start_server(["-m", "benchmarks.upstream", str(port)], port=port, folder=folder)
        )
        gateway = stack.enter_context(start_gateway(folder, command=OBSERVED))
        for number in range(4):
            register(
                gateway.client, f"p{number}", population(BROWSER_TOOLS // 4, server=upstream.url, seed=number)
            )
        await_search(gateway)
        for number in range(100):
            gateway.client.send("POST", f"/tools/p0.get{number % 10}/call", ARGUMENTS)
        # The records of calls are written in batches.
        time.sleep(2)
        assert orjson.loads(gateway.client.get("/calls?limit=1").body)["items"]
        asyncio.run(measure_browser(gateway, report, options))


def main() -> int:
    """Measure and print; 1 when a target is missed and --strict is given."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.console", description=__doc__)
    parser.add_argument(
        "--only", nargs="+", choices=PARTS, default=PARTS, metavar="PART", help=", ".join(PARTS)
    )
    parser.add_argument("--tools", type=int, default=100_000, help="of the part `server`")
    parser.add_argument("--sessions", type=int, default=50, help="replayed at a time")
    parser.add_argument("--seconds", type=float, default=30, help="of a round of calls")
    parser.add_argument("--rounds", type=int, default=3, help="of calls without and with sessions")
    parser.add_argument("--rate", type=float, default=200, help="calls a second beside the sessions")
    parser.add_argument("--times", type=int, default=9, help="loads of a page for its first paint")
    parser.add_argument(
        "--pages", type=int, default=20, help="pages of the list of tools that are scrolled through"
    )
    parser.add_argument("--minutes", type=float, default=10, help="of the live tail")
    parser.add_argument("--strict", action="store_true", help="fail when a target is missed")
    options = parser.parse_args()
    report = Report(title="Console")
    if "server" in options.only:
        plan = server.ServerPlan(
            tools=options.tools,
            providers=max(1, options.tools // 10_000),
            sessions=options.sessions,
            seconds=options.seconds,
            rounds=options.rounds,
            pages=200,
            rate=options.rate,
        )
        server.run(report, plan)
    if {"paint", "scroll", "tail"} & set(options.only):
        try:
            run_browser(report, options)
        except NotStarted as reason:
            print(f"  left out: {reason}", file=sys.stderr)
    report.show(Console(width=None if sys.stdout.isatty() else 120))
    return 1 if options.strict and report.missed() else 0


if __name__ == "__main__":
    sys.exit(main())
