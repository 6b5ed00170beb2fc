"""The fast mode: records are queued on the call path and stored in batches in the background."""

import asyncio
import contextlib
from collections import deque

import structlog

from app.calls.log.entries import CallLogEntry
from app.calls.log.retention import maintain_partitions
from app.calls.log.store import CallStore
from app.calls.stats.retention import maintain_stats
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.storage.database import Database

_log = structlog.get_logger(__name__)

_CAPACITY = 100_000
_BATCH = 2_000
# With so many queued records, they are stored at once: small, frequent batches do not delay calls.
_FLUSH_SIZE = 200
_MAINTENANCE_SECONDS = 3_600.0
_FINAL_FLUSH_SECONDS = 5.0
_MAINTENANCE = LoopMessages(
    unavailable="the partitions of calls were not maintained: the database is unavailable",
    failed="the partitions of calls could not be maintained",
)


class BatchCallLog:
    """The call log that queues records in memory, and stores them every `flush_seconds`.

    While PostgreSQL is unavailable, up to `capacity` records are queued; beyond that, the oldest are dropped
    and counted. It also maintains the partitions of the table, for `retention_days`, and the statistics, for
    `stats_days` (by hour, by minute).
    """

    durable = False

    def __init__(
        self,
        database: Database,
        *,
        flush_seconds: float = 0.5,
        retention_days: int = 30,
        stats_days: tuple[int, int] = (400, 400),
        capacity: int = _CAPACITY,
    ) -> None:
        self.store = CallStore(database, retention_days=retention_days)
        self._stats_days = stats_days
        self._flush_seconds = flush_seconds
        self._capacity = capacity
        self._waiting: deque[CallLogEntry] = deque()
        self._wake = asyncio.Event()
        self._flush_lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def dropped(self) -> int:
        """Records that were dropped, since the start."""
        return self.store.dropped

    def __len__(self) -> int:
        """Return the number of records that have not been stored yet."""
        return len(self._waiting)

    async def record_intent(self, entry: CallLogEntry) -> None:
        """Do nothing: this mode records calls only when they have ended."""

    def record(self, entry: CallLogEntry) -> None:
        """Queue a record, without waiting and without raising."""
        self._waiting.append(entry)
        if len(self._waiting) > self._capacity:
            self._waiting.popleft()
            self.store.count_dropped(1)
        elif len(self._waiting) >= _FLUSH_SIZE:
            self._wake.set()

    async def wait_recorded(self, waiting: "asyncio.Future[bool]") -> None:
        """Do nothing: records of this mode are not waited for."""

    async def start(self) -> None:
        """Start the background tasks."""
        maintenance = run_periodically(
            self._maintain, interval=_MAINTENANCE_SECONDS, messages=_MAINTENANCE, run_immediately=True
        )
        self._tasks = [
            asyncio.create_task(self._flush_loop(), name="call-records"),
            asyncio.create_task(maintenance, name="call-partitions"),
        ]

    async def aclose(self) -> None:
        """Stop the background tasks and store the remaining records, for at most five seconds."""
        await cancel_tasks(self._tasks)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FINAL_FLUSH_SECONDS):
                await self.flush()
        if self._waiting:
            _log.error("call records could not be stored before the shutdown", number=len(self._waiting))
            self.store.count_dropped(len(self._waiting))
            self._waiting.clear()

    async def flush(self) -> bool:
        """Store all queued records; return False when PostgreSQL is unavailable and they are still queued."""
        async with self._flush_lock:
            for _ in range(len(self._waiting) // _BATCH + 1):
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                if batch and not await self._store_batch(batch):
                    return False
        return True

    async def _store_batch(self, batch: list[CallLogEntry]) -> bool:
        stored = False
        try:
            stored = await self.store.store(batch)
        finally:
            # Also where the task is cancelled: records that may not have been committed are stored again.
            if not stored:
                self._put_back(batch)
        return stored

    def _put_back(self, batch: list[CallLogEntry]) -> None:
        self._waiting.extendleft(reversed(batch))
        excess = len(self._waiting) - self._capacity
        for _ in range(excess):
            self._waiting.popleft()
        if excess > 0:
            self.store.count_dropped(excess)

    async def _flush_loop(self) -> None:
        is_unavailable = False
        while True:
            with contextlib.suppress(TimeoutError):
                # While the database is unavailable, a full queue must not make this a busy loop.
                async with asyncio.timeout(self._flush_seconds):
                    await (asyncio.sleep(5) if is_unavailable else self._wake.wait())
            self._wake.clear()
            try:
                stored = await self.flush()
                if not stored and not is_unavailable:
                    _log.warning(
                        "call records are stored later: the database is unavailable",
                        number=len(self._waiting),
                    )
                is_unavailable = not stored
            except Exception:  # noqa: BLE001  (the loop must survive every error)
                _log.exception("call records could not be stored")
                is_unavailable = True

    async def _maintain(self) -> None:
        await maintain_partitions(self.store.database, retention_days=self.store.retention_days)
        hour_days, minute_days = self._stats_days
        await maintain_stats(self.store.database, hour_days=hour_days, minute_days=minute_days)
