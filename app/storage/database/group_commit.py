"""Group commit: all items that arrive during one commit are committed together by the next one.

    add() --> waiting --> a batch --> one statement, one commit, on a connection outside the pool
      '--> Overloaded: the queue is full, or the expected wait exceeds the item's time limit

A call that needs a commit must not wait for a connection of the pool: with a backlog, each would time out
just before its turn, and each that is cancelled during a statement costs a connection. Here, an item whose
task no longer waits is dropped before it is sent, a statement that was sent is never cancelled because of one
item, and the more items wait, the less each costs.
"""

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Generic, TypeVar

import asyncpg
import structlog
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError, QueryCanceledError

from app.core.background import cancel_tasks
from app.core.errors import Overloaded
from app.storage.database.dsn import asyncpg_dsn

_log = structlog.get_logger(__name__)

# SQLSTATE classes: connection; read-only or ended transaction (the server is no longer the primary);
# insufficient resources; operator intervention; system error.
_UNAVAILABLE_STATES: Final = ("08", "25", "53", "57", "58")
# InternalClientError: no server of a list accepts writes, or the connection is in an unusable state.
_CONNECTION_ERRORS: Final = (OSError, TimeoutError, InterfaceError, InternalClientError)
_CONNECT_SECONDS: Final = 5.0
_MIN_BACKOFF, _MAX_BACKOFF = 0.1, 1.0
# The weight of the latest batch in the moving average.
_SMOOTHING: Final = 0.2

Item = TypeVar("Item")
Result = TypeVar("Result")


class DatabaseUnavailable(Exception):
    """PostgreSQL does not accept writes. `maybe_committed` says that the statement may have been executed."""

    def __init__(self, *, maybe_committed: bool) -> None:
        super().__init__("PostgreSQL does not accept writes.")
        self.maybe_committed = maybe_committed


class CommitConnection:
    """A connection in autocommit mode: each statement is one transaction and one round trip.

    It is opened at first use, to a server that accepts writes, with commits that are flushed to disk. While
    PostgreSQL is unavailable, `run` raises at once, and a task reconnects. `statement_timeout` is in seconds,
    `purpose` names it in the log.
    """

    def __init__(self, dsn: str, *, statement_timeout: float, purpose: str) -> None:
        self._dsn = asyncpg_dsn(dsn)
        self._seconds = statement_timeout
        self._purpose = purpose
        self._connection: Any = None
        self._lock = asyncio.Lock()
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connect, so that the first call need not; without PostgreSQL, retry in the background."""
        try:
            await self._connect(_CONNECT_SECONDS)
        except DatabaseUnavailable:
            self._reconnect_later()

    async def run(self, statement: str, *values: Any) -> list[Any]:
        """Execute a statement and return its rows. It must be idempotent; statements run one after another.

        Raise DatabaseUnavailable, and PostgresError when PostgreSQL rejects the statement or its values.
        """
        async with self._lock:
            if self._tasks:
                raise DatabaseUnavailable(maybe_committed=False)
            sent = False
            for _ in range(2):
                # The connection may have been closed while it was idle, and another server may be available.
                try:
                    return await self._send(statement, values)
                except DatabaseUnavailable as error:
                    self._drop()
                    sent = sent or error.maybe_committed
                    if isinstance(error.__cause__, TimeoutError | QueryCanceledError):
                        break
            self._reconnect_later()
            raise DatabaseUnavailable(maybe_committed=sent)

    async def aclose(self) -> None:
        """Close the connection."""
        await cancel_tasks(self._tasks)
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
            raise DatabaseUnavailable(maybe_committed=connection is not None) from error
        except PostgresError as error:
            if str(getattr(error, "sqlstate", None)).startswith(_UNAVAILABLE_STATES):
                raise DatabaseUnavailable(maybe_committed=True) from error
            raise

    async def _connect(self, seconds: float) -> Any:
        """Connect; raise DatabaseUnavailable for any error, even for a missing database or wrong password."""
        settings = {
            "application_name": "utcp-gateway",
            "synchronous_commit": "on",
            # A statement that waits for a lock must not be executed long after its timeout here.
            "statement_timeout": str(int(self._seconds * 1000)),
        }
        try:
            self._connection = await asyncpg.connect(  # type: ignore[no-untyped-call]
                self._dsn, timeout=seconds, server_settings=settings, target_session_attrs="read-write"
            )
        except (*_CONNECTION_ERRORS, PostgresError) as error:
            raise DatabaseUnavailable(maybe_committed=False) from error
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    def _reconnect_later(self) -> None:
        if not self._tasks:
            self._tasks.append(asyncio.create_task(self._reconnect(), name="commit-connection"))

    async def _reconnect(self) -> None:
        _log.warning("calls are rejected: PostgreSQL does not accept writes", purpose=self._purpose)
        backoff = _MIN_BACKOFF
        while True:
            try:
                await self._connect(_CONNECT_SECONDS)
                break
            except DatabaseUnavailable:
                await asyncio.sleep(backoff)
                backoff = min(backoff * 2, _MAX_BACKOFF)
        _log.info("PostgreSQL accepts writes again", purpose=self._purpose)
        self._tasks.clear()


class CommitQueue(Generic[Item, Result]):
    """A queue of items to be committed: one batch at a time, in the order of arrival.

    `commit` takes a batch and returns a result for each item; where it raises, each gets `failed`. A batch
    has at most `max_batch` items and, beyond the first, `max_bytes` as measured by `size_of`. While
    `max_waiting` items wait, further ones with a time limit are rejected; `rejected` counts them since the
    start. `on_abandoned` is called with an item and its result where its task stopped waiting while it was
    being committed. `expected_seconds`: how long a commit is expected to take before the first has ended.
    """

    def __init__(
        self,
        commit: Callable[[list[Item]], Awaitable[Sequence[Result]]],
        *,
        failed: Result,
        max_batch: int = 256,
        max_waiting: int = 1_000,
        max_bytes: int = 0,
        size_of: Callable[[Item], int] | None = None,
        on_abandoned: Callable[[Item, Result], None] | None = None,
        expected_seconds: float = 0.0,
    ) -> None:
        self._commit = commit
        self._failed = failed
        self._max_batch, self._max_waiting, self._max_bytes = max_batch, max_waiting, max_bytes
        self._size_of = size_of
        self._on_abandoned = on_abandoned
        self._waiting: list[tuple[Item, asyncio.Future[Result]]] = []
        self._task: asyncio.Task[None] | None = None
        self._began = 0.0
        self._average = expected_seconds
        self._sent = 0
        self.rejected = 0

    def __len__(self) -> int:
        """Return the number of items that wait or are being committed."""
        return len(self._waiting) + self._sent

    @property
    def waiting(self) -> int:
        """The number of items that are in no batch yet."""
        return len(self._waiting)

    def add(self, item: Item, *, max_wait: float | None = None) -> "asyncio.Future[Result]":
        """Queue an item; return a future with its result once it is committed, which raises nothing.

        `max_wait` is how long the item may wait: raise Overloaded where the expected wait is longer, or too
        many items wait. Without it, an item is always accepted. To stop waiting, cancel the future: an item
        that was not sent is then dropped. Where `on_abandoned` must be called for it, call `withdraw`
        instead.
        """
        loop = asyncio.get_running_loop()
        if max_wait is not None and self._task is not None:
            expected = self._expected_wait(loop.time())
            if expected > max_wait or len(self._waiting) >= self._max_waiting:
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
        """Stop waiting for an item: drop it if it was not sent; else `on_abandoned` is called with its
        result.

        A cancellation or timeout may occur after the result was set and before the waiting task resumes: the
        future is then done, though the task did not get its result.
        """
        if not future.done():
            future.cancel()
        elif not future.cancelled() and self._on_abandoned is not None:
            self._on_abandoned(item, future.result())

    async def drain(self) -> None:
        """Wait until every queued item has been committed or has failed."""
        while self._task is not None:
            await asyncio.wait({self._task})

    def _expected_wait(self, now: float) -> float:
        """Return the expected seconds until an item added now is committed: the current batch, then its own.

        A batch that takes longer than average is expected to take that much longer again. The number of items
        is not considered: a large batch costs little more than one item, and while commits are slow, items
        should not be admitted one by one.
        """
        age = now - self._began if self._began else 0.0
        batches = len(self._waiting) // self._max_batch + 1
        return abs(self._average - age) + batches * self._average

    def _next_batch(self) -> list[tuple[Item, "asyncio.Future[Result]"]]:
        """Remove and return the next batch; drop the items whose future was cancelled."""
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
                batch = self._next_batch()
                if not batch:
                    continue
                self._began, self._sent = loop.time(), len(batch)
                results: Sequence[Result] = [self._failed] * len(batch)
                try:
                    results = await self._commit([item for item, _ in batch])
                    if any(result is not self._failed for result in results):
                        self._average += _SMOOTHING * (loop.time() - self._began - self._average)
                except DatabaseUnavailable:
                    pass
                except Exception:  # noqa: BLE001 - the waiting calls get `failed`.
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
            elif self._on_abandoned is not None:
                self._on_abandoned(item, result)
