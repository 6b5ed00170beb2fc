"""One measurement: load from the load process, CPU time read from the serving process before and after."""

import select
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from benchmarks.servers import ServerProcess
from benchmarks.shape import ARGUMENTS, RESPONSE_MARKER

_OPEN_CONNECTIONS = 64
_MAX_COMMAND_SECONDS = 120


@dataclass(frozen=True, slots=True)
class Load:
    """Calls to measure, calls of warm-up, concurrent connections, and seconds at half load (0: none)."""

    calls: int
    warm_up: int
    connections: int
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Request:
    """A request that is repeated: a POST with JSON, or a GET without a body."""

    target: str
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = field(default_factory=lambda: ARGUMENTS)
    expect: str = RESPONSE_MARKER
    """Contained in each response."""
    method: str = "POST"
    status: int = 200
    """The status of each response."""


@dataclass(frozen=True, slots=True)
class Measurement:
    """CPU microseconds of one call in the server and in its descendants, calls a second, resident bytes;
    milliseconds at half of that rate, and the calls made for these.
    """

    own: float
    others: float
    rate: float
    resident: int
    p50: float
    p99: float
    paced: int


class LoadFailed(Exception):
    """Raised where the load process gave up, because a response was not the expected one."""


class Driver:
    """A running load process."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    def send_line(self, message: Mapping[str, Any]) -> None:
        """Send one line of JSON."""
        assert self._process.stdin is not None
        self._process.stdin.write(orjson.dumps(dict(message)) + b"\n")
        self._process.stdin.flush()

    def drive(self, **command: float) -> dict[str, float]:
        """Send a command and return its result. Raises LoadFailed with the output of the load process."""
        self.send_line(command)
        assert self._process.stdout is not None
        assert self._process.stderr is not None
        if not select.select([self._process.stdout], [], [], _MAX_COMMAND_SECONDS)[0]:
            raise LoadFailed(f"not all calls had a response within {_MAX_COMMAND_SECONDS} s")
        line = self._process.stdout.readline()
        if not line:
            words = self._process.stderr.read().decode(errors="replace").strip().splitlines()
            raise LoadFailed(words[-1] if words else "the load process ended without output")
        found: dict[str, float] = orjson.loads(line)
        return found


@contextmanager
def driver(port: int, requests: Sequence[Request]) -> Iterator[Driver]:
    """Run a load process that sends these requests in turn; all expect the same."""
    plan = {
        "port": port,
        "requests": [
            {"method": one.method, "target": one.target, "headers": dict(one.headers), "body": one.body}
            for one in requests
        ],
        "expect": requests[0].expect,
        "status": requests[0].status,
    }
    command = [sys.executable, "-m", "benchmarks.load"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        started = Driver(process)
        started.send_line(plan)
        try:
            yield started
        finally:
            process.kill()


def measure(server: ServerProcess, requests: Sequence[Request], load: Load) -> Measurement:
    """Warm up, measure `load.calls` calls in a closed loop, then hold half of that rate in an open one."""
    try:
        with driver(server.port, requests) as process:
            process.drive(calls=load.warm_up, connections=load.connections)
            before = server.cost()
            seconds = process.drive(calls=load.calls, connections=load.connections)["seconds"]
            after = server.cost()
            rate = load.calls / seconds
            half = {"p50": 0.0, "p99": 0.0}
            paced = max(50, round(rate / 2 * load.seconds)) if load.seconds else 0
            if paced:
                half = process.drive(calls=paced, connections=_OPEN_CONNECTIONS, rate=rate / 2)
    except LoadFailed as failed:
        words = server.log.read_text(errors="replace").splitlines()[-40:]
        raise LoadFailed("\n".join([str(failed), *words])) from None
    return Measurement(
        own=(after.own - before.own) / load.calls * 1e6,
        others=(after.others - before.others) / load.calls * 1e6,
        rate=rate,
        resident=after.resident,
        p50=half["p50"],
        p99=half["p99"],
        paced=paced,
    )
