"""The gateway with a heartbeat: `python -m benchmarks.heartbeat serve ...` runs `utcp-gateway serve ...`.

A task wakes up every two milliseconds. Its delay is a stall of the event loop, but counts no more than the
CPU time that the process took meanwhile, so that a machine that is busy with other work does not count (a
thread that holds the interpreter's lock does). `GET /benchmark` returns the longest stall since the last such
request in seconds, the CPU seconds of the process and of its ended children so far, its resident bytes and
their peak, the peak of a child, and the resident bytes of the fork server of conversions.
"""

import asyncio
import contextlib
import resource
import sys
import time
from typing import Any

import orjson
import psutil
from starlette.types import ASGIApp, Receive, Scope, Send

import app.main
from app.cli.main import main as command_line

PATH = "/benchmark"
_EVERY = 0.002
_PEAK_UNIT = 1 if sys.platform == "darwin" else 1024


class ObservedApplication:
    """An ASGI application with a heartbeat beside it."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._beating: asyncio.Task[None] | None = None
        self._longest = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        if scope["type"] == "http" and scope["path"] == PATH:
            await self._respond(send)
        else:
            await self._application(scope, receive, send)

    async def _beat(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(_EVERY)
            late = time.perf_counter() - wall - _EVERY
            self._longest = max(self._longest, min(late, time.process_time() - cpu))

    async def _respond(self, send: Send) -> None:
        longest, self._longest = self._longest, 0.0
        facts = {
            "stall": longest,
            "cpu": time.process_time(),
            "resident": psutil.Process().memory_info().rss,
            "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _PEAK_UNIT,
            **_children(),
        }
        body = orjson.dumps(facts)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _children() -> dict[str, float]:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu, fork_server = ended.ru_utime + ended.ru_stime, 0
    for child in psutil.Process().children():
        with contextlib.suppress(psutil.Error):
            if "app.openapi.process.server" in child.cmdline():
                fork_server = child.memory_info().rss
                cpu += sum(child.cpu_times()[:4])
    return {"children_cpu": cpu, "children_peak": ended.ru_maxrss * _PEAK_UNIT, "fork_server": fork_server}


def observe() -> None:
    """Give the gateway that `serve` starts a heartbeat."""
    plain = app.main.create_app

    def create_observed(*arguments: Any) -> ObservedApplication:
        return ObservedApplication(plain(*arguments))

    app.main.create_app = create_observed  # type: ignore[assignment]


if __name__ == "__main__":
    observe()
    command_line()
