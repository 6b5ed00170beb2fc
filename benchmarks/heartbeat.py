"""The gateway with a pulse: `python -m benchmarks.heartbeat serve ...` is `utcp-gateway serve ...`, observed.

A task wakes up every two milliseconds. What it comes late is a stall of the event loop: the lateness, but no
more than the CPU time that the process took meanwhile, so that a machine which is busy with others does not
count (a thread that holds the interpreter's lock does). `GET /benchmark` answers with the longest one since
it was last asked, in seconds, with the CPU seconds of the process so far and its resident bytes.
"""

import asyncio
import time
from typing import Any

import orjson
import psutil
from starlette.types import ASGIApp, Receive, Scope, Send

import app.main
from app.cli.main import main as command_line

PATH = "/benchmark"
_EVERY = 0.002


class Observed:
    """An ASGI application beside a heartbeat."""

    def __init__(self, application: ASGIApp) -> None:
        self._application = application
        self._beating: asyncio.Task[None] | None = None
        self._longest = 0.0

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """See ASGI."""
        if self._beating is None:
            self._beating = asyncio.create_task(self._beat())
        if scope["type"] == "http" and scope["path"] == PATH:
            await self._answer(send)
        else:
            await self._application(scope, receive, send)

    async def _beat(self) -> None:
        while True:
            wall, cpu = time.perf_counter(), time.process_time()
            await asyncio.sleep(_EVERY)
            late = time.perf_counter() - wall - _EVERY
            self._longest = max(self._longest, min(late, time.process_time() - cpu))

    async def _answer(self, send: Send) -> None:
        longest, self._longest = self._longest, 0.0
        facts = {
            "stall": longest,
            "cpu": time.process_time(),
            "resident": psutil.Process().memory_info().rss,
        }
        body = orjson.dumps(facts)
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def observe() -> None:
    """From now on the gateway that `serve` starts has a pulse."""
    plain = app.main.create_app

    def observed(*arguments: Any) -> Observed:
        return Observed(plain(*arguments))

    app.main.create_app = observed  # type: ignore[assignment]


if __name__ == "__main__":
    observe()
    command_line()
