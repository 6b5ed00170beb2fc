"""Rate limits of keys and providers: one Redis command per limited call; without Redis, a share per worker.

Times are those of Redis's own clock, so that the clocks of replicas need not agree. While Redis is
unavailable, each worker enforces an equal share of the rate, starting from the last known state. The number
of workers is known from the last minute in which Redis was available: every ten seconds, the command of a
worker's call also adds its id to a set. So no setting depends on the number of replicas, and autoscaling is
taken into account.
"""

import os
import time
from collections import OrderedDict
from hashlib import sha1
from typing import Any, Final, cast
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from app.core.errors import RateLimited
from app.core.rate_limit import RateLimit
from app.security.gcra import (
    GCRA_SCRIPT,
    MICROSECONDS,
    READ_SCRIPT,
    Bucket,
    RateLimitState,
    admit,
    read,
)
from app.security.vault import Vault
from app.storage.redis import RedisClient

__all__ = ["RateLimitState", "RateLimiter"]

_SHA: Final = sha1(GCRA_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_HEARTBEAT_SECONDS: Final = 10.0
_WORKER_TTL_SECONDS: Final = 60


class RateLimiter:
    """Admits or rejects calls; one per worker.

    `workers` is the minimum number of workers (the processes of this replica); `prefix` begins all keys in
    Redis; `capacity` is the maximum number of limits whose state is held in this process. A worker that
    limits calls says so in Redis every `heartbeat_seconds`.
    """

    def __init__(
        self,
        redis_client: RedisClient,
        vault: Vault,
        *,
        workers: int = 1,
        prefix: str = "utcp-gateway:rate:",
        capacity: int = 20_000,
        heartbeat_seconds: float = _HEARTBEAT_SECONDS,
    ) -> None:
        self._redis_client = redis_client
        self._vault = vault
        self._min_workers = workers
        self._prefix = prefix
        self._capacity = capacity
        self._buckets: OrderedDict[tuple[str, RateLimit], Bucket] = OrderedDict()
        self._worker_id = os.urandom(8).hex()
        self._heartbeat_seconds = heartbeat_seconds
        self._heartbeat_at = 0.0
        self._workers_set_at = 0.0
        self.workers = workers
        """The number of workers, of all replicas, that had limited calls within the last minute."""
        self.admitted = 0
        """Calls that were admitted, since the start."""
        self.rejected = 0
        """Calls that were rejected, since the start."""
        self.without_redis = 0
        """Calls that were admitted or rejected without Redis, since the start."""

    async def admit(
        self,
        tenant: UUID,
        *,
        key_id: str,
        key: RateLimit | None,
        provider_id: UUID,
        provider: RateLimit | None,
    ) -> RateLimitState:
        """Count a call against the limits of its key and its provider: against both, or against neither.

        Return the state of these limits; raise RateLimited with Retry-After. Errors of Redis are not raised.
        """
        buckets = self._get_buckets(tenant, key_id, key, provider_id, provider)
        client = self._redis_client.available_client()
        state = None if client is None else await self._count_in_redis(client, tenant, buckets)
        if state is None:
            self.without_redis += 1
            state = admit(buckets, time.monotonic() * MICROSECONDS, process_count=self.workers)
        if not state.admitted:
            self.rejected += 1
            raise _create_rate_limit_error(state)
        self.admitted += 1
        return state

    async def read(
        self,
        tenant: UUID,
        *,
        key_id: str,
        key: RateLimit | None,
        provider_id: UUID | None = None,
        provider: RateLimit | None = None,
    ) -> RateLimitState:
        """Return the state of the limits without counting a call: `admitted` says whether `admit` would admit
        one now. Errors of Redis are not raised.
        """
        buckets = self._get_buckets(tenant, key_id, key, provider_id, provider)
        client = self._redis_client.available_client() if buckets else None
        if client is not None:
            with self._redis_client:
                names, tolerances = zip(*((one.name, repr(one.tolerance)) for one in buckets), strict=True)
                reply = await cast("Any", client.eval(READ_SCRIPT, len(names), *names, *tolerances))
                return RateLimitState.read(buckets, [float(offset) for offset in reply])
        return read(buckets, time.monotonic() * MICROSECONDS, process_count=self.workers)

    def _get_buckets(
        self,
        tenant: UUID,
        key_id: str,
        key: RateLimit | None,
        provider_id: UUID | None,
        provider: RateLimit | None,
    ) -> tuple[Bucket, ...]:
        buckets = []
        if key is not None:
            buckets.append(self._get_bucket(tenant, "key", key_id, key))
        if provider is not None and provider_id is not None:
            buckets.append(self._get_bucket(tenant, "provider", provider_id.hex, provider))
        return tuple(buckets)

    async def _count_in_redis(
        self, client: "Redis", tenant: UUID, buckets: tuple[Bucket, ...]
    ) -> RateLimitState | None:
        """Return the state of the limits in Redis after this call; None where Redis does not respond."""
        now = time.monotonic()
        keys = [bucket.name for bucket in buckets]
        arguments: list[Any] = [len(buckets)]
        for bucket in buckets:
            arguments += (repr(bucket.interval), repr(bucket.tolerance))
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + self._heartbeat_seconds
            keys.append(f"{self._prefix}{_format_slot(tenant)}workers")
            arguments += (self._worker_id, _WORKER_TTL_SECONDS)
        with self._redis_client:
            admitted, workers, *micros = await _run(client, keys, arguments)
            offsets = [float(offset) for offset in micros]
            if workers:
                self._set_workers(workers, now)
            responded_at = time.monotonic() * MICROSECONDS
            for bucket, offset in zip(buckets, offsets, strict=True):
                bucket.tat = responded_at + offset
            return RateLimitState(buckets, offsets, admitted=bool(admitted))
        return None

    def _set_workers(self, workers: int, now: float) -> None:
        """Set the number of workers; a lower one only after a minute, since Redis may have lost its data."""
        if workers >= self.workers or now - self._workers_set_at > _WORKER_TTL_SECONDS:
            self.workers = max(workers, self._min_workers)
            self._workers_set_at = now

    def _get_bucket(self, tenant: UUID, kind: str, owner: str, limit: RateLimit) -> Bucket:
        bucket = self._buckets.get((owner, limit))
        if bucket is None:
            # The numbers are part of the name, so that a changed limit starts with a new state.
            numbers = f"{limit.requests}/{limit.per_seconds}:{limit.burst}"
            parts = (kind.encode(), owner.encode(), numbers.encode())
            digest = self._vault.digest("rate-limit", tenant.bytes, *parts).hex()[:32]
            bucket = Bucket(f"{self._prefix}{_format_slot(tenant)}{digest}", limit, kind=kind)
            self._buckets[owner, limit] = bucket
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end((owner, limit))
        return bucket


def _format_slot(tenant: UUID) -> str:
    """Return a hash tag, which puts all keys of a tenant into one slot of a Redis cluster: a script may use
    several keys only within one slot.
    """
    return f"{{{tenant.hex}}}:"


async def _run(client: "Redis", keys: list[str], arguments: list[Any]) -> list[int]:
    """Run GCRA_SCRIPT by its hash, or by its text where Redis has not cached it; return its reply."""
    try:
        reply = await cast("Any", client.evalsha(_SHA, len(keys), *keys, *arguments))
    except NoScriptError:
        reply = await cast("Any", client.eval(GCRA_SCRIPT, len(keys), *keys, *arguments))
    return cast("list[int]", reply)


def _create_rate_limit_error(state: RateLimitState) -> RateLimited:
    owners = {"key": "this API key", "provider": "the tool's provider"}
    bucket = state.longest_wait_bucket()
    seconds = state.retry_after()
    return RateLimited(
        f"The rate limit of {owners[bucket.kind]} is used up; try again in {seconds} s.",
        headers={**state.headers(), "Retry-After": str(seconds)},
        extra={"limit": bucket.kind, "retry_after": seconds},
    )
