"""The writer of call records: appended on the call path, stored in batches behind it."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Sequence

import structlog
from sqlalchemy import text
from sqlalchemy.exc import DBAPIError

from app.audit.entries import CallEntry
from app.audit.retention import maintain
from app.database import Database, is_away
from app.errors import Unavailable
from app.telemetry.metrics import Metrics

_log = structlog.get_logger(__name__)

_CAPACITY = 100_000
_BATCH = 2_000
_LARGEST_INT = 2**31 - 1
_LONGEST_TEXT = 300
_MAINTENANCE_SECONDS = 3_600.0
# check_violation, which PostgreSQL answers with where a row does not fit its partition (any more).
_NO_PARTITION = "23514"
_LAST_FLUSH_SECONDS = 5.0

# One statement whatever the number of rows. A batch whose commit was cut off comes again: hence ON CONFLICT.
_INSERT = text(
    "INSERT INTO calls (id, at, tenant_id, key_id, provider, tool, outcome, status, upstream_status,"
    " duration_ms, request_bytes, response_bytes)"
    " SELECT * FROM unnest(CAST(:id AS uuid[]), CAST(:at AS timestamptz[]), CAST(:tenant_id AS uuid[]),"
    " CAST(:key_id AS text[]), CAST(:provider AS text[]), CAST(:tool AS text[]), CAST(:outcome AS text[]),"
    " CAST(:status AS int[]), CAST(:upstream_status AS int[]), CAST(:duration_ms AS float8[]),"
    " CAST(:request_bytes AS int[]), CAST(:response_bytes AS int[]))"
    " ON CONFLICT DO NOTHING"
)


class CallWriter:
    """Keeps records in memory until they are stored; while PostgreSQL is away up to `capacity` of them.

    When more come, the oldest are dropped and counted. It also keeps the partitions of the table.
    """

    def __init__(
        self,
        database: Database,
        *,
        flush_seconds: float = 0.5,
        retention_days: int = 30,
        metrics: Metrics | None = None,
        capacity: int = _CAPACITY,
    ) -> None:
        self._database = database
        self._flush_seconds = flush_seconds
        self._retention_days = retention_days
        self._metrics = metrics
        self._capacity = capacity
        self._waiting: deque[CallEntry] = deque()
        self._wake = asyncio.Event()
        self._turn = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []
        self.lost = 0
        """Records that were dropped, since the start."""

    def __len__(self) -> int:
        """Records that are not stored yet."""
        return len(self._waiting)

    def record(self, entry: CallEntry) -> None:
        """Takes a record; never waits and never raises."""
        self._waiting.append(entry)
        if len(self._waiting) > self._capacity:
            self._waiting.popleft()
            self._lose(1)
        elif len(self._waiting) >= _BATCH:
            self._wake.set()

    async def start(self) -> None:
        """Starts the background tasks."""
        self._tasks = [
            asyncio.create_task(self._keep_flushing(), name="call-records"),
            asyncio.create_task(self._keep_maintaining(), name="call-partitions"),
        ]

    async def aclose(self) -> None:
        """Ends the background tasks and stores what is left, for at most five seconds."""
        for task in self._tasks:
            task.cancel()
        for task in self._tasks:
            with contextlib.suppress(asyncio.CancelledError):
                await task
        self._tasks = []
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_FLUSH_SECONDS):
                await self.flush()
        if self._waiting:
            _log.error("call records could not be stored before the end", number=len(self._waiting))
            self._lose(len(self._waiting))
            self._waiting.clear()

    async def flush(self) -> bool:
        """Stores all records that wait now; False when PostgreSQL is away and they still wait."""
        async with self._turn:
            for _ in range(len(self._waiting) // _BATCH + 1):
                batch = [self._waiting.popleft() for _ in range(min(_BATCH, len(self._waiting)))]
                if batch and not await self._store(batch):
                    return False
        if self._metrics is not None:
            self._metrics.call_records_waiting.set(len(self._waiting))
        return True

    async def _store(self, batch: list[CallEntry]) -> bool:
        stored = False
        try:
            stored = await self._try(batch)
        finally:
            # Also when the task is cancelled: what may not have been committed is sent again.
            if not stored:
                self._give_back(batch)
        return stored

    async def _try(self, batch: list[CallEntry], *, mended: bool = False) -> bool:
        """Whether all of them are stored or refused for good; False when PostgreSQL is away.

        `mended` says that the partitions have just been looked after.
        """
        try:
            await self._insert(batch)
        except (Unavailable, OSError, TimeoutError):
            return False
        except DBAPIError as error:
            if is_away(error):
                return False
            if not _is_about_a_row(error):
                raise
            if not mended and getattr(error.orig, "sqlstate", None) == _NO_PARTITION:
                # The day's partition was made while the row was on its way into the default one.
                try:
                    await maintain(self._database, retention_days=self._retention_days)
                except Unavailable:
                    return False
                return await self._try(batch, mended=True)
            if len(batch) == 1:
                _log.error("a call record was refused by the database")
                self._lose(1)
                return True
            # One row that PostgreSQL refuses must not keep the others out.
            return all([await self._try([entry], mended=mended) for entry in batch])
        return True

    async def _insert(self, batch: Sequence[CallEntry]) -> None:
        columns = {
            "id": [entry.id for entry in batch],
            "at": [entry.at for entry in batch],
            "tenant_id": [entry.tenant_id for entry in batch],
            "key_id": [_text(entry.key_id) for entry in batch],
            "provider": [_text(entry.provider) for entry in batch],
            "tool": [_text(entry.tool) for entry in batch],
            "outcome": [_text(entry.outcome) for entry in batch],
            "status": [entry.status for entry in batch],
            "upstream_status": [entry.upstream_status for entry in batch],
            "duration_ms": [entry.duration_ms for entry in batch],
            "request_bytes": [min(entry.request_bytes, _LARGEST_INT) for entry in batch],
            "response_bytes": [min(entry.response_bytes, _LARGEST_INT) for entry in batch],
        }
        async with self._database.writing() as session:
            await session.execute(_INSERT, columns)

    def _give_back(self, batch: list[CallEntry]) -> None:
        self._waiting.extendleft(reversed(batch))
        over = len(self._waiting) - self._capacity
        for _ in range(over):
            self._waiting.popleft()
        if over > 0:
            self._lose(over)

    def _lose(self, number: int) -> None:
        self.lost += number
        if self._metrics is not None:
            self._metrics.call_records_lost(number)

    async def _keep_flushing(self) -> None:
        away = False
        while True:
            with contextlib.suppress(TimeoutError):
                # While the database is away, a full queue must not turn the pause into a busy loop.
                await asyncio.wait_for(asyncio.sleep(5) if away else self._wake.wait(), self._flush_seconds)
            self._wake.clear()
            try:
                stored = await self.flush()
                if not stored and not away:
                    _log.warning("call records wait for the database", number=len(self._waiting))
                away = not stored
            except Exception:  # noqa: BLE001  (the loop must outlive every fault)
                _log.exception("call records could not be stored")
                away = True

    async def _keep_maintaining(self) -> None:
        while True:
            try:
                await maintain(self._database, retention_days=self._retention_days)
            except Unavailable:
                _log.warning("the partitions of calls were not looked after: the database is away")
            except Exception:  # noqa: BLE001  (the loop must outlive every fault)
                _log.exception("the partitions of calls could not be looked after")
            await asyncio.sleep(_MAINTENANCE_SECONDS)


def _is_about_a_row(error: DBAPIError) -> bool:
    """Whether a value was refused: SQLSTATE classes 22 and 23, or asyncpg could not encode it."""
    state = getattr(error.orig, "sqlstate", None)
    return state is None or str(state).startswith(("22", "23"))


def _text(value: str) -> str:
    """What PostgreSQL can store: no NUL, no lone surrogates, of a bounded length."""
    return value[:_LONGEST_TEXT].replace("\x00", "").encode("utf-8", "replace").decode()
