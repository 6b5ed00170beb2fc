"""The gateway's part: CPU and memory of pages with many tools, and calls while sessions are replayed."""

import http.client
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

import orjson

from benchmarks.console.steps import STATIC, Step, operator_steps, warm_steps
from benchmarks.gateway import OBSERVED, RunningGateway, register, short_folder, start_gateway
from benchmarks.measure import Request, driver
from benchmarks.population import population
from benchmarks.scale import Report, await_search, read_stats
from benchmarks.servers import free_port, start_server
from benchmarks.shape import ARGUMENTS

SIGN_IN = "/console/sign-in"
MAX_CPU = 15.0
MAX_GROWTH = 20.0
MAX_P99_RATIO = 1.05
_CONNECTIONS = 64


@dataclass(frozen=True, slots=True)
class ServerPlan:
    """How much is measured: tools and their providers, replayed sessions, seconds of a round, rounds, pages,
    calls a second.
    """

    tools: int
    providers: int
    sessions: int
    seconds: float
    rounds: int
    pages: int
    rate: float


def session_headers(port: int, key: str) -> dict[str, str]:
    """Sign in as the form does, and return the headers of the session; where there is no form, of the key."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    origin = f"http://127.0.0.1:{port}"
    connection.request(
        "POST", SIGN_IN, urlencode({"key": key}),
        {
            "Content-Type": "application/x-www-form-urlencoded", "Origin": origin,
            "Sec-Fetch-Site": "same-origin",
        },
    )  # fmt: skip
    response = connection.getresponse()
    response.read()
    cookie = response.getheader("Set-Cookie")
    connection.close()
    if response.status != 303 or cookie is None:
        return {"X-API-Key": key}
    return {"Cookie": cookie.partition(";")[0]}


class PageReader:
    """One keep-alive connection of a browser."""

    def __init__(self, port: int, headers: Mapping[str, str]) -> None:
        self._http = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self._headers = dict(headers)

    def read(self, step: Step) -> str:
        """Return a page or fragment; raise RuntimeError for a response without success."""
        fragment = {"X-Fragment": step.fragment} if step.fragment else {}
        self._http.request(
            "GET", step.path, headers={**self._headers, **fragment, "Accept-Encoding": "gzip, br"}
        )
        response = self._http.getresponse()
        body = response.read()
        if response.status != 200:
            raise RuntimeError(f"{step.path}: {response.status}")
        return body.decode(errors="replace")

    def close(self) -> None:
        """Close the connection."""
        self._http.close()


def measure_pages(
    gateway: RunningGateway, report: Report, headers: Mapping[str, str], plan: ServerPlan
) -> None:
    """Measure the CPU time of pages, and what the first of them leave in memory."""
    before = read_stats(gateway)
    reader = PageReader(gateway.server.port, headers)
    # Templates and static files are compiled and compressed once.
    for step in warm_steps("p0.get1"):
        for path in STATIC.findall(reader.read(step)):
            reader.read(Step(0, path))
    what = f"Tools page, {plan.tools:,} tools"
    for name, step, maximum in (
        (what, Step(0, "/console/tools"), MAX_CPU),
        (f"{what}, its results by a word", Step(0, "/console/tools?q=bale", "results"), None),
        ("page of a tool", Step(0, "/console/tools/p0.get1"), None),
    ):
        for _ in range(5):
            reader.read(step)
        begun = read_stats(gateway).cpu
        for _ in range(plan.pages):
            reader.read(step)
        ended = read_stats(gateway)
        report.add(f"{name}: CPU", (ended.cpu - begun) / plan.pages, "ms", maximum)
        report.add(f"{name}: longest stall", ended.stall, "ms")
    reader.close()
    report.add(
        "resident memory by these pages", read_stats(gateway).resident - before.resident, "MB", MAX_GROWTH
    )


class ReplayProcess:
    """A running replay."""

    def __init__(self, plan: Mapping[str, Any]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "benchmarks.console.replay"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
        )
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(dict(plan)) + b"\n")
        self._process.stdin.close()

    def figures(self) -> dict[str, Any]:
        """Wait for its end, and return its figures."""
        assert self._process.stdout is not None
        found: dict[str, Any] = orjson.loads(self._process.stdout.read())
        self._process.wait()
        return found


def existing(port: int, headers: Mapping[str, str], steps: Sequence[Step]) -> list[Step]:
    """Return the steps whose pages there are, and print the others."""
    reader, found = PageReader(port, headers), []
    for step in steps:
        try:
            if not step.follow:
                reader.read(step)
        except RuntimeError as missing:
            print(f"  left out: {missing}", file=sys.stderr)
        else:
            found.append(step)
    reader.close()
    return found


def measure_calls(
    gateway: RunningGateway, report: Report, all_headers: Sequence[Mapping[str, str]], plan: ServerPlan
) -> None:
    """Measure calls at a constant rate, without and with replayed sessions, in turn."""
    port = gateway.server.port
    steps = existing(port, all_headers[0], operator_steps("p0.get1", "p0"))
    requests = [
        Request(f"/tools/p0.get{number}/call", {"Authorization": f"Bearer {gateway.key}"})
        for number in range(10)
    ]
    alone, beside, replayed = [], [], {}
    calls = round(plan.rate * plan.seconds)
    with driver(port, requests) as load:
        load.drive(calls=500, connections=8)
        for _ in range(plan.rounds):
            alone.append(load.drive(calls=calls, connections=_CONNECTIONS, rate=plan.rate))
            sessions = [{"headers": dict(headers)} for headers in all_headers]
            replay = ReplayProcess(
                {
                    "port": port,
                    "sessions": sessions,
                    "steps": [one.as_json() for one in steps],
                    "seconds": plan.seconds + 6,
                }
            )
            # Every browser has begun, and has loaded the static files.
            time.sleep(6)
            beside.append(load.drive(calls=calls, connections=_CONNECTIONS, rate=plan.rate))
            replayed = replay.figures()
    for name in ("p50", "p99"):
        report.add(
            f"calls at {plan.rate:g}/s alone: {name}", statistics.median(one[name] for one in alone), "ms"
        )
        report.add(
            f"calls beside {plan.sessions} sessions: {name}",
            statistics.median(one[name] for one in beside),
            "ms",
        )
    ratios = [two["p99"] / one["p99"] for one, two in zip(alone, beside, strict=True)]
    report.add(
        "calls beside sessions, x alone: p99, median of rounds", statistics.median(ratios), "x", MAX_P99_RATIO
    )
    report.add("replayed requests of a round", replayed["requests"], "")
    report.add("replayed requests: p50", replayed["p50"], "ms")
    report.add("replayed requests without success", replayed["failed"], "", 0)
    if replayed["paths"]:
        print(f"  without success: {replayed['paths']}", file=sys.stderr)


def run(report: Report, plan: ServerPlan) -> None:
    """Take all measurements in one gateway."""
    with ExitStack() as stack:
        folder = stack.enter_context(short_folder())
        port = free_port()
        upstream = stack.enter_context(
            start_server(["-m", "benchmarks.upstream", str(port)], port=port, folder=folder)
        )
        gateway = stack.enter_context(start_gateway(folder, command=OBSERVED))
        each = plan.tools // plan.providers
        for number in range(plan.providers):
            register(gateway.client, f"p{number}", population(each, server=upstream.url, seed=number))
        await_search(gateway)
        keys = [
            orjson.loads(
                gateway.client.send("POST", "/keys", {"name": f"operator {number}", "scopes": ["admin"]}).body
            )["key"]
            for number in range(plan.sessions)
        ]
        headers = [session_headers(gateway.server.port, key) for key in keys]
        for number in range(50):
            gateway.client.send("POST", f"/tools/p0.get{number % 10}/call", ARGUMENTS)
        measure_pages(gateway, report, headers[0], plan)
        measure_calls(gateway, report, headers, plan)
