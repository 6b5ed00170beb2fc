"""The measurements of the console, put together: which gateways run, with what in them."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
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

BROWSER_TOOLS = 10_000
TAIL_RATE = 500
PAINTED = ("/console/tools", "/console/calls")
TIMES = 9


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


async def measure_browser(
    gateway: RunningGateway, report: Report, parts: Sequence[str], *, times: int, pages: int, minutes: float
) -> None:
    """Take the measurements in Chromium."""
    base = gateway.server.url
    headers: Mapping[str, str] = server.session_headers(gateway.server.port, gateway.key)
    async with browser.chromium() as running:
        if "paint" in parts:
            await browser.measure_paint(running, base, headers, report, paths=PAINTED, times=times)
        if "scroll" in parts:
            await browser.measure_scroll(running, base, headers, report, path="/console/tools", pages=pages)
        if "tail" in parts:
            seconds = minutes * 60
            await browser.measure_tail(
                running,
                base,
                headers,
                report,
                seconds=seconds,
                start_load=start_tail_load(gateway, seconds + 30),
            )


def run_browser(
    report: Report, parts: Sequence[str], *, times: int = TIMES, pages: int = 0, minutes: float = 0
) -> None:
    """Run parts of the browser in a gateway with some tools and calls. Raises NotStarted."""
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
        asyncio.run(measure_browser(gateway, report, parts, times=times, pages=pages, minutes=minutes))


def show_first_paints(console: Console) -> None:
    """Measure and print the first contentful paints alone; without Chromium, print the reason."""
    report = Report(title="First paint of the console, CPU slowed four times, empty cache")
    try:
        run_browser(report, ("paint",))
    except NotStarted as reason:
        print(f"  left out: console: {reason}", file=sys.stderr)
    else:
        report.show(console)
