"""Responses cached in the memory of a worker, for safe tools of providers that set `limits.cache`.

    look up --> a fresh response is cached: hit
       |------> another call is fetching the same response: wait for it (request coalescing)
       '------> fetch, with If-None-Match where a stale response is cached: miss or revalidated

The cache is in memory only and ends with the process. A response is reused only for an equal request with the
same credentials and, where it is marked `private`, the same client. Where the client of the call that fetches
disconnects, one of the waiting calls fetches instead.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Final, Literal

from app.calls.response.freshness import (
    Freshness,
    assess_freshness,
    parse_cache_control,
    read_max_age,
    select_relevant_headers,
)
from app.catalog.cache_rule import CacheRule
from app.catalog.plan import Plan
from app.core.deadlines import Deadline, TimerQueue
from app.core.errors import (
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

CacheStatus = Literal["hit", "miss", "revalidated", "bypass", "stale"]
Fetch = Callable[[tuple[tuple[str, str], ...]], Awaitable[Result]]
"""Sends the call with these headers added, and returns its result."""

_MAX_ENTRY_SHARE: Final = 8
_OVERHEAD: Final = 1_024
# How long calls do not wait for one another after a response that could not be shared.
_UNSHARED_SECONDS: Final = 10.0
_MAX_UNSHARED: Final = 10_000
_CACHEABLE_STATUSES: Final = frozenset({200, 203})


class CacheKey:
    """The key of a call's response in the cache, and the rules for storing and reusing it.

    `request_identity` is the adapter's: the request without its credentials. `credentials` identifies these
    (`identify_credentials`), `client` is the id of the API key. `rule` is that of the provider,
    `cache_control` has the client's directives; `deadline` is a `loop.time()`.
    """

    __slots__ = ("cache_control", "deadline", "private", "rule", "shared")

    def __init__(
        self,
        request_identity: bytes,
        *,
        credentials: bytes,
        client: str,
        rule: CacheRule,
        cache_control: str,
        deadline: float,
    ) -> None:
        digest = blake2b(
            len(credentials).to_bytes(4, "big") + credentials + request_identity, digest_size=32
        ).digest()
        self.shared = digest
        """The key of a response that may be shared by clients."""
        self.private = digest + client.encode()
        """The key of a response that is private to this client."""
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
    """When it arrived or was last revalidated (`time.monotonic()`)."""

    def measure_age(self) -> float:
        return self.freshness.age + time.monotonic() - self.at

    def measure_size(self) -> int:
        held = (*self.headers, *self.freshness.headers.items())
        return len(self.body) + sum(len(name) + len(value) for name, value in held) + _OVERHEAD

    def result(self, cache_status: CacheStatus) -> Result:
        headers = [*self.headers, ("Age", str(int(self.measure_age()))), ("X-Cache", cache_status)]
        return Result(status=self.status, headers=headers, media_type=self.media_type, body=self.body)


class ResponseCache:
    """The cached responses of a worker, at most `capacity` bytes; the least recently used is evicted first.

    `bytes` is the memory in use; 0 as `capacity` disables the cache.
    """

    def __init__(self, clock: TimerQueue, *, capacity: int = 32 << 20) -> None:
        self._clock = clock
        self._capacity = capacity
        self._entries: OrderedDict[bytes, _Entry] = OrderedDict()
        self._flights: dict[bytes, asyncio.Future[GatewayError | None]] = {}
        self._unshared: OrderedDict[bytes, float] = OrderedDict()
        self.bytes = 0
        self.lookups: dict[CacheStatus, int] = dict.fromkeys(
            ("hit", "miss", "revalidated", "bypass", "stale"), 0
        )
        """The number of calls by cache status (`X-Cache`), since the start."""

    def __len__(self) -> int:
        return len(self._entries)

    async def get(self, key: CacheKey, fetch: Fetch) -> Result:
        """Return the response, cached or from `fetch`, with its cache status in the header X-Cache.

        Raise what `fetch` raises, and UpstreamTimeout where another call is fetching the same response and
        does not have it by `key.deadline`.
        """
        directives = parse_cache_control(key.cache_control) if key.cache_control else {}
        if "no-store" in directives or not self._capacity:
            return self._count("bypass", await self._fetch_uncached(fetch))
        limit = read_max_age(directives)
        if limit <= 0:
            return await self._fetch(key, fetch, "bypass")
        while True:
            entry = self._find(key)
            if entry is not None and entry.measure_age() < min(
                entry.freshness.lifetime, key.rule.seconds, limit
            ):
                return self._count("hit", entry.result("hit"))
            flight = self._flights.get(key.shared)
            if flight is None:
                return await self._fetch_for_all(key, fetch)
            if self._unshared.get(key.shared, 0.0) > time.monotonic():
                return await self._fetch(key, fetch, "miss")
            error = await self._wait_for_leader(flight, key.deadline)
            if error is not None:
                return self._get_stale_or_raise(key, clone_error(error))

    async def _fetch_for_all(self, key: CacheKey, fetch: Fetch) -> Result:
        """Fetch the response for all calls that wait for the same one."""
        flight = self._flights[key.shared] = self._clock.loop.create_future()
        outcome: GatewayError | None = None
        try:
            return await self._fetch(key, fetch, "miss")
        except GatewayError as error:
            # A timeout at this call's own, shorter deadline does not concern the waiting calls.
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

    async def _fetch(self, key: CacheKey, fetch: Fetch, cache_status: CacheStatus) -> Result:
        """Send the call, conditionally where a stale response is cached; cache the response if allowed."""
        entry = self._find(key)
        conditions = entry.freshness.conditions() if entry is not None else ()
        try:
            result = await fetch(conditions)
        except GatewayError as error:
            if cache_status == "bypass":
                raise
            return self._get_stale_or_raise(key, error)
        if result.status == 304 and entry is not None and conditions:
            await result.aclose()
            if entry.freshness.confirms(result.upstream_headers) and self._renew(key, entry, result):
                return self._count("revalidated", entry.result("revalidated"))
            self._drop(key)
            result = await fetch(())
        await self._store(key, result)
        return self._count(cache_status, _with_cache_status(result, cache_status))

    async def _fetch_uncached(self, fetch: Fetch) -> Result:
        return _with_cache_status(await fetch(()), "bypass")

    def _get_stale_or_raise(self, key: CacheKey, error: GatewayError) -> Result:
        """Return a stale response where the error means that the upstream fails; else raise the error
        (stale-if-error, RFC 5861 section 4).
        """
        entry = self._find(key) if _is_failing(error) else None
        if entry is None or entry.measure_age() >= entry.freshness.lifetime + entry.freshness.stale_if_error:
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
        """Cache the response if allowed; otherwise, let the next calls not wait for one another."""
        freshness = None
        if result.status in _CACHEABLE_STATUSES:
            freshness = assess_freshness(select_relevant_headers(result.upstream_headers), key.rule)
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
        self.bytes += entry.measure_size()
        while self.bytes > self._capacity:
            self._remove(next(iter(self._entries)))

    def _renew(self, key: CacheKey, entry: _Entry, result: Result) -> bool:
        """Apply the headers of a 304 (RFC 9111 section 4.3.4); return False if it may no longer be cached."""
        old = {name: value for name, value in entry.freshness.headers.items() if name not in ("age", "date")}
        freshness = assess_freshness(old | select_relevant_headers(result.upstream_headers), key.rule)
        if freshness is None or freshness.private != entry.freshness.private:
            return False
        # The headers of a 304 describe the upstream's own bytes, not those of a masked body.
        masked = any(name == MASKED_HEADER and "body" in value for name, value in entry.headers)
        dropped = BODY_METADATA_HEADERS if masked else frozenset()
        added = [
            (name, value)
            for name, value in result.headers
            if name != MASKED_HEADER and name.lower() not in dropped
        ]
        newer = {name.lower() for name, _ in added}
        before = entry.measure_size()
        entry.headers = [*(pair for pair in entry.headers if pair[0].lower() not in newer), *added]
        entry.freshness = freshness
        entry.at = time.monotonic()
        if any(entry is self._entries.get(name) for name in (key.shared, key.private)):
            self.bytes += entry.measure_size() - before
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
            self.bytes -= entry.measure_size()

    def _count(self, cache_status: CacheStatus, result: Result) -> Result:
        self.lookups[cache_status] += 1
        return result


def identify_credentials(plan: Plan) -> bytes:
    """Return bytes that identify the tool and the credentials of its calls, as a part of a cache key.

    They consist of the tool, its egress route, the slots that it needs, each credential and variable with its
    version, and whether secrets are masked in responses.
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
    """Return whether an error is due to the state of the upstream, not to this call or its credentials."""
    if isinstance(error, UpstreamRejected):
        return error.response is not None and error.response.status >= 500
    return isinstance(error, (Unavailable, UpstreamTimeout, UpstreamUnreachable, UpstreamMalformed))


def _with_cache_status(result: Result, cache_status: CacheStatus) -> Result:
    result.headers.append(("X-Cache", cache_status))
    return result
