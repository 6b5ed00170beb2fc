"""Clients that call tools, and the outcome of each call: a response, a definite failure, or unknown."""

import asyncio
import itertools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Self

import aiohttp
import orjson

ToolCall = tuple[str, dict[str, Any]]
"""The name of a tool and its arguments."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The outcome of one call. `status` is 0 if the connection broke; `slug` is that of a problem, otherwise "".

    `ok`: the status is 200, and the response belongs to this call. `body` is stored only if not `ok`.
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
        """Whether it is a problem (RFC 9457) other than 500."""
        return bool(self.slug) and self.status not in (0, 500)

    @property
    def label(self) -> str:
        """A short text for counting."""
        return "ok" if self.ok else self.slug or (f"status {self.status}" if self.status else "broken")


class Client:
    """Calls tools at one base URL with one key, with as many connections as calls at a time."""

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
        """The HTTP session, for requests other than calls."""
        assert self._session is not None
        return self._session

    async def request(self, method: str, path: str, **options: Any) -> tuple[int, Any, dict[str, str]]:
        """Make a request and return status, JSON (or bytes) and headers; status 0 if the connection broke."""
        try:
            async with self.session.request(method, f"{self.url}{path}", **options) as response:
                raw = await response.read()
                headers = {name.lower(): value for name, value in response.headers.items()}
                return response.status, _decoded(raw), headers
        except (aiohttp.ClientError, TimeoutError, OSError):
            return 0, None, {}

    async def call(self, tool: str, arguments: dict[str, Any], **headers: str) -> Outcome:
        """Make one call, without retries."""
        began = time.monotonic()
        status, body, got = await self.request("POST", f"/tools/{tool}/call", json=arguments, headers=headers)
        slug = ""
        if got.get("content-type", "").startswith("application/problem+json") and isinstance(body, dict):
            slug = str(body.get("type", "")).rpartition("/")[2].rpartition(":")[2]
        call_id = str(arguments.get("body", arguments).get("id", ""))
        own = not call_id or not isinstance(body, dict) or body.get("nonce") == f"nonce-{call_id}"
        ok = status == 200 and own
        return Outcome(
            call_id, tool, status, slug, time.monotonic() - began, call_id=got.get("x-call-id", ""),
            body=None if ok else body, retry_after=got.get("retry-after", ""), ok=ok,
        )  # fmt: skip


def _decoded(raw: bytes) -> Any:
    try:
        return orjson.loads(raw)
    except orjson.JSONDecodeError:
        return raw


class Load:
    """Makes calls without a pause from `concurrency` workers, until `calls` are made or `stop` is called.

        async with Load(client, make, concurrency=16) as load: ...

    `make(worker, number)` returns the next call. Calls are not retried. A worker pauses for `pause` seconds after a
    call, and for `failure_pause` after one that failed.
    """

    def __init__(
        self,
        client: Client,
        make: Callable[[int, int], ToolCall],
        *,
        concurrency: int,
        calls: int = 0,
        pause: float = 0,
        failure_pause: float = 0,
    ) -> None:
        self.outcomes: list[Outcome] = []
        self._caller, self._make, self._concurrency, self._pause, self._failure_pause = (
            client,
            make,
            concurrency,
            pause,
            failure_pause,
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
        """Stop, and wait for the calls in progress."""
        self._stopping = True
        await asyncio.gather(*self._tasks)

    async def finished(self) -> None:
        """Wait until all `calls` are made."""
        await asyncio.gather(*self._tasks)

    async def reached(self, number: int) -> None:
        """Wait until `number` calls have ended."""
        while len(self.outcomes) < number and not all(task.done() for task in self._tasks):  # noqa: ASYNC110
            await asyncio.sleep(0.02)

    @property
    def failed(self) -> list[Outcome]:
        """The calls that did not succeed."""
        return [one for one in self.outcomes if not one.ok]

    async def _work(self, worker: int) -> None:
        for number in self._numbers:
            if self._stopping:
                return
            outcome = await self._caller.call(*self._make(worker, number))
            self.outcomes.append(outcome)
            pause = self._pause if outcome.ok else max(self._pause, self._failure_pause)
            if pause:
                await asyncio.sleep(pause)


def counts(outcomes: Iterable[Outcome]) -> str:
    """Return the number of outcomes by label: `980 ok, 20 unavailable`."""
    found = Counter(one.label for one in outcomes)
    return ", ".join(f"{number} {word}" for word, number in found.most_common()) or "none"


def percentile(values: Iterable[float], share: float) -> float:
    """Return the value that a `share` of them (0 to 1) do not exceed; 0 without values."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else 0.0


def milliseconds(seconds: float) -> str:
    """Return a duration in seconds as text: `12 ms`."""
    return f"{seconds * 1000:.0f} ms"
