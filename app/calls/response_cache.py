"""Answers kept in the memory of a worker, for tools without effects whose provider opted in (`limits.cache`).

    look up --> fresh: hit
       |------> being fetched by another call: wait for that
       '------> fetch, with If-None-Match where an older one is there: miss or revalidated

Nothing is written anywhere, and nothing outlives the process. An answer belongs to the exact request with
the exact credential, and where it is `private` to its caller, too. One call fetches for all that wait; when
its caller leaves, one of the others goes on.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal

from app.calls.freshness import Life, decisive, directives, life_of, longest_age
from app.catalog.rules import CacheRule
from app.deadlines import Bound, Timers
from app.errors import (
    GatewayError,
    TimeOver,
    Unavailable,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
    again,
)
from app.protocols.base import DESCRIBING_HEADERS, MASKED_HEADER, Result

Verdict = Literal["hit", "miss", "revalidated", "bypass", "stale"]
Fetch = Callable[[tuple[tuple[str, str], ...]], Awaitable[Result]]
"""Makes the call with these headers added, and gives its answer."""

_LARGEST_SHARE: Final = 8
_OVERHEAD: Final = 1_024
# For so long calls do not wait for one another where the last answer could not be shared.
_PASS_SECONDS: Final = 10.0
_MOST_PASSES: Final = 10_000
_KEPT: Final = frozenset({200, 203})


class Wanted:
    """A call whose answer may come from memory.

    `exact` is the request without its credentials, `identity` names these; `cache_control` is the caller's
    header, `deadline` a `loop.time()`.
    """

    __slots__ = ("cache_control", "deadline", "own", "rule", "shared")

    def __init__(
        self,
        exact: bytes,
        *,
        identity: bytes,
        caller: str,
        rule: CacheRule,
        cache_control: str,
        deadline: float,
    ) -> None:
        digest = blake2b(len(identity).to_bytes(4, "big") + identity + exact, digest_size=32).digest()
        self.shared = digest
        """What an answer for everybody is kept under."""
        self.own = digest + caller.encode()
        """What a private one is kept under."""
        self.rule = rule
        self.cache_control = cache_control
        self.deadline = deadline


@dataclass(slots=True)
class _Entry:
    status: int
    headers: list[tuple[str, str]]
    media_type: str
    body: bytes = field(repr=False)
    life: Life
    at: float
    """Monotonic, when it arrived or was confirmed."""

    def age(self) -> float:
        return self.life.age + time.monotonic() - self.at

    def size(self) -> int:
        held = (*self.headers, *self.life.headers.items())
        return len(self.body) + sum(len(name) + len(value) for name, value in held) + _OVERHEAD

    def result(self, verdict: Verdict) -> Result:
        headers = [*self.headers, ("Age", str(int(self.age()))), ("X-Cache", verdict)]
        return Result(status=self.status, headers=headers, media_type=self.media_type, body=self.body)


class Answers:
    """The answers of a worker, at most `capacity` bytes; those longest unused leave first."""

    def __init__(self, clock: Timers, *, capacity: int = 32 << 20) -> None:
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._flights: dict[bytes, asyncio.Future[GatewayError | None]] = {}
        self._passing: OrderedDict[bytes, float] = OrderedDict()
        self.bytes = 0
        self.verdicts: dict[Verdict, int] = dict.fromkeys(
            ("hit", "miss", "revalidated", "bypass", "stale"), 0
        )
        """How calls were answered, since the start."""

    def __len__(self) -> int:
        return len(self._entries)

    async def answer(self, wanted: Wanted, fetch: Fetch) -> Result:
        """The answer, from memory or from `fetch`. Raises what `fetch` raises, and UpstreamTimeout."""
        said = directives(wanted.cache_control) if wanted.cache_control else {}
        if "no-store" in said or not self._capacity:
            return self._counted("bypass", await self._fetched(fetch))
        oldest = longest_age(said)
        if oldest <= 0:
            return await self._fetch(wanted, fetch, "bypass")
        while True:
            entry = self._found(wanted)
            if entry is not None and entry.age() < min(entry.life.fresh, wanted.rule.seconds, oldest):
                return self._counted("hit", entry.result("hit"))
            flight = self._flights.get(wanted.shared)
            if flight is None:
                return await self._lead(wanted, fetch)
            if self._passing.get(wanted.shared, 0.0) > time.monotonic():
                return await self._fetch(wanted, fetch, "miss")
            error = await self._wait(flight, wanted.deadline)
            if error is not None:
                return self._stale(wanted, again(error))

    async def _lead(self, wanted: Wanted, fetch: Fetch) -> Result:
        """Fetches for all that want the same meanwhile."""
        flight = self._flights[wanted.shared] = self._clock.loop.create_future()
        outcome: GatewayError | None = None
        try:
            return await self._fetch(wanted, fetch, "miss")
        except GatewayError as error:
            # Who had less time than the others says nothing about how long the upstream takes.
            if not (
                isinstance(error, (UpstreamTimeout, TimeOver)) and self._clock.loop.time() >= wanted.deadline
            ):
                outcome = again(error)
            raise
        finally:
            del self._flights[wanted.shared]
            flight.set_result(outcome)

    async def _wait(
        self, flight: "asyncio.Future[GatewayError | None]", deadline: float
    ) -> GatewayError | None:
        try:
            with Bound(self._clock, deadline):
                return await asyncio.shield(flight)
        except TimeoutError:
            raise UpstreamTimeout("The upstream did not answer in time.", sent=False) from None

    async def _fetch(self, wanted: Wanted, fetch: Fetch, verdict: Verdict) -> Result:
        """Asks the upstream, by the way whether an older answer still holds, and keeps what may be kept."""
        entry = self._found(wanted)
        conditions = entry.life.conditions() if entry is not None else ()
        try:
            result = await fetch(conditions)
        except GatewayError as error:
            if verdict == "bypass":
                raise
            return self._stale(wanted, error)
        if result.status == 304 and entry is not None and conditions:
            await result.aclose()
            if entry.life.confirms(result.received) and self._renew(wanted, entry, result):
                return self._counted("revalidated", entry.result("revalidated"))
            self._drop(wanted)
            result = await fetch(())
        await self._keep(wanted, result)
        return self._counted(verdict, _marked(result, verdict))

    async def _fetched(self, fetch: Fetch) -> Result:
        return _marked(await fetch(()), "bypass")

    def _stale(self, wanted: Wanted, error: GatewayError) -> Result:
        """An older answer in the place of an error that says that the upstream fails; raises the error where
        there is none (RFC 5861 section 4)."""
        entry = self._found(wanted) if _is_failing(error) else None
        if entry is None or entry.age() >= entry.life.fresh + entry.life.stale_if_error:
            raise error
        return self._counted("stale", entry.result("stale"))

    def _found(self, wanted: Wanted) -> _Entry | None:
        for key in (wanted.shared, wanted.own):
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
                return entry
        return None

    async def _keep(self, wanted: Wanted, result: Result) -> None:
        """Keeps the answer if it may be; otherwise those who come next do not wait for one another."""
        life = None
        if result.status in _KEPT:
            life = life_of(decisive(result.received), wanted.rule)
        largest = self._capacity // _LARGEST_SHARE
        self._drop(wanted)
        if life is None or not await result.gather(largest - _OVERHEAD):
            self._pass(wanted.shared)
            return
        entry = _Entry(
            result.status, list(result.headers), result.media_type, result.body or b"", life, time.monotonic()
        )
        if life.private:
            self._pass(wanted.shared)
        key = wanted.own if life.private else wanted.shared
        self._entries[key] = entry
        self.bytes += entry.size()
        while self.bytes > self._capacity:
            self._forget(next(iter(self._entries)))

    def _renew(self, wanted: Wanted, entry: _Entry, result: Result) -> bool:
        """Takes over what a 304 says (RFC 9111 section 4.3.4); False where the answer may not be kept now."""
        old = {name: value for name, value in entry.life.headers.items() if name not in ("age", "date")}
        life = life_of(old | decisive(result.received), wanted.rule)
        if life is None or life.private != entry.life.private:
            return False
        # A 304 is about the upstream's own bytes, which are not those of a masked body.
        masked = any(name == MASKED_HEADER and "body" in value for name, value in entry.headers)
        dropped = DESCRIBING_HEADERS if masked else frozenset()
        added = [
            (name, value)
            for name, value in result.headers
            if name != MASKED_HEADER and name.lower() not in dropped
        ]
        newer = {name.lower() for name, _ in added}
        before = entry.size()
        entry.headers = [*(pair for pair in entry.headers if pair[0].lower() not in newer), *added]
        entry.life = life
        entry.at = time.monotonic()
        if any(entry is self._entries.get(key) for key in (wanted.shared, wanted.own)):
            self.bytes += entry.size() - before
        return True

    def _pass(self, key: bytes) -> None:
        self._passing[key] = time.monotonic() + _PASS_SECONDS
        while len(self._passing) > _MOST_PASSES:
            self._passing.popitem(last=False)

    def _drop(self, wanted: Wanted) -> None:
        for key in (wanted.shared, wanted.own):
            self._forget(key)

    def _forget(self, key: bytes) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry.size()

    def _counted(self, verdict: Verdict, result: Result) -> Result:
        self.verdicts[verdict] += 1
        return result


def _is_failing(error: GatewayError) -> bool:
    """Whether an error says that the upstream fails now, and nothing about this call or its credential."""
    if isinstance(error, UpstreamRejected):
        return error.answer is not None and error.answer.status >= 500
    return isinstance(error, (Unavailable, UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed))


def _marked(result: Result, verdict: Verdict) -> Result:
    result.headers.append(("X-Cache", verdict))
    return result
