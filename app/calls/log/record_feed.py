"""New records of a table, delivered to all streams of a worker by one query a second.

A record is delivered once it is committed, whichever worker or replica stored it. Transactions do not commit
in the order of the times that they store: each query therefore reads the last seconds
(`RecordSource.overlap`) again, and records that were delivered before are skipped. A record that becomes
visible later than that after its time is not delivered; lists always have it.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Hashable, Sequence
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from typing import Final, Generic, Protocol, TypeVar
from uuid import UUID

import structlog
from sqlalchemy.ext.asyncio import AsyncSession

from app.core.background import cancel_tasks
from app.core.errors import Overloaded, Unavailable
from app.storage.database import Database

Row = TypeVar("Row")

PAGE_SIZE: Final = 1_000
"""The maximum number of records of one query."""
_POLL_SECONDS: Final = 1.0
_MAX_STREAMS: Final = 100
_MAX_WAITING: Final = 5_000

_log = structlog.get_logger(__name__)


class RecordSource(Protocol[Row]):
    """A table of records that are ordered by a time and an id."""

    overlap: timedelta
    """How long after its time a record may become visible."""

    async def now(self, session: AsyncSession) -> datetime:
        """Return the current time of the clock that sets the times of records."""

    async def read(
        self, session: AsyncSession, *, after: datetime, after_id: UUID | None, limit: int
    ) -> Sequence[Row]:
        """Return records in order, beginning after a time and an id; with None, at the time itself."""

    async def time_of(self, session: AsyncSession, record_id: UUID) -> datetime | None:
        """Return the time of the record with this id; None where there is none."""

    def position(self, row: Row) -> tuple[datetime, UUID]:
        """Return the time and the id of a record."""

    def identity(self, row: Row) -> Hashable:
        """Return what a record is recognised by when it is read again."""


class RecordSubscription(Generic[Row]):
    """The records that one stream has not taken yet: at most 5,000."""

    def __init__(self) -> None:
        self._waiting: deque[Row] = deque()
        self._wake = asyncio.Event()
        self._overflowed = False

    def offer(self, rows: Sequence[Row]) -> None:
        """Add records, unless there are too many already."""
        if self._overflowed or len(self._waiting) + len(rows) > _MAX_WAITING:
            self._overflowed = True
        else:
            self._waiting.extend(rows)
        self._wake.set()

    async def take(self, *, seconds: float) -> list[Row]:
        """Return the records that arrived since the last call; wait for some for at most `seconds`.

        Raise Overloaded where there were too many.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()
        rows = list(self._waiting)
        self._waiting.clear()
        if self._overflowed and not rows:
            raise Overloaded("The client reads more slowly than records arrive. Connect again to continue.")
        return rows


class RecordFeed(Generic[Row]):
    """The new records of a source. It reads the database only while there are subscriptions."""

    def __init__(self, source: RecordSource[Row], database: Database) -> None:
        self.source = source
        self.database = database
        self.queries = 0
        """Queries for new records, since the start."""
        self._subscriptions: set[RecordSubscription[Row]] = set()
        self._users = 0
        self._places = 0
        self._delivered: dict[Hashable, datetime] = {}
        self._last: datetime | None = None
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        """Return the number of streams that have a place."""
        return self._places

    async def aclose(self) -> None:
        """Stop reading."""
        await cancel_tasks(self._tasks)
        self._tasks = []

    def acquire(self) -> None:
        """Take one of the 100 places for streams of this worker, or raise Overloaded."""
        if self._places >= _MAX_STREAMS:
            raise Overloaded("This worker has as many open streams as it may have; try again later.")
        self._places += 1

    def release(self) -> None:
        """Return a place."""
        self._places -= 1

    @asynccontextmanager
    async def subscribe(self) -> AsyncIterator[RecordSubscription[Row]]:
        """Yield a subscription to all records that become visible from now on; raise Unavailable."""
        subscription: RecordSubscription[Row] = RecordSubscription()
        self._users += 1
        try:
            await self._advance()
            self._subscriptions.add(subscription)
            if not self._tasks:
                self._tasks = [asyncio.create_task(self._poll(), name="record-feed")]
            yield subscription
        finally:
            self._subscriptions.discard(subscription)
            self._users -= 1
            if not self._users:
                tasks, self._tasks = self._tasks, []
                self._last = None
                self._delivered.clear()
                await cancel_tasks(tasks)

    async def _poll(self) -> None:
        is_unavailable = False
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                await self._advance()
                is_unavailable = False
            except Unavailable:
                if not is_unavailable:
                    _log.warning("new records are streamed later: the database is unavailable")
                is_unavailable = True
            except Exception:  # noqa: BLE001 - the loop must survive every error.
                _log.exception("new records could not be read for streams")

    async def _advance(self) -> None:
        """Deliver what is visible by now. Without subscriptions, what is visible counts as delivered."""
        async with self._lock:
            after_id: UUID | None = None
            async with self.database.read_session() as session:
                last = self._last or await self.source.now(session)
                after = last - self.source.overlap
            while True:
                self.queries += 1
                async with self.database.read_session() as session:
                    page = await self.source.read(session, after=after, after_id=after_id, limit=PAGE_SIZE)
                self._deliver(page)
                if page:
                    after, after_id = self.source.position(page[-1])
                    last = max(last, after)
                if len(page) < PAGE_SIZE:
                    break
            self._last = last
            oldest = last - self.source.overlap
            self._delivered = {one: at for one, at in self._delivered.items() if at >= oldest}

    def _deliver(self, page: Sequence[Row]) -> None:
        new = [row for row in page if self.source.identity(row) not in self._delivered]
        for row in new:
            self._delivered[self.source.identity(row)] = self.source.position(row)[0]
        if new:
            for subscription in self._subscriptions:
                subscription.offer(new)
