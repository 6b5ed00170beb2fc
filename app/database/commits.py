"""Group commit: what arrives while one commit is under way goes into the next one, all together.

    add() --> waiting --> a batch --> one statement, one commit, on a connection beside the pool
      '--> Overloaded: the queue is full, or the wait would be longer than the item has time

A call that needs a commit must not wait for a connection of the pool: under backlog each would time out just
before its turn, and each that is cancelled in the middle of a statement costs a connection. Here an item
whose caller has stopped waiting is dropped before it is sent, a statement that was sent is never cancelled
for one caller's sake, and the more items wait, the cheaper each is.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import asyncpg
import structlog
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError, QueryCanceledError

from app.background import end_tasks
from app.database.dsn import asyncpg_dsn
from app.errors import Overloaded

_log = structlog.get_logger(__name__)

# Classes of SQLSTATE: connection, read-only or ended transaction (a server that is no primary any more), no
# resources, operator intervention, system error.
_UNAVAILABLE_STATES: Final = ("08", "25", "53", "57", "58")
# The last one: no server of a list takes writes, or the connection is in no state to be used.
_CONNECTION_ERRORS: Final = (OSError, TimeoutError, InterfaceError, InternalClientError)
_CONNECT_SECONDS: Final = 5.0
_MIN_BACKOFF, _MAX_BACKOFF = 0.1, 1.0
# The share of the latest batch in the average.
_SMOOTHING: Final = 0.2

Item = TypeVar("Item")
Result = TypeVar("Result")


class DatabaseAway(Exception):
    """PostgreSQL cannot be written to. `sent` says that the statement may have been carried out."""

    def __init__(self, *, sent: bool) -> None:
        super().__init__("PostgreSQL cannot be written to.")
        self.sent = sent


class CommitConnection:
    """A connection whose statements are transactions of their own, and so one round trip each.

    It is opened when it is first used, and asks for a server that takes writes and for commits that are on
    disk. While PostgreSQL is away `run` says so at once, and a task connects again. `seconds` is the time
    limit of a statement, `purpose` what the log calls it.
    """

    def __init__(self, dsn: str, *, seconds: float, purpose: str) -> None:
        self._dsn = asyncpg_dsn(dsn)
        self._seconds = seconds
        self._purpose = purpose
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connects, so that the first call need not; without PostgreSQL it goes on trying."""
        try:
            await self._connect(_CONNECT_SECONDS)
        except DatabaseAway:
            self._reconnect_later()

    async def run(self, statement: str, *values: Any) -> list[Any]:
        """Return the rows of a statement, which must be one that may be carried out twice; statements wait
        for each other.

        Raises DatabaseAway, and PostgresError when PostgreSQL rejects the statement or its values.
        """
        async with self._lock:
            if self._tasks:
                raise DatabaseAway(sent=False)
            sent = False
            for _ in range(2):
                # A connection may have ended while nobody looked, and another server may be there at once.
                try:
                    return await self._send(statement, values)
                except DatabaseAway as error:
                    self._drop()
                    sent = sent or error.sent
                    if isinstance(error.__cause__, TimeoutError | QueryCanceledError):
                        break
            self._reconnect_later()
            raise DatabaseAway(sent=sent)

    async def aclose(self) -> None:
        """Stop the connection."""
        await end_tasks(self._tasks)
        self._drop()

    async def _send(self, statement: str, values: Sequence[Any]) -> list[Any]:
        connection = self._connection
        try:
            async with asyncio.timeout(self._seconds):
                if connection is None:
                    connection = await self._connect(self._seconds)
                rows: list[Any] = await connection.fetch(statement, *values)
                return rows
        except _CONNECTION_ERRORS as error:
            raise DatabaseAway(sent=connection is not None) from error
        except PostgresError as error:
            if str(getattr(error, "sqlstate", None)).startswith(_UNAVAILABLE_STATES):
                raise DatabaseAway(sent=True) from error
            raise

    async def _connect(self, seconds: float) -> Any:
        """Raise DatabaseAway whatever the server says, which may have forgotten database or password."""
        settings = {
            "application_name": "utcp-gateway",
            "synchronous_commit": "on",
            # A statement that waits for a lock must not be carried out long after it was given up here.
            "statement_timeout": str(int(self._seconds * 1000)),
        }
        try:
            self._connection = await asyncpg.connect(  # type: ignore[no-untyped-call]
                self._dsn, timeout=seconds, server_settings=settings, target_session_attrs="read-write"
            )
        except (*_CONNECTION_ERRORS, PostgresError) as error:
            raise DatabaseAway(sent=False) from error
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _reconnect_later(self) -> None:
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._reconnect(), name="commit-connection"))

    async def _reconnect(self) -> None:
        _log.warning("calls are rejected: PostgreSQL cannot be written to", purpose=self._purpose)
        pause = _MIN_BACKOFF
        while True:
            try:
                await self._connect(_CONNECT_SECONDS)
                break
            except DatabaseAway:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_BACKOFF)
        _log.info("PostgreSQL can be written to again", purpose=self._purpose)
        self._tasks.clear()


class CommitQueue(Generic[Item, Result]):
    """Items that wait for a commit; one batch at a time, in the order in which they came.

    `commit` takes a batch and gives a result for each item; where it raises, each gets `failed`. A batch has
    at most `max_batch` items and, beyond the first, `max_bytes` by `weigh`. Where `max_waiting` items wait,
    one that has a time limit is rejected; `rejected` counts them since the start. `abandoned` is told the
    result of an item whose caller stopped waiting while it was being committed.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        failed: Result,
        max_batch: int = 256,
        max_waiting: int = 1_000,
        max_bytes: int = 0,
        weigh: Callable[[Item], int] | None = None,
        abandoned: Callable[[Item, Result], None] | None = None,
    ) -> None:
        self._commit = commit
        self._failed = failed
        self._max_batch, self._max_waiting, self._max_bytes = max_batch, max_waiting, max_bytes
        self._size_of = weigh
        self._abandoned = abandoned
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0
        self._average = 0.0
        self._sent = 0
        self.rejected = 0

    def __len__(self) -> int:
        """Items that wait or are being committed."""
        return len(self._waiting) + self._sent

    @property
    def waiting(self) -> int:
        """Items that are in no batch yet."""
        return len(self._waiting)

    def add(self, item: Item, *, seconds: float | None = None) -> "asyncio.Future[Result]":
        """Return the result of an item, as soon as it is committed; the future raises nothing.

        `seconds` is how long the caller will wait: Overloaded is raised where that would be too short, or too
        many items wait. Without it an item is always taken. To cancel the future is to stop waiting: an item
        that was not sent is dropped then. Where `abandoned` must hear of it, call `withdraw` instead.
        """
        loop = asyncio.get_running_loop()
        if seconds is not None and self._task is not None:
            expected = self._expected(loop.time())
            if expected > seconds or len(self._waiting) >= self._max_waiting:
                self.rejected += 1
                raise Overloaded(
                    "Too many calls wait for the database.", retry_after=max(1, math.ceil(expected))
                )
        future: asyncio.Future[Result] = loop.create_future()
        self._waiting.append((item, future))
        if self._task is None:
            self._task = loop.create_task(self._run(), name="group-commit")
        return future

    def withdraw(self, item: Item, future: "asyncio.Future[Result]") -> None:
        """The caller of `add` stops waiting: an item that was not sent is dropped, and `abandoned` is told
        the result of one that was.

        A cancellation or timeout may come after the result was set and before the caller's task goes on: the
        future is done then, and the caller does not know its result.
        """
        if not future.done():
            future.cancel()
        elif not future.cancelled() and self._abandoned is not None:
            self._abandoned(item, future.result())

    async def settle(self) -> None:
        """Wait until everything that was added has been committed, or could not be."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def _expected(self, now: float) -> float:
        """Seconds until an item that comes now is committed: the rest of the batch under way, then its own.

        A batch that takes longer than usual is taken to need as long again as it is late. Nothing is added to
        that: many items in a batch cost little more than one, and while commits are slow for everybody, those
        that are let in must not come one by one.
        """
        age = now - self._began if self._began else 0.0
        batches = len(self._waiting) // self._max_batch + 1
        return abs(self._average - age) + batches * self._average

    def _batch(self) -> list[tuple[Item, "asyncio.Future[Result]"]]:
        """Return the next items; those that nobody waits for any more are dropped."""
        batch: list[tuple[Item, asyncio.Future[Result]]] = []
        size = 0
        for taken, one in enumerate(self._waiting):
            if one[1].cancelled():
                continue
            if self._size_of is not None:
                size += self._size_of(one[0])
            if len(batch) == self._max_batch or (batch and size > self._max_bytes > 0):
                del self._waiting[:taken]
                return batch
            batch.append(one)
        self._waiting.clear()
        return batch

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while self._waiting:
                batch = self._batch()
                if not batch:
                    continue
                self._began, self._sent = loop.time(), len(batch)
                results: Sequence[Result] = [self._failed] * len(batch)
                try:
                    results = await self._commit([item for item, _ in batch])
                    if any(result is not self._failed for result in results):
                        self._average += _SMOOTHING * (loop.time() - self._began - self._average)
                except DatabaseAway:
                    pass
                except Exception:  # noqa: BLE001 - the callers that wait must hear of it.
                    _log.exception("a batch could not be committed")
                finally:
                    self._began, self._sent = 0.0, 0
                    self._set_results(batch, results)
        finally:
            self._task = None

    def _set_results(
        self, batch: list[tuple[Item, "asyncio.Future[Result]"]], results: Sequence[Result]
    ) -> None:
        for (item, future), result in zip(batch, results, strict=True):
            if not future.done():
                future.set_result(result)
            elif self._abandoned is not None:
                self._abandoned(item, result)
