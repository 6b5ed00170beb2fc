"""The generic cell rate algorithm (GCRA): one time per limit, stored in Redis or in this process.

That time (`tat`, the theoretical arrival time) is when the limit will be unused again. A call advances it by
the interval between two calls, and is rejected where it would then be later than a burst permits (the
tolerance). Input and output are the offsets of that time from now: they are independent of the clock, so that
a process can continue without Redis from its last reply. All times are in microseconds.
"""

import math
from typing import Final, Self

from app.core.rate_limit import RateLimit

MICROSECONDS: Final = 1_000_000.0

# KEYS: one per limit. ARGV: their number; interval and tolerance of each. Where a worker also registers
# itself: the set of workers as one more key, its name, and for how many seconds the registration holds. All
# limits are checked before any of them is advanced, so that a call which one limit rejects does not count for
# the others. `%.3f` because Lua writes numbers with 14 digits, and the microseconds since 1970 have 16.
GCRA_SCRIPT: Final = """
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
"""Returns {1 if the call is admitted else 0, number of workers or 0, offset of each limit's `tat` from now}.
"""

READ_SCRIPT: Final = """
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]
local reply = {}
for i = 1, #KEYS do
  local tat = tonumber(redis.call('GET', KEYS[i]) or 0) or 0
  reply[i] = math.min(math.max(tat - now, 0), tonumber(ARGV[i]))
end
return reply
"""
"""Returns the offset of each limit's `tat` from now, at most its tolerance (ARGV); it changes nothing."""


class Bucket:
    """One limit and its state. `name` is its key in Redis, `kind` says what is limited (key, provider,
    address).
    """

    __slots__ = ("interval", "kind", "limit", "name", "policy", "tat", "tolerance")

    def __init__(self, name: str, limit: RateLimit, *, kind: str) -> None:
        self.name = name
        self.kind = kind
        self.limit = limit
        self.interval = limit.per_seconds * MICROSECONDS / limit.requests
        self.tolerance = self.interval * limit.burst
        self.policy = f'"{kind}";q={limit.requests};w={limit.per_seconds}'
        self.tat = 0.0
        """The theoretical arrival time, in microseconds of this process's monotonic clock."""


class RateLimitState:
    """The state of the limits of a call after it was admitted or rejected.

    `tat_offsets` are the offsets of each `tat` from now, in microseconds. `process_count` is the number of
    processes among which each limit is divided: 1 where Redis enforces it.
    """

    __slots__ = ("admitted", "buckets", "process_count", "tat_offsets")

    def __init__(
        self, buckets: tuple[Bucket, ...], tat_offsets: list[float], *, admitted: bool, process_count: int = 1
    ) -> None:
        self.buckets = buckets
        self.tat_offsets = tat_offsets
        self.admitted = admitted
        self.process_count = process_count

    @classmethod
    def read(cls, buckets: tuple[Bucket, ...], tat_offsets: list[float], *, process_count: int = 1) -> Self:
        """Return the state of limits that were read: `admitted` says whether a call would be admitted now."""
        pairs = zip(buckets, tat_offsets, strict=True)
        admitted = all(_admits(bucket, offset, process_count) for bucket, offset in pairs)
        return cls(buckets, tat_offsets, admitted=admitted, process_count=process_count)

    def remaining(self) -> list[int]:
        """Return how many calls each limit would admit at once."""
        return [
            _calls_left(bucket, offset, self.process_count)
            for bucket, offset in zip(self.buckets, self.tat_offsets, strict=True)
        ]

    def reset_seconds(self) -> list[int]:
        """Return in how many whole seconds each limit is unused again."""
        return [math.ceil(offset / MICROSECONDS) for offset in self.tat_offsets]

    def longest_wait_bucket(self) -> Bucket:
        """Return the limit that has the longest wait."""
        waits = list(self._waits())
        return self.buckets[waits.index(max(waits))]

    def retry_after(self) -> int:
        """Return the whole seconds, at least 1, until all limits would admit a call."""
        return max(1, math.ceil(max(self._waits()) / MICROSECONDS))

    def headers(self) -> dict[str, str]:
        """Return the response headers: `RateLimit-Policy` and `RateLimit` for every limit
        (draft-ietf-httpapi-ratelimit-headers-10), and the three older fields for the one with the fewest
        calls left.
        """
        policies, states = [], []
        least: tuple[int, int, RateLimit] | None = None
        for bucket, offset in zip(self.buckets, self.tat_offsets, strict=True):
            left = _calls_left(bucket, offset, self.process_count)
            reset = math.ceil(offset / MICROSECONDS)
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
        for bucket, offset in zip(self.buckets, self.tat_offsets, strict=True):
            interval, tolerance = per_process(bucket, self.process_count)
            waits.append(offset + interval - tolerance)
        return waits


def per_process(bucket: Bucket, process_count: int) -> tuple[float, float]:
    """Return interval and tolerance (microseconds) for one of `process_count` processes.

    Each admits calls at 1/`process_count` of the rate, with the same tolerance: 1/`process_count` of the
    burst takes as long.
    """
    interval = bucket.interval * process_count
    return interval, max(bucket.tolerance, interval)


def _calls_left(bucket: Bucket, offset: float, process_count: int) -> int:
    interval, tolerance = per_process(bucket, process_count)
    return max(int((tolerance - offset + 1) // interval), 0)


def _admits(bucket: Bucket, offset: float, process_count: int) -> bool:
    """Return whether one more call fits before the tolerance of the limit is reached."""
    interval, tolerance = per_process(bucket, process_count)
    return offset + interval <= tolerance


def _offset(bucket: Bucket, now: float, process_count: int) -> float:
    return min(max(bucket.tat - now, 0.0), per_process(bucket, process_count)[1])


def read(buckets: tuple[Bucket, ...], now: float, *, process_count: int) -> RateLimitState:
    """Return the state in this process, without counting a call; `now` as for `admit`."""
    offsets = [_offset(bucket, now, process_count) for bucket in buckets]
    return RateLimitState.read(buckets, offsets, process_count=process_count)


def admit(buckets: tuple[Bucket, ...], now: float, *, process_count: int) -> RateLimitState:
    """Admit or reject a call by the state in this process, as GCRA_SCRIPT does in Redis; return the state.

    `now` is this process's monotonic clock in microseconds.
    """
    state = read(buckets, now, process_count=process_count)
    if state.admitted:
        offsets = state.tat_offsets
        for index, bucket in enumerate(buckets):
            offsets[index] += bucket.interval * process_count
            bucket.tat = now + offsets[index]
    return state
