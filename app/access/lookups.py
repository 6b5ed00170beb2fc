"""Reading keys by their ids: many ids with one statement, and existing ids before unknown ones.

    known     waiting --> up to 2 statements at a time, started at once
    unknown   waiting --> 1 statement at a time, at most 40 per second and 640 ids per second; further ids
                          wait, or are rejected where too many are waiting

An unknown id that is found to exist while it waits is moved to the known ones (`promote`). So any number of
invented ids occupies one connection of the pool for a small part of its time.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.repository import find_keys
from app.core.background import TaskSet
from app.core.errors import GatewayError, Overloaded, Unavailable, clone_error
from app.storage.database import Database
from app.storage.models import Key

LookupPriority = Literal["known", "unknown"]

_KNOWN_STATEMENTS: Final = 2
_KNOWN_IDS: Final = 256
_UNKNOWN_IDS: Final = 64
_MIN_UNKNOWN_INTERVAL_SECONDS: Final = 0.025
_SECONDS_PER_UNKNOWN_ID: Final = 0.1 / _UNKNOWN_IDS
# At 640 ids per second the last one waits for two and a half seconds.
_MAX_UNKNOWN: Final = 1_600
# How long a statement is waited for before PostgreSQL is probed on another connection, and how long after
# that.
_PROBE_AFTER_SECONDS: Final = 1.0
_RESPONSE_SECONDS: Final = 2.0
# A timer that fires later than this means that this process was too busy to read the response.
_LATE_SECONDS: Final = 0.1


class LookupResult(NamedTuple):
    """The result of a statement for one id: its row, or None, and when the statement was sent (monotonic)."""

    row: Key | None
    read_at: float


class LookupTimeout(Overloaded):
    """A look-up was not started or not completed in time; PostgreSQL itself may be available."""

    def __init__(self) -> None:
        super().__init__("The API key could not be looked up in time; try again.")


_Waiting = OrderedDict[str, "asyncio.Future[LookupResult]"]
_Read = Callable[[Sequence[str]], Awaitable[dict[str, LookupResult]]]


class _LookupQueue:
    """Waiting ids, and the tasks that look them up in batches, in the order of arrival."""

    def __init__(self, read: _Read, *, name: str, statements: int, ids: int, paced: bool) -> None:
        self.waiting: _Waiting = OrderedDict()
        self.statements = 0
        """Statements since the start."""
        self._read = read
        self._name = name
        self._max_statements = statements
        self._max_ids = ids
        self._paced = paced
        self._next_at = 0.0
        self._running: set[asyncio.Task[None]] = set()

    def add(self, key_id: str, future: "asyncio.Future[LookupResult]") -> None:
        """Queue an id; `future`, and a future that already waits for the same id, get the result."""
        earlier = self.waiting.get(key_id)
        if earlier is not None and not earlier.done():
            future.add_done_callback(lambda done: _forward_result(done, earlier))
        self.waiting[key_id] = future
        if len(self._running) < self._max_statements:
            self._running.add(asyncio.create_task(self._run(), name=self._name))

    async def aclose(self) -> None:
        """Cancel the running statements and the waiting futures."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for future in self.waiting.values():
            future.cancel()
        self.waiting.clear()

    async def _run(self) -> None:
        try:
            while self.waiting:
                delay = self._next_at - time.monotonic()
                if delay > 0:
                    await asyncio.sleep(delay)
                batch = self._next_batch()
                if batch:
                    if self._paced:
                        interval = max(_MIN_UNKNOWN_INTERVAL_SECONDS, _SECONDS_PER_UNKNOWN_ID * len(batch))
                        self._next_at = time.monotonic() + interval
                    await self._run_statement(batch)
        finally:
            # At once: an id that is added from now on needs another task.
            task = asyncio.current_task()
            if task is not None:
                self._running.discard(task)

    def _next_batch(self) -> _Waiting:
        batch: _Waiting = OrderedDict()
        while self.waiting and len(batch) < self._max_ids:
            key_id, future = self.waiting.popitem(last=False)
            if not future.done():
                batch[key_id] = future
        return batch

    async def _run_statement(self, batch: _Waiting) -> None:
        self.statements += 1
        try:
            found = await self._read([*batch])
        except Exception as error:  # noqa: BLE001 - the futures that wait for the batch raise it.
            for future in batch.values():
                if not future.done():
                    future.set_exception(clone_error(error) if isinstance(error, GatewayError) else error)
        else:
            for key_id, future in batch.items():
                if not future.done():
                    future.set_result(found[key_id])
        finally:
            for future in batch.values():
                future.cancel()


class KeyLookups:
    """Looks up keys by their ids, for one worker.

    Since the start, `requested` counts ids by priority, and `rejected` the unknown ids that were rejected
    because too many were waiting.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[LookupPriority, _LookupQueue] = {
            "known": _LookupQueue(
                self._select, name="key-lookup", statements=_KNOWN_STATEMENTS, ids=_KNOWN_IDS, paced=False
            ),
            "unknown": _LookupQueue(
                self._select, name="unknown-key-lookup", statements=1, ids=_UNKNOWN_IDS, paced=True
            ),
        }
        self._abandoned = TaskSet()
        self.requested: dict[LookupPriority, int] = {"known": 0, "unknown": 0}
        self.rejected = 0

    def statements(self) -> dict[LookupPriority, int]:
        """Return the number of statements by priority, since the start."""
        return {priority: queue.statements for priority, queue in self._queues.items()}

    def waiting(self) -> dict[LookupPriority, int]:
        """Return the number of ids that wait for a statement, by priority."""
        return {priority: len(queue.waiting) for priority, queue in self._queues.items()}

    async def look_up(self, key_id: str, priority: LookupPriority, *, timeout: float) -> LookupResult:
        """Return the row with this key id, or None; concurrent look-ups of an id share a statement.

        Raise Unavailable where PostgreSQL is unavailable: it could not be connected to, a connection was lost
        twice, or a statement that was sent had no response. Raise LookupTimeout after `timeout` seconds, or
        where too many unknown ids wait, and DatabasePoolExhausted; PostgreSQL may be available in both cases.
        """
        queue = self._queues[priority]
        if priority == "unknown" and len(queue.waiting) >= _MAX_UNKNOWN:
            self.rejected += 1
            raise LookupTimeout
        self.requested[priority] += 1
        future: asyncio.Future[LookupResult] = asyncio.get_running_loop().create_future()
        queue.add(key_id, future)
        try:
            await asyncio.wait((future,), timeout=timeout)
            if not future.done():
                raise LookupTimeout
            return future.result()
        finally:
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                # Retrieve the exception, also where the waiting task was cancelled.
                future.exception()
            for one in self._queues.values():
                if one.waiting.get(key_id) is future:
                    del one.waiting[key_id]

    def promote(self, key_id: str) -> None:
        """Move an id that waits among the unknown ones to the known ones."""
        future = self._queues["unknown"].waiting.pop(key_id, None)
        if future is not None:
            self._queues["known"].add(key_id, future)

    async def aclose(self) -> None:
        """Cancel all look-ups; those that wait for a result raise CancelledError."""
        for queue in self._queues.values():
            await queue.aclose()
        await self._abandoned.aclose(timeout=0)

    async def _select(self, key_ids: Sequence[str]) -> dict[str, LookupResult]:
        sent: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def work(session: AsyncSession) -> dict[str, Key]:
            if not sent.done():
                sent.set_result(time.monotonic())
            return await find_keys(session, key_ids)

        statement = asyncio.create_task(self._database.read(work, autocommit=True), name="key-statement")
        try:
            # Until there is a connection, the wait may be for the pool: `Database` distinguishes these.
            await asyncio.wait((statement, sent), return_when=asyncio.FIRST_COMPLETED)
            await self._wait_for_response(statement)
            rows = statement.result()
        finally:
            if not statement.done():
                # Closing a connection to an unresponsive server may take longer than a request should wait.
                statement.cancel()
                self._abandoned.add(statement)
            sent.cancel()
        read_at = sent.result()
        return {key_id: LookupResult(rows.get(key_id), read_at) for key_id in key_ids}

    async def _wait_for_response(self, statement: "asyncio.Task[dict[str, Key]]") -> None:
        """Wait for the response to a statement; raise Unavailable once it is clear that none will come."""
        if not statement.done():
            await asyncio.wait((statement,), timeout=_PROBE_AFTER_SECONDS)
        if statement.done():
            return
        if not await self._database.responds() and not statement.done():
            raise _unresponsive()
        until = time.monotonic() + _RESPONSE_SECONDS
        if (await asyncio.wait((statement,), timeout=_RESPONSE_SECONDS))[0]:
            return
        if time.monotonic() > until + _LATE_SECONDS:
            raise LookupTimeout
        raise _unresponsive()


def _forward_result(done: "asyncio.Future[LookupResult]", earlier: "asyncio.Future[LookupResult]") -> None:
    if earlier.done():
        return
    if done.cancelled():
        earlier.cancel()
        return
    error = done.exception()
    if error is None:
        earlier.set_result(done.result())
    else:
        earlier.set_exception(clone_error(error) if isinstance(error, GatewayError) else error)


def _unresponsive() -> Unavailable:
    return Unavailable("The database does not respond.")
