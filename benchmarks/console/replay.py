"""Browsers without a window: `python -m benchmarks.console.replay` repeats a session for several people.

Standard input is {"port", "sessions": [{"headers"}], "steps", "seconds"}; each browser begins at another
step, loads the static files once, and waits between its requests as the steps say. Printed is {"requests",
"failed", "p50", "p99", "paths"}: milliseconds, and by path how many responses had no success.
"""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from typing import Any

import aiohttp
import orjson
import uvloop

from benchmarks.console.steps import STATIC


class Replay:
    """What all browsers share."""

    def __init__(self, plan: dict[str, Any]) -> None:
        self.base = f"http://127.0.0.1:{plan['port']}"
        self.steps = plan["steps"]
        self.deadline = time.monotonic() + plan["seconds"]
        self.taken: list[float] = []
        self.failed: Counter[str] = Counter()

    async def browse(self, number: int, headers: dict[str, str]) -> None:
        """Be one browser until the time is over."""
        connector = aiohttp.TCPConnector(limit=6)
        async with aiohttp.ClientSession(connector=connector, headers=headers) as http:
            at = number % len(self.steps)
            await asyncio.sleep(number * 0.13 % 5)
            loaded: set[str] = set()
            while time.monotonic() < self.deadline:
                step = self.steps[at % len(self.steps)]
                at += 1
                await asyncio.sleep(step["think"])
                html = await self._request(http, step)
                for path in set(STATIC.findall(html)) - loaded:
                    loaded.add(path)
                    await self._request(http, {"path": path, "fragment": "", "follow": 0})

    async def _request(self, http: aiohttp.ClientSession, step: dict[str, Any]) -> str:
        headers = {"X-Fragment": step["fragment"]} if step["fragment"] else {}
        began = time.perf_counter()
        async with http.get(self.base + step["path"], headers=headers) as response:
            if response.status >= 300:
                self.failed[step["path"]] += 1
            if step["follow"]:
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(step["follow"]):
                        await response.read()
                return ""
            text = await response.text()
        self.taken.append(time.perf_counter() - began)
        return text


async def main() -> None:
    """Replay, and print the figures."""
    plan = orjson.loads(sys.stdin.readline())
    replay = Replay(plan)
    browsers = [replay.browse(number, one["headers"]) for number, one in enumerate(plan["sessions"])]
    await asyncio.gather(*browsers)
    taken = sorted(replay.taken) or [0.0]
    figures = {
        "requests": len(replay.taken),
        "failed": sum(replay.failed.values()),
        "paths": dict(replay.failed),
        "p50": taken[len(taken) // 2] * 1e3,
        "p99": taken[min(len(taken) - 1, len(taken) * 99 // 100)] * 1e3,
    }
    print(orjson.dumps(figures).decode(), flush=True)


if __name__ == "__main__":
    uvloop.run(main())
