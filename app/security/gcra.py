"""The generic cell rate algorithm: one moment per limit, kept in Redis or in this process.

That moment is when the limit will be unused again (`tat`, the theoretical arrival time). A call moves it on
by the interval between two calls, and is refused where it would lie further ahead than a burst takes.
What goes in and out is the distance from now to that moment: the same on every clock, so that a process can
go on alone with what Redis said last. All times are microseconds.
"""

import math
from typing import Final

from app.security.rate_limit import RateLimit

MICROS: Final = 1_000_000.0

# KEYS: one per limit. ARGV: their number; interval and tolerance of each. Where a worker says that it is
# there: the set of workers as one more key, its name, and for how many seconds that holds. All limits are
# asked before any of them is moved, so that a call which one refuses costs the others nothing. `%.3f` because
# Lua writes numbers with 14 digits, and the microseconds since 1970 have 16.
SCRIPT: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local number = tonumber(ARGV[1])
local reply = {1, 0}
for i = 1, number do
  local interval, tolerance = tonumber(ARGV[2 * i]), tonumber(ARGV[2 * i + 1])
  local tat = tonumber(redis.call('GET', KEYS[i]) or 0) or 0
  reply[i + 2] = math.min(math.max(tat - now, 0), tolerance)
  if reply[i + 2] + interval > tolerance then reply[1] = 0 end
end
if reply[1] == 1 then
  for i = 1, number do
    local ahead = reply[i + 2] + tonumber(ARGV[2 * i])
    redis.call('SET', KEYS[i], string.format('%.3f', now + ahead), 'PX', math.ceil(ahead / 1000) + 1)
    reply[i + 2] = ahead
  end
end
if #KEYS > number then
  local seconds = tonumber(ARGV[2 * number + 3])
  redis.call('ZADD', KEYS[number + 1], clock[1], ARGV[2 * number + 2])
  redis.call('ZREMRANGEBYSCORE', KEYS[number + 1], '-inf', clock[1] - seconds)
  redis.call('EXPIRE', KEYS[number + 1], seconds)
  reply[2] = redis.call('ZCARD', KEYS[number + 1])
end
return reply
"""
"""Gives {1 where the call is admitted, workers or 0, distance of each limit}."""


class Bucket:
    """One limit and how far it is used. `name` is its key in Redis, `kind` says whose it is."""

    __slots__ = ("interval", "kind", "limit", "name", "policy", "tat", "tolerance")

    def __init__(self, name: str, limit: RateLimit, *, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.limit = limit
        self.interval = limit.per_seconds * MICROS / limit.requests
        self.tolerance = self.interval * limit.burst
        self.policy = f'"{kind}";q={limit.requests};w={limit.per_seconds}'
        self.tat = 0.0
        """In microseconds of this process's monotonic clock."""


class Standing:
    """How the limits of a call stand after it was asked for; `share` is by how many processes they are
    divided."""

    __slots__ = ("admitted", "aheads", "buckets", "share")

    def __init__(
        self, buckets: tuple[Bucket, ...], aheads: list[float], *, admitted: bool, share: int = 1
    ) -> None:
        self.buckets = buckets
        self.aheads = aheads
        self.admitted = admitted
        self.share = share

    def refusing(self) -> Bucket:
        """Return the limit for which there is longest to wait."""
        waits = list(self._waits())
        return self.buckets[waits.index(max(waits))]

    def retry_after(self) -> int:
        """Whole seconds until all limits would admit a call, at least one."""
        return max(1, math.ceil(max(self._waits()) / MICROS))

    def headers(self) -> dict[str, str]:
        """`RateLimit-Policy` and `RateLimit` (draft-ietf-httpapi-ratelimit-headers-10) of every limit, and
        the older three fields for the one that has least left."""
        policies, states = [], []
        least: tuple[int, int, RateLimit] | None = None
        for bucket, ahead in zip(self.buckets, self.aheads, strict=True):
            interval, tolerance = shared(bucket, self.share)
            left = max(int((tolerance - ahead + 1) // interval), 0)
            reset = math.ceil(ahead / MICROS)
            policies.append(bucket.policy)
            states.append(f'"{bucket.kind}";r={left};t={reset}')
            if least is None or left < least[0]:
                least = left, reset, bucket.limit
        found = {"RateLimit-Policy": ", ".join(policies), "RateLimit": ", ".join(states)}
        if least is not None:
            found["RateLimit-Limit"] = str(least[2].requests)
            found["RateLimit-Remaining"] = str(least[0])
            found["RateLimit-Reset"] = str(least[1])
        return found

    def _waits(self) -> list[float]:
        waits = []
        for bucket, ahead in zip(self.buckets, self.aheads, strict=True):
            interval, tolerance = shared(bucket, self.share)
            waits.append(ahead + interval - tolerance)
        return waits


def shared(bucket: Bucket, share: int) -> tuple[float, float]:
    """Interval and tolerance of one of `share` processes.

    Each goes `share` times slower, and keeps the tolerance: a `share`th of the burst takes as long.
    """
    interval = bucket.interval * share
    return interval, max(bucket.tolerance, interval)


def admit(buckets: tuple[Bucket, ...], now: float, *, share: int) -> Standing:
    """Return the same as SCRIPT with what this process knows; `now` is its monotonic clock in
    microseconds.
    """
    aheads, admitted = [], True
    for bucket in buckets:
        interval, tolerance = shared(bucket, share)
        ahead = min(max(bucket.tat - now, 0.0), tolerance)
        aheads.append(ahead)
        admitted = admitted and ahead + interval <= tolerance
    if admitted:
        for index, bucket in enumerate(buckets):
            aheads[index] += bucket.interval * share
            bucket.tat = now + aheads[index]
    return Standing(buckets, aheads, admitted=admitted, share=share)
