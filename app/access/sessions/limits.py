"""Limits of sign-ins, per worker and in memory, and the events of those that failed."""

import time
from collections import OrderedDict
from contextlib import suppress
from typing import Final

from app.access.events import record_event
from app.core.client_address import group_address
from app.core.errors import RateLimited, Unavailable
from app.core.rate_limit import RateLimit
from app.security.gcra import MICROSECONDS, Bucket, admit
from app.storage.database import Database

_CAPACITY: Final = 10_000
_SIGN_INS: Final = RateLimit(30, 60, 30)
_EVENTS: Final = RateLimit(10, 60, 10)
_MAX_ADDRESSES: Final = 1_000
_MAX_EVENTS: Final = 20
_OTHERS: Final = "others"


class SignInLimit:
    """Sign-ins of one key, and sign-in links that it makes: 30 in a minute."""

    def __init__(self) -> None:
        self._buckets: OrderedDict[str, Bucket] = OrderedDict()

    def require(self, key_id: str) -> None:
        """Count a sign-in; raise RateLimited beyond the limit."""
        bucket = self._buckets.get(key_id)
        if bucket is None:
            bucket = self._buckets[key_id] = Bucket("", _SIGN_INS, kind="key")
            while len(self._buckets) > _CAPACITY:
                self._buckets.popitem(last=False)
        self._buckets.move_to_end(key_id)
        if not admit((bucket,), time.monotonic() * MICROSECONDS, process_count=1).admitted:
            raise RateLimited(
                "This key has signed in too often within a minute.", headers={"Retry-After": "2"}
            )


class FailedSignIns:
    """The events of failed sign-ins: one for each client address (IPv6: a /64) within a minute, with the
    number of failures, and at most 31 in all.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._counts: dict[str, int] = {}
        self._recorded: set[str] = set()
        self._bucket = Bucket("", _EVENTS, kind="address")

    async def report(self, host: str) -> None:
        """Count a failed sign-in of the client at `host`; the first one within a minute is recorded now."""
        group = group_address(host)
        if group not in self._counts and len(self._counts) >= _MAX_ADDRESSES:
            group = _OTHERS
        self._counts[group] = self._counts.get(group, 0) + 1
        if group in self._recorded or len(self._recorded) >= _MAX_ADDRESSES:
            return
        if admit((self._bucket,), time.monotonic() * MICROSECONDS, process_count=1).admitted:
            self._recorded.add(group)
            # The response is the same; `flush` records it later.
            with suppress(Unavailable):
                await self._record({group: self._counts.pop(group)})

    async def flush(self) -> None:
        """Record what is not recorded yet; the service calls this once a minute."""
        counts, self._counts = self._counts, {}
        self._recorded.clear()
        if not counts:
            return
        largest = sorted(counts, key=counts.__getitem__, reverse=True)
        found = {group: counts[group] for group in largest[:_MAX_EVENTS]}
        others = sum(counts[group] for group in largest[_MAX_EVENTS:])
        if others:
            found[_OTHERS] = found.get(_OTHERS, 0) + others
        await self._record(found)

    async def _record(self, counts: dict[str, int]) -> None:
        recorded = False
        try:
            async with self._database.transaction() as session:
                for group, failures in counts.items():
                    await record_event(
                        session,
                        actor="anonymous",
                        action="failed",
                        object_type="session",
                        object_name=group,
                        detail={"failures": failures},
                    )
            recorded = True
        finally:
            if not recorded:
                for group, failures in counts.items():
                    self._counts[group] = self._counts.get(group, 0) + failures
