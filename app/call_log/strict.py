"""The strict mode: calls with effects are on record in PostgreSQL before they are made.

The record of such a call is committed as `running` before the first byte goes to the upstream, and its end
before the caller has the whole answer: two commits, shared by all calls under way. Without PostgreSQL these
calls are refused; calls without effects are recorded as in the fast mode.

A call with an Idempotency-Key has its two records in the commits of its key (`app.calls.idempotency_table`).
"""

import asyncio

from asyncpg.exceptions import PostgresError

from app.call_log.batch_writer import CallWriter
from app.call_log.entries import RUNNING, CallEntry
from app.call_log.store import STATEMENT, columns
from app.database.commits import CommitConnection, CommitQueue, DatabaseAway
from app.errors import AuditUnavailable, Overloaded

# So long a statement may take at least: a slow disk is no reason to connect anew.
_STATEMENT_SECONDS = 3.0


class StrictRecorder:
    """Calls with effects are committed in groups, each waited for by its call for at most `wait_seconds`; all
    others go through `writer`, and so do ends that cannot be committed.
    """

    durable = True

    def __init__(self, writer: CallWriter, *, dsn: str, wait_seconds: float) -> None:
        self._writer = writer
        self._wait_seconds = wait_seconds
        seconds = max(wait_seconds, _STATEMENT_SECONDS)
        self._connection = CommitConnection(dsn, seconds=seconds, purpose="call records")
        self.queue: CommitQueue[CallEntry, bool] = CommitQueue(self._commit, failed=False)
        """Records that wait for their commit."""

    def __len__(self) -> int:
        """Records that are not stored yet."""
        return len(self._writer)

    @property
    def lost(self) -> int:
        """Records that were dropped, since the start."""
        return self._writer.lost

    async def intend(self, entry: CallEntry) -> None:
        """Keeps the record of a call that is about to be made, or raises AuditUnavailable."""
        why = "The call has effects and cannot be put on record now. It was not made."
        try:
            waiting = self.queue.add(entry, seconds=self._wait_seconds)
        except Overloaded as error:
            raise AuditUnavailable(why, retry_after=int(error.headers["Retry-After"])) from None
        try:
            if not await _decided(waiting, seconds=self._wait_seconds):
                raise AuditUnavailable(why)
        finally:
            # A record that nobody waits for any more is not sent.
            waiting.cancel()

    def record(self, entry: CallEntry) -> "asyncio.Future[bool] | None":
        """The end of a call; waited for where its beginning is on record."""
        if entry.deadline is None:
            self._writer.record(entry)
            return None
        return self.queue.add(entry)

    async def kept(self, waiting: "asyncio.Future[bool]") -> None:
        """Waits for the record of a call's end; one that is not kept in time waits with the others."""
        await _decided(waiting, seconds=self._wait_seconds)

    async def flush(self) -> bool:
        """Stores what waits."""
        await self.queue.settle()
        return await self._writer.flush()

    async def start(self) -> None:
        """Starts the background tasks."""
        await self._writer.start()
        await self._connection.open()

    async def aclose(self) -> None:
        """Commits what is under way, then stores what is left."""
        await self.queue.settle()
        await self._connection.aclose()
        await self._writer.aclose()

    async def _commit(self, entries: list[CallEntry]) -> list[bool]:
        kept = False
        try:
            kept = await self._keep(entries)
        finally:
            if not kept:
                for entry in entries:
                    if entry.outcome != RUNNING:
                        self._writer.record(entry)
        return [kept] * len(entries)

    async def _keep(self, entries: list[CallEntry]) -> bool:
        try:
            await self._connection.run(STATEMENT, *columns(entries).values())
        except DatabaseAway:
            return False
        except PostgresError:
            # A partition that was made meanwhile, or a row that is refused: that is looked into row by row.
            return await self._writer.store.store(entries)
        return True


async def _decided(future: "asyncio.Future[bool]", *, seconds: float) -> bool:
    """The result of an item of a queue; False when there is none in time."""
    if not future.done():
        await asyncio.wait((future,), timeout=seconds)
    return future.done() and not future.cancelled() and future.result()
