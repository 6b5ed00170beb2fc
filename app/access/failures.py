"""A limit of the invalid API keys that one client address may send; it is per worker, in memory.

Keys beyond the limit are not looked up. Valid keys never count, so that other clients behind the same address
are not locked out.
"""

import time
from collections import OrderedDict
from typing import Final

from app.core.client_address import group_address
from app.core.rate_limit import RateLimit
from app.security.gcra import MICROSECONDS, Bucket, admit

CAPACITY: Final = 10_000


class KeyFailureLimiter:
    """The failures of each address group (`client_address`); there is no limit where `limit` is None.

    The state of at most `capacity` groups is stored; beyond that, the group whose failure is oldest is
    dropped.
    """

    def __init__(self, limit: RateLimit | None, *, capacity: int = CAPACITY) -> None:
        self._limit = limit
        self._capacity = capacity
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def __len__(self) -> int:
        return len(self._buckets)

    def try_consume(self, host: str) -> bool:
        """Count a failure of the client at `host`; return False, without counting, where its limit is
        reached.
        """
        bucket = self._bucket(host)
        return bucket is None or admit((bucket,), time.monotonic() * MICROSECONDS, process_count=1).admitted

    def refund(self, host: str) -> None:
        """Undo one counted failure of the client at `host`: the key was valid, or could not be looked up."""
        bucket = self._bucket(host)
        if bucket is not None:
            bucket.tat -= bucket.interval

    def retry_after(self, host: str) -> int:
        """Return the whole seconds, at least 1, until another failure of the client at `host` is admitted."""
        bucket = self._bucket(host)
        if bucket is None:
            return 1
        offset = max(bucket.tat - time.monotonic() * MICROSECONDS, 0.0)
        return max(1, -int(-(offset + bucket.interval - bucket.tolerance) // MICROSECONDS))

    def _bucket(self, host: str) -> Bucket | None:
        if self._limit is None:
            return None
        group = group_address(host)
        bucket = self._buckets.get(group)
        if bucket is None:
            bucket = self._buckets[group] = Bucket("", self._limit, kind="address")
            while len(self._buckets) > self._capacity:
                self._buckets.popitem(last=False)
        else:
            self._buckets.move_to_end(group)
        return bucket
