"""Responses cached in the memory of a worker, for tools without effects of providers with `limits.cache`.

    look up --> fresh: hit
       |------> being fetched by another call: wait for that
       '------> fetch, with If-None-Match where an older one is there: miss or revalidated

Nothing is written anywhere, and nothing outlives the process. A response belongs to the exact request with
the exact credential, and where it is `private` to its client, too. One call fetches for all that wait; when
its client leaves, one of the others goes on.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal

from app.calls.freshness import Freshness, freshness_of, max_age, parse_cache_control, relevant_headers
from app.catalog.cache_rule import CacheRule
from app.catalog.plan import Plan
from app.deadlines import Deadline, TimerQueue
from app.errors import (
    DeadlineExceeded,
    GatewayError,
    Unavailable,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnreachable,
    clone_error,
)
from app.protocols.base import BODY_METADATA_HEADERS, MASKED_HEADER, Result

CacheVerdict = Literal["hit", "miss", "revalidated", "bypass", "stale"]
Fetch = Callable[[tuple[tuple[str, str], ...]], Awaitable[Result]]
"""Make the call with these headers added, and return its result."""

_MAX_ENTRY_SHARE: Final = 8
_OVERHEAD: Final = 1_024
# For so long calls do not wait for one another where the last response could not be shared.
_UNSHARED_SECONDS: Final = 10.0
_MAX_UNSHARED: Final = 10_000
_CACHEABLE_STATUSES: Final = frozenset({200, 203})


class CacheKey:
    """What a call's response is cached under, and by which rules it may be.

    `exact` is the request without its credentials, `identity` names these (`credential_identity`);
    `cache_control` holds the client's directives, `deadline` is a `loop.time()`.
    """

    __slots__ = ("cache_control", "deadline", "private", "rule", "shared")

    def __init__(
        self,
        exact: bytes,
        *,
        identity: bytes,
        client: str,
        rule: CacheRule,
        cache_control: str,
        deadline: float,
    ) -> None:
        digest = blake2b(len(identity).to_bytes(4, "big") + identity + exact, digest_size=32).digest()
        self.shared = digest
        """Of a response that may be shared by clients."""
        self.private = digest + client.encode()
        """Of one that is private to this client."""
        self.rule = rule
        self.cache_control = cache_control
        self.deadline = deadline


@dataclass(slots=True)
class _Entry:
    status: int
    headers: list[tuple[str, str]]
    media_type: str
    body: bytes = field(repr=False)
    freshness: Freshness
    at: float
    """Monotonic, when it arrived or was confirmed."""

    def age(self) -> float:
        return self.freshness.age + time.monotonic() - self.at

    def size(self) -> int:
        held = (*self.headers, *self.freshness.headers.items())
        return len(self.body) + sum(len(name) + len(value) for name, value in held) + _OVERHEAD

    def result(self, verdict: CacheVerdict) -> Result:
        headers = [*self.headers, ("Age", str(int(self.age()))), ("X-Cache", verdict)]
        return Result(status=self.status, headers=headers, media_type=self.media_type, body=self.body)


class ResponseCache:
    """The cached responses of a worker, at most `capacity` bytes; the least recently used goes first."""

    def __init__(self, clock: TimerQueue, *, capacity: int = 32 << 20) -> None:
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._flights: dict[bytes, asyncio.Future[GatewayError | None]] = {}
        self._unshared: OrderedDict[bytes, float] = OrderedDict()
        self.bytes = 0
        self.verdicts: dict[CacheVerdict, int] = dict.fromkeys(
            ("hit", "miss", "revalidated", "bypass", "stale"), 0
        )
        """How many calls got which verdict, since the start."""

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: CacheKey, fetch: Fetch) -> Result:
        """Return the response, cached or from `fetch`; raise what `fetch` raises, and UpstreamTimeout."""
        directives = parse_cache_control(key.cache_control) if key.cache_control else {}
        if "no-store" in directives or not self._capacity:
            return self._count("bypass", await self._bypass(fetch))
        limit = max_age(directives)
        if limit <= 0:
            return await self._fetch(key, fetch, "bypass")
        while True:
            entry = self._find(key)
            if entry is not None and entry.age() < min(entry.freshness.lifetime, key.rule.seconds, limit):
                return self._count("hit", entry.result("hit"))
            flight = self._flights.get(key.shared)
            if flight is None:
                return await self._lead(key, fetch)
            if self._unshared.get(key.shared, 0.0) > time.monotonic():
                return await self._fetch(key, fetch, "miss")
            error = await self._wait_for_leader(flight, key.deadline)
            if error is not None:
                return self._stale_or_raise(key, clone_error(error))

    async def _lead(self, key: CacheKey, fetch: Fetch) -> Result:
        """Fetch for all that wait for the same response meanwhile."""
        flight = self._flights[key.shared] = self._clock.loop.create_future()
        outcome: GatewayError | None = None
        try:
            return await self._fetch(key, fetch, "miss")
        except GatewayError as error:
            # Who had less time than the others says nothing about how long the upstream takes.
            if not (
                isinstance(error, (UpstreamTimeout, DeadlineExceeded))
                and self._clock.loop.time() >= key.deadline
            ):
                outcome = clone_error(error)
            raise
        finally:
            del self._flights[key.shared]
            flight.set_result(outcome)

    async def _wait_for_leader(
        self, flight: "asyncio.Future[GatewayError | None]", deadline: float
    ) -> GatewayError | None:
        try:
            with Deadline(self._clock, deadline):
                return await asyncio.shield(flight)
        except TimeoutError:
            raise UpstreamTimeout("The upstream did not respond in time.", request_sent=False) from None

    async def _fetch(self, key: CacheKey, fetch: Fetch, verdict: CacheVerdict) -> Result:
        """Send the call, conditionally where an older response is cached; cache the response if it may be."""
        entry = self._find(key)
        conditions = entry.freshness.conditions() if entry is not None else ()
        try:
            result = await fetch(conditions)
        except GatewayError as error:
            if verdict == "bypass":
                raise
            return self._stale_or_raise(key, error)
        if result.status == 304 and entry is not None and conditions:
            await result.aclose()
            if entry.freshness.confirms(result.upstream_headers) and self._renew(key, entry, result):
                return self._count("revalidated", entry.result("revalidated"))
            self._drop(key)
            result = await fetch(())
        await self._store(key, result)
        return self._count(verdict, _with_verdict(result, verdict))

    async def _bypass(self, fetch: Fetch) -> Result:
        return _with_verdict(await fetch(()), "bypass")

    def _stale_or_raise(self, key: CacheKey, error: GatewayError) -> Result:
        """An older response in the place of an error that says that the upstream fails; raises the error
        where there is none (RFC 5861 section 4)."""
        entry = self._find(key) if _is_failing(error) else None
        if entry is None or entry.age() >= entry.freshness.lifetime + entry.freshness.stale_if_error:
            raise error
        return self._count("stale", entry.result("stale"))

    def _find(self, key: CacheKey) -> _Entry | None:
        for name in (key.shared, key.private):
            entry = self._entries.get(name)
            if entry is not None:
                self._entries.move_to_end(name)
                return entry
        return None

    async def _store(self, key: CacheKey, result: Result) -> None:
        """Cache the response if it may be; otherwise the next calls do not wait for one another."""
        freshness = None
        if result.status in _CACHEABLE_STATUSES:
            freshness = freshness_of(relevant_headers(result.upstream_headers), key.rule)
        max_bytes = self._capacity // _MAX_ENTRY_SHARE
        self._drop(key)
        if freshness is None or not await result.read_up_to(max_bytes - _OVERHEAD):
            self._set_unshared(key.shared)
            return
        entry = _Entry(
            result.status,
            list(result.headers),
            result.media_type,
            result.body or b"",
            freshness,
            time.monotonic(),
        )
        if freshness.private:
            self._set_unshared(key.shared)
        self._entries[key.private if freshness.private else key.shared] = entry
        self.bytes += entry.size()
        while self.bytes > self._capacity:
            self._remove(next(iter(self._entries)))

    def _renew(self, key: CacheKey, entry: _Entry, result: Result) -> bool:
        """Apply the headers of a 304 (RFC 9111 section 4.3.4); False where it may not be cached any more."""
        old = {name: value for name, value in entry.freshness.headers.items() if name not in ("age", "date")}
        freshness = freshness_of(old | relevant_headers(result.upstream_headers), key.rule)
        if freshness is None or freshness.private != entry.freshness.private:
            return False
        # A 304 is about the upstream's own bytes, which are not those of a masked body.
        masked = any(name == MASKED_HEADER and "body" in value for name, value in entry.headers)
        dropped = BODY_METADATA_HEADERS if masked else frozenset()
        added = [
            (name, value)
            for name, value in result.headers
            if name != MASKED_HEADER and name.lower() not in dropped
        ]
        newer = {name.lower() for name, _ in added}
        before = entry.size()
        entry.headers = [*(pair for pair in entry.headers if pair[0].lower() not in newer), *added]
        entry.freshness = freshness
        entry.at = time.monotonic()
        if any(entry is self._entries.get(name) for name in (key.shared, key.private)):
            self.bytes += entry.size() - before
        return True

    def _set_unshared(self, name: bytes) -> None:
        self._unshared[name] = time.monotonic() + _UNSHARED_SECONDS
        while len(self._unshared) > _MAX_UNSHARED:
            self._unshared.popitem(last=False)

    def _drop(self, key: CacheKey) -> None:
        for name in (key.shared, key.private):
            self._remove(name)

    def _remove(self, name: bytes) -> None:
        entry = self._entries.pop(name, None)
        if entry is not None:
            self.bytes -= entry.size()

    def _count(self, verdict: CacheVerdict, result: Result) -> Result:
        self.verdicts[verdict] += 1
        return result


def credential_identity(plan: Plan) -> bytes:
    """Return whose responses those of a plan are: the tool, its egress, the slots it needs, each credential
    and variable in its version, and whether they are masked in it.
    """
    parts = [plan.tool_id.bytes, repr(plan.needs).encode(), b"\x01" if plan.mask_responses else b"\x00"]
    if plan.egress is not None:
        parts.append(plan.egress.key)
    for slot in sorted(plan.credentials):
        credential = plan.credentials[slot]
        parts += (credential.id.bytes, credential.version.to_bytes(8, "big"))
        for variable in credential.variables:
            parts += (variable.id.bytes, variable.version.to_bytes(8, "big"))
    return b"".join(len(part).to_bytes(4, "big") + part for part in parts)


def _is_failing(error: GatewayError) -> bool:
    """Whether an error says that the upstream fails now, and nothing about this call or its credential."""
    if isinstance(error, UpstreamRejected):
        return error.response is not None and error.response.status >= 500
    return isinstance(error, (Unavailable, UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed))


def _with_verdict(result: Result, verdict: CacheVerdict) -> Result:
    result.headers.append(("X-Cache", verdict))
    return result
