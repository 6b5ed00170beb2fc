"""Rate limits of keys and providers: one command to Redis per limited call, and a share without Redis.

Redis's own clock counts, so that the clocks of replicas do not matter. While Redis is away each worker goes
on alone from where the limits stood, at an equal share of their rate. How many there are is known from the
last minute in which Redis was there: every ten seconds a worker's call adds its name to a set, in that one
command. No setting has to follow the number of replicas, and autoscaling is seen.
"""

import os
import time
from collections import OrderedDict
from hashlib import sha1
from typing import Any, Final, cast
from uuid import UUID

from redis.asyncio import Redis
from redis.exceptions import NoScriptError

from app.errors import RateLimited
from app.redis_client import RedisClient
from app.security.gcra import GCRA_SCRIPT, MICROSECONDS, Bucket, RateLimitState, admit
from app.security.rate_limit import RateLimit
from app.security.vault import Vault

__all__ = ["RateLimitState", "RateLimiter"]

_SHA: Final = sha1(GCRA_SCRIPT.encode(), usedforsecurity=False).hexdigest()
_HEARTBEAT_SECONDS: Final = 10.0
_SEEN_SECONDS: Final = 60


class RateLimiter:
    """Admits calls or rejects them; one per worker.

    `workers` is how many there are at least (the processes of this replica); `capacity` bounds the limits
    that are remembered in this process.
    """

    def __init__(
        self,
        cache: RedisClient,
        vault: Vault,
        *,
        workers: int = 1,
        prefix: str = "utcp-gateway:rate:",
        capacity: int = 20_000,
    ) -> None:
        self._cache = cache
        self._vault = vault
        self._min_workers = workers
        self._prefix = prefix
        self._capacity = capacity
        self._buckets: OrderedDict[tuple[str, RateLimit], Bucket] = OrderedDict()
        self._worker_id = os.urandom(8).hex()
        self._heartbeat_at = 0.0
        self._seen_at = 0.0
        self.workers = workers
        """Workers of all replicas that had limited calls lately."""
        self.admitted = 0
        self.rejected = 0
        self.without_redis = 0
        """Calls that were judged without Redis. These three count since the start."""

    async def admit(
        self,
        tenant: UUID,
        *,
        key_id: str,
        key: RateLimit | None,
        provider_id: UUID,
        provider: RateLimit | None,
    ) -> RateLimitState:
        """Count a call against the limit of its key, of its provider, or of both and then of both or none.

        Return what the limits leave. Raises RateLimited with Retry-After. Never fails because of Redis.
        """
        found = []
        if key is not None:
            found.append(self._bucket(tenant, "key", key_id, key))
        if provider is not None:
            found.append(self._bucket(tenant, "provider", provider_id.hex, provider))
        buckets = tuple(found)
        redis = self._cache.available_client()
        standing = None if redis is None else await self._count_in_redis(redis, tenant, buckets)
        if standing is None:
            self.without_redis += 1
            standing = admit(buckets, time.monotonic() * MICROSECONDS, process_count=self.workers)
        if not standing.admitted:
            self.rejected += 1
            raise _rate_limited(standing)
        self.admitted += 1
        return standing

    async def _count_in_redis(
        self, redis: "Redis", tenant: UUID, buckets: tuple[Bucket, ...]
    ) -> RateLimitState | None:
        """What the limits leave by Redis; None where it does not respond."""
        now = time.monotonic()
        keys = [bucket.name for bucket in buckets]
        arguments: list[Any] = [len(buckets)]
        for bucket in buckets:
            arguments += (repr(bucket.interval), repr(bucket.tolerance))
        if now >= self._heartbeat_at:
            self._heartbeat_at = now + _HEARTBEAT_SECONDS
            keys.append(f"{self._prefix}{_slot(tenant)}workers")
            arguments += (self._worker_id, _SEEN_SECONDS)
        with self._cache:
            fits, workers, *micros = await _run(redis, keys, arguments)
            aheads = [float(ahead) for ahead in micros]
            if workers:
                self._set_workers(workers, now)
            at = time.monotonic() * MICROSECONDS
            for bucket, ahead in zip(buckets, aheads, strict=True):
                bucket.tat = at + ahead
            return RateLimitState(buckets, aheads, admitted=bool(fits))
        return None

    def _set_workers(self, workers: int, now: float) -> None:
        """Fewer are believed only after a while: Redis may have been emptied."""
        if workers >= self.workers or now - self._seen_at > _SEEN_SECONDS:
            self.workers = max(workers, self._min_workers)
            self._seen_at = now

    def _bucket(self, tenant: UUID, kind: str, owner: str, limit: RateLimit) -> Bucket:
        bucket = self._buckets.get((owner, limit))
        if bucket is None:
            # With its numbers in the name, a limit that was changed begins anew.
            numbers = f"{limit.requests}/{limit.per_seconds}:{limit.burst}"
            parts = (kind.encode(), owner.encode(), numbers.encode())
            digest = self._vault.digest("rate-limit", tenant.bytes, *parts).hex()[:32]
            bucket = Bucket(f"{self._prefix}{_slot(tenant)}{digest}", limit, kind=kind)
            self._buckets[owner, limit] = bucket
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end((owner, limit))
        return bucket


def _slot(tenant: UUID) -> str:
    """Braces put all limits of a tenant into one slot of a Redis cluster, where one script may use two."""
    return f"{{{tenant.hex}}}:"


async def _run(redis: "Redis", keys: list[str], arguments: list[Any]) -> list[int]:
    """SCRIPT by its hash; in full where Redis does not have it (any more), which then keeps it."""
    try:
        reply = await cast("Any", redis.evalsha(_SHA, len(keys), *keys, *arguments))
    except NoScriptError:
        reply = await cast("Any", redis.eval(GCRA_SCRIPT, len(keys), *keys, *arguments))
    return cast("list[int]", reply)


def _rate_limited(standing: RateLimitState) -> RateLimited:
    whose = {"key": "this API key", "provider": "the tool's provider"}
    bucket = standing.longest_wait_bucket()
    seconds = standing.retry_after()
    return RateLimited(
        f"The rate limit of {whose[bucket.kind]} is used up; try again in {seconds} s.",
        headers={**standing.headers(), "Retry-After": str(seconds)},
        extra={"limit": bucket.kind, "retry_after": seconds},
    )
