"""Callers of tools, and what became of each call: an answer, a definite failure, or nobody knows."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import orjson

Made = tuple[str, dict[str, Any]]
"""A tool and its arguments."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The end of one call. `status` 0: the connection broke; `slug` is a problem's, "" where it is none.

    `ok`: 200, and the answer is this call's own. Only other answers are kept.
    """

    id: str
    tool: str
    status: int
    slug: str
    seconds: float
    call_id: str = ""
    body: Any = None
    retry_after: str = ""
    ok: bool = False

    @property
    def typed(self) -> bool:
        """An error that says what it is."""
        return bool(self.slug) and self.status not in (0, 500)

    @property
    def word(self) -> str:
        """For counting."""
        return "ok" if self.ok else self.slug or (f"status {self.status}" if self.status else "broken")


class Caller:
    """Calls tools at one address with one key; as many connections as calls at a time."""

    def __init__(self, url: str, key: str) -> None:
        self.url, self.key = url, key
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0),
            headers={"Authorization": f"Bearer {self.key}"},
            timeout=aiohttp.ClientTimeout(total=90),
            trust_env=False,
        )
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.session.close()

    @property
    def session(self) -> aiohttp.ClientSession:
        """For everything that is no call."""
        assert self._session is not None
        return self._session

    async def request(self, method: str, path: str, **options: Any) -> tuple[int, Any, dict[str, str]]:
        """Status, JSON (or bytes) and headers of any request; status 0 when the connection broke."""
        try:
            async with self.session.request(method, f"{self.url}{path}", **options) as answer:
                raw = await answer.read()
                headers = {name.lower(): value for name, value in answer.headers.items()}
                return answer.status, _decoded(raw), headers
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, None, {}

    async def call(self, tool: str, arguments: dict[str, Any], **headers: str) -> Outcome:
        """One call, never tried again."""
        began = time.monotonic()
        status, body, got = await self.request("POST", f"/tools/{tool}/call", json=arguments, headers=headers)
        slug = ""
        if got.get("content-type", "").startswith("application/problem+json") and isinstance(body, dict):
            slug = str(body.get("type", "")).rpartition("/")[2].rpartition(":")[2]
        asked = str(arguments.get("body", arguments).get("id", ""))
        own = not asked or not isinstance(body, dict) or body.get("nonce") == f"nonce-{asked}"
        ok = status == 200 and own
        return Outcome(
            asked, tool, status, slug, time.monotonic() - began, call_id=got.get("x-call-id", ""),
            body=None if ok else body, retry_after=got.get("retry-after", ""), ok=ok,
        )  # fmt: skip


def _decoded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw


class Load:
    """Calls without a pause from `concurrency` workers, until `calls` are made or `stop` is called.

        async with Load(caller, make, concurrency=16) as load: ...

    `make(worker, number)` gives the next call. A call is never made again. A worker pauses for `pause` seconds after
    a call, and for `rest` after one that failed.
    """

    def __init__(
        self,
        caller: Caller,
        make: Callable[[int, int], Made],
        *,
        concurrency: int,
        calls: int = 0,
        pause: float = 0,
        rest: float = 0,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._caller, self._make, self._concurrency, self._pause, self._rest = (
            caller,
            make,
            concurrency,
            pause,
            rest,
        )
        self._numbers: Iterable[int] = iter(range(calls)) if calls else itertools.count()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.create_task(self._work(worker)) for worker in range(self._concurrency)]
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def stop(self) -> None:
        """Waits for the calls under way."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def finished(self) -> None:
        """Waits until all `calls` are made."""
        await asyncio.gather(*self._tasks)

    async def reached(self, number: int) -> None:
        """Waits until so many calls have ended."""
        while len(self.outcomes) < number and not all(task.done() for task in self._tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    @property
    def failed(self) -> list[Outcome]:
        """Calls that did not succeed."""
        return [one for one in self.outcomes if not one.ok]

    async def _work(self, worker: int) -> None:
        for number in self._numbers:
            if self._stopping:
                return
            outcome = await self._caller.call(*self._make(worker, number))
            self.outcomes.append(outcome)
            pause = self._pause if outcome.ok else max(self._pause, self._rest)
            if pause:
                await asyncio.sleep(pause)


def counted(outcomes: Iterable[Outcome]) -> str:
    """`980 ok, 20 unavailable`."""
    found = Counter(one.word for one in outcomes)
    return ", ".join(f"{number} {word}" for word, number in found.most_common()) or "none"


def percentile(values: Iterable[float], share: float) -> float:
    """The value that `share` of them do not exceed; 0 for none."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def milliseconds(seconds: float) -> str:
    """`12 ms`."""
    return f"{seconds * 1000:.0f} ms"
