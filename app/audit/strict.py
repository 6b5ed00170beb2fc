"""The strict mode: calls with effects are on record in PostgreSQL before they are made.

The record of such a call is committed as `running` before the first byte goes to the upstream, and its end
before the caller has the whole answer: two commits, shared by all calls under way. Without PostgreSQL these
calls are refused; calls without effects are recorded as in the fast mode.
"""

import asyncio
from collections.abc import Sequence
from typing import Any

import asyncpg
import structlog
from asyncpg.exceptions import InterfaceError, InternalClientError, PostgresError

from app.audit.calls import CallWriter
from app.audit.durable import DurableRecorder
from app.audit.entries import CallEntry
from app.audit.storing import STATEMENT, columns
from app.database import asyncpg_dsn
from app.tasks import end_tasks

_log = structlog.get_logger(__name__)

# Classes of SQLSTATE: connection, read-only or ended transaction (a server that is no primary any more), no
# resources, operator intervention, system error.
_AWAY = ("08", "25", "53", "57", "58")
# The last one: no server of a list takes writes, or the connection is in no state to be used.
_BROKEN = (OSError, TimeoutError, InterfaceError, InternalClientError)
_CONNECT_SECONDS = 5.0
_FIRST_PAUSE, _LONGEST_PAUSE = 0.1, 1.0


class _Away(Exception):
    """PostgreSQL cannot be written to."""


class Ledger:
    """One connection that commits batches as soon as they come.

    A statement outside of a transaction is one round trip; a session of the pool begins with one more, and
    makes objects. While PostgreSQL is
    away, `write` says so at once, and a task connects again.
    """

    def __init__(self, dsn: str, *, wait_seconds: float) -> None:
        self._dsn = asyncpg_dsn(dsn)
        # A batch that waits for one under way must be through in time as well, each with one more try.
        self._try_seconds = wait_seconds / 4
        self._connection: Any = None
        self._tasks: list[asyncio.Task[None]] = []

    async def open(self) -> None:
        """Connects, so that the first call need not; without PostgreSQL it goes on trying."""
        try:
            await self._connect(_CONNECT_SECONDS)
        except _Away:
            self._tasks.append(asyncio.create_task(self._reconnect(), name="call-ledger"))

    async def write(self, entries: Sequence[CallEntry]) -> bool:
        """Whether they are committed; False when PostgreSQL is away, PostgresError when it refuses a row."""
        if self._tasks:
            return False
        for _ in range(2):
            # A connection may have ended while nobody looked, and another server may be there at once.
            try:
                await self._send(entries)
            except _Away:
                self._drop()
            else:
                return True
        self._tasks.append(asyncio.create_task(self._reconnect(), name="call-ledger"))
        return False

    async def aclose(self) -> None:
        """Ends the connection."""
        await end_tasks(self._tasks)
        self._drop()

    async def _send(self, entries: Sequence[CallEntry]) -> None:
        try:
            async with asyncio.timeout(self._try_seconds):
                connection = self._connection or await self._connect(self._try_seconds)
                await connection.execute(STATEMENT, *columns(entries).values())
        except _BROKEN as error:
            raise _Away from error
        except PostgresError as error:
            if str(getattr(error, "sqlstate", None)).startswith(_AWAY):
                raise _Away from error
            raise

    async def _connect(self, seconds: float) -> Any:
        """Raises _Away, whatever the server says: it may have forgotten the database or the password."""
        settings = {"application_name": "utcp-gateway", "synchronous_commit": "on"}
        try:
            self._connection = await asyncpg.connect(  # type: ignore[no-untyped-call]
                self._dsn, timeout=seconds, server_settings=settings, target_session_attrs="read-write"
            )
        except (*_BROKEN, PostgresError) as error:
            raise _Away from error
        return self._connection

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.terminate()
            self._connection = None

    async def _reconnect(self) -> None:
        _log.warning("calls with effects are refused: PostgreSQL cannot record them")
        pause = _FIRST_PAUSE
        while True:
            try:
                await self._connect(_CONNECT_SECONDS)
                break
            except _Away:
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        _log.info("calls with effects are recorded again")
        self._tasks.clear()


class StrictRecorder(DurableRecorder):
    """Calls with effects go through the ledger, all others through `writer`."""

    def __init__(self, writer: CallWriter, *, dsn: str, wait_seconds: float) -> None:
        super().__init__(writer, wait_seconds=wait_seconds)
        self._ledger = Ledger(dsn, wait_seconds=wait_seconds)

    def __len__(self) -> int:
        """Records that are not stored yet."""
        return len(self._writer)

    def record(self, entry: CallEntry) -> "asyncio.Future[bool] | None":
        """The end of a call; waited for where its beginning is on record."""
        if entry.deadline is None:
            self._writer.record(entry)
            return None
        return self._group.add(entry)

    async def flush(self) -> bool:
        """Stores what waits."""
        await self._group.settle()
        return await self._writer.flush()

    async def start(self) -> None:
        """Starts the background tasks."""
        await self._writer.start()
        await self._ledger.open()

    async def aclose(self) -> None:
        """Commits what is under way, then stores what is left."""
        await self._group.settle()
        await self._ledger.aclose()
        await self._writer.aclose()

    async def _keep(self, entries: list[CallEntry]) -> bool:
        try:
            return await self._ledger.write(entries)
        except PostgresError:
            # A partition that was made meanwhile, or a row that is refused: that is looked into row by row.
            return await self._writer.store.store(entries)
