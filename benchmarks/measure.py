"""CPU of one call: driven by the load process, read from the serving process before and after."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from benchmarks.servers import Cost, Served
from benchmarks.shape import ARGUMENTS


@dataclass(frozen=True, slots=True)
class Load:
    """How much is driven: calls that are measured, calls before that, connections at a time."""

    calls: int
    warm_up: int
    connections: int


@dataclass(frozen=True, slots=True)
class Measured:
    """CPU microseconds of one call in the server and in its descendants, calls a second, resident bytes."""

    own: float
    others: float
    rate: float
    resident: int


class LoadFailed(Exception):
    """The load process gave up: an answer was not 200."""


def measure(server: Served, *, targets: Sequence[str], headers: Mapping[str, str], load: Load) -> Measured:
    """Warm up, then drive `load.calls` calls over the targets in turn."""
    plan: dict[str, Any] = {
        "port": server.port,
        "targets": list(targets),
        "body": ARGUMENTS,
        "headers": dict(headers),
        "calls": load.calls,
        "warm_up": load.warm_up,
        "connections": load.connections,
    }
    command = [sys.executable, "-m", "benchmarks.load"]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        try:
            _tell(process, orjson.dumps(plan))
            _hear(process)
            before = server.cost()
            _tell(process, b"go")
            seconds = float(_hear(process))
        except LoadFailed as failed:
            words = server.log.read_text(errors="replace").splitlines()[-40:]
            raise LoadFailed("\n".join([str(failed), *words])) from None
        after = server.cost()
    return _per_call(before, after, seconds, load.calls)


def _per_call(before: Cost, after: Cost, seconds: float, calls: int) -> Measured:
    return Measured(
        own=(after.own - before.own) / calls * 1e6,
        others=(after.others - before.others) / calls * 1e6,
        rate=calls / seconds,
        resident=after.resident,
    )


def _tell(process: subprocess.Popen[bytes], line: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(line + b"\n")
    process.stdin.flush()


def _hear(process: subprocess.Popen[bytes]) -> bytes:
    assert process.stdout is not None
    assert process.stderr is not None
    line = process.stdout.readline()
    if not line:
        words = process.stderr.read().decode(errors="replace").strip().splitlines()
        raise LoadFailed(words[-1] if words else "the load process ended without a word")
    return line
