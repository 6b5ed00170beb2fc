"""The strict mode: calls with effects are recorded in PostgreSQL before they are made.

The record of such a call is committed as `running` before the first byte is sent to the upstream, and its end
before the client has the whole response: two commits, shared by all calls in progress. Without PostgreSQL,
such calls are rejected; calls without effects are recorded as in the fast mode.

A call with an Idempotency-Key has its two records in the commits of its key (`app.calls.idempotency.table`).
"""

import asyncio

from asyncpg.exceptions import PostgresError

from app.calls.log.batch_writer import BatchCallLog
from app.calls.log.entries import RUNNING, CallLogEntry
from app.calls.log.store import STATEMENT, records_json
from app.core.errors import CallLogUnavailable, Overloaded
from app.storage.database.group_commit import CommitConnection, CommitQueue, DatabaseUnavailable

# The minimum timeout of a statement: a slow disk must not cause a reconnection.
_STATEMENT_SECONDS = 3.0


class StrictCallLog:
    """Commits records of calls with effects in groups; each call waits for its commit for at most
    `wait_seconds`.

    All other records go through `writer`, and so do ends of calls that could not be committed.
    """

    durable = True

    def __init__(self, writer: BatchCallLog, *, dsn: str, wait_seconds: float) -> None:
        self._writer = writer
        self._wait_seconds = wait_seconds
        seconds = max(wait_seconds, _STATEMENT_SECONDS)
        self._connection = CommitConnection(dsn, statement_timeout=seconds, purpose="call records")
        self.queue: CommitQueue[CallLogEntry, bool] = CommitQueue(self._commit, failed=False)
        """Records that wait for their commit."""

    def __len__(self) -> int:
        """Return the number of records that are not stored yet, without those that wait for a commit."""
        return len(self._writer)

    @property
    def dropped(self) -> int:
        """Records that were dropped, since the start."""
        return self._writer.dropped

    async def record_intent(self, entry: CallLogEntry) -> None:
        """Commit the record of a call that is about to be made, or raise CallLogUnavailable."""
        detail = "The call has side effects and cannot be recorded now. It was not made."
        try:
            waiting = self.queue.add(entry, max_wait=self._wait_seconds)
        except Overloaded as error:
            raise CallLogUnavailable(detail, retry_after=int(error.headers["Retry-After"])) from None
        try:
            if not await _result_in_time(waiting, seconds=self._wait_seconds):
                raise CallLogUnavailable(detail)
        finally:
            # A record whose call no longer waits for it is not sent.
            waiting.cancel()

    def record(self, entry: CallLogEntry) -> "asyncio.Future[bool] | None":
        """Record the end of a call; return a future to wait for where its beginning was recorded."""
        if entry.deadline is None:
            self._writer.record(entry)
            return None
        return self.queue.add(entry)

    async def wait_recorded(self, waiting: "asyncio.Future[bool]") -> None:
        """Wait for the record of a call's end; one that is not committed in time is stored later."""
        await _result_in_time(waiting, seconds=self._wait_seconds)

    async def flush(self) -> bool:
        """Store all queued records; return False when PostgreSQL is unavailable and they are still queued."""
        await self.queue.drain()
        return await self._writer.flush()

    async def start(self) -> None:
        """Start the background tasks."""
        await self._writer.start()
        await self._connection.open()

    async def aclose(self) -> None:
        """Commit the waiting records, then stop the background tasks and store the remaining records."""
        await self.queue.drain()
        await self._connection.aclose()
        await self._writer.aclose()

    async def _commit(self, entries: list[CallLogEntry]) -> list[bool]:
        is_stored = False
        try:
            is_stored = await self._store(entries)
        finally:
            if not is_stored:
                for entry in entries:
                    if entry.outcome != RUNNING:
                        self._writer.record(entry)
        return [is_stored] * len(entries)

    async def _store(self, entries: list[CallLogEntry]) -> bool:
        try:
            await self._connection.run(STATEMENT, records_json(entries))
        except DatabaseUnavailable:
            return False
        except PostgresError:
            # A partition was created meanwhile, or a row was rejected: this stores the others.
            return await self._writer.store.store(entries)
        return True


async def _result_in_time(future: "asyncio.Future[bool]", *, seconds: float) -> bool:
    """Return the result of a queued item; False when there is none in time."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done() and not future.cancelled() and future.result()
