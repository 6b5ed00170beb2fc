"""The spool mode: records are on the local disk before the caller has its whole answer, and of calls with
effects before they are made; from there they come to PostgreSQL in the background.

Concurrent calls share one sync of the disk. What a process leaves behind when it is killed is stored by the
next one that looks into the folder.
"""

import asyncio
import contextlib
import dataclasses
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path
from typing import Any, TypeVar
from uuid import UUID

import orjson
import structlog

from app.audit.calls import CallWriter
from app.audit.durable import DurableRecorder
from app.audit.entries import CallEntry
from app.audit.spool_file import Numbered, SpoolFile, left_behind, new_file, put_aside, remove
from app.tasks import Reports, end_tasks, repeat

_log = structlog.get_logger(__name__)

_BATCH = 2_000
_DRAINING = Reports("the spool could not be stored")
_ADOPTING = Reports("what another process left behind could not be stored")
_ADOPT_SECONDS = 5.0
_LAST_DRAIN_SECONDS = 5.0
_FIELDS = tuple(field.name for field in dataclasses.fields(CallEntry))
_BINARY = ("arguments", "result")

Found = TypeVar("Found")


class SpoolRecorder(DurableRecorder):
    """Keeps records in a file of this process. When that fails, calls with effects are refused, and the
    records of all others go the way of the fast mode, through `writer`.
    """

    def __init__(
        self,
        writer: CallWriter,
        *,
        folder: Path,
        most_bytes: int,
        wait_seconds: float,
        drain_seconds: float = 0.5,
    ) -> None:
        super().__init__(writer, wait_seconds=wait_seconds)
        self._folder = folder
        self._most_bytes = most_bytes
        self._drain_seconds = drain_seconds
        self._spooled = 0
        self._file: SpoolFile | None = None
        self._failed = False
        self._turn = asyncio.Lock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="call-spool")
        self._tasks: list[asyncio.Task[None]] = []

    def __len__(self) -> int:
        """Records that are not in PostgreSQL yet; those in the file as they were counted last."""
        return self._spooled + len(self._writer)

    def record(self, entry: CallEntry) -> "asyncio.Future[bool]":
        """The end of a call."""
        return self._group.add(entry)

    async def flush(self) -> bool:
        """Stores what waits."""
        await self._group.settle()
        return await self._drain() and await self._writer.flush()

    async def start(self) -> None:
        """Opens a file, and starts to store what others left behind; OSError for an unusable folder."""
        try:
            self._file = await self._beside(self._opened)
        except sqlite3.Error as error:
            raise OSError(f"The spool {self._folder} cannot be used: {error.sqlite_errorname}.") from None
        await self._writer.start()
        self._tasks = [
            asyncio.create_task(
                repeat(self._drain, every=self._drain_seconds, reports=_DRAINING), name="call-spool"
            ),
            asyncio.create_task(
                repeat(self._adopt, every=_ADOPT_SECONDS, reports=_ADOPTING, at_once=True),
                name="call-spool-others",
            ),
        ]

    async def aclose(self) -> None:
        """Stores what is left, for at most five seconds; the file keeps the rest for the next start."""
        await self._group.settle()
        await end_tasks(self._tasks)
        empty = False
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_LAST_DRAIN_SECONDS):
                empty = await self._drain()
        file, self._file = self._file, None
        if file is not None:
            await self._beside(*((remove, file) if empty else (file.close,)))
        self._thread.shutdown()
        await self._writer.aclose()

    async def _beside(self, work: Callable[..., Found], *arguments: Any) -> Found:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work, *arguments)

    async def _keep(self, entries: list[CallEntry]) -> bool:
        kept = False
        try:
            await self._beside(self._append, [encode(entry) for entry in entries])
            kept = True
        except (sqlite3.Error, OSError) as error:
            if not self._failed:
                reason = getattr(error, "sqlite_errorname", type(error).__name__)
                _log.error("the spool cannot be written", reason=reason, refused="calls with effects")
        finally:
            self._failed = not kept
        return kept

    def _opened(self) -> SpoolFile:
        return new_file(self._folder, most_bytes=self._most_bytes)

    def _append(self, records: list[bytes]) -> None:
        if self._file is None:
            self._file = self._opened()
        try:
            self._file.append(records)
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                # After a failed sync nobody knows what the disk holds: it is left to be read by whoever can.
                self._file.close()
                self._file = None
            raise

    async def _drain(self) -> bool:
        """Stores what this process's file holds; False when PostgreSQL is away."""
        async with self._turn:
            file = self._file
            return file is None or await self._emptied(file, ours=True)

    async def _emptied(self, file: SpoolFile, *, ours: bool = False) -> bool:
        while rows := await self._beside(file.read, _BATCH):
            if not await self._writer.store.store(self._decoded(rows)):
                return False
            last = rows[-1][0]
            left = await self._beside(file.forget, last)
            if ours:
                self._spooled = left
        return True

    def _decoded(self, rows: list[Numbered]) -> list[CallEntry]:
        entries = []
        for _, record in rows:
            try:
                entries.append(decode(record))
            except (ValueError, TypeError, KeyError):
                _log.error("a record of the spool cannot be read")
                self._writer.store.lose(1)
        return entries

    async def _adopt(self) -> None:
        """Stores the files of processes that have ended; one at a time, as long as PostgreSQL takes them."""
        ours = self._file.path if self._file is not None else None
        while file := await self._beside(left_behind, self._folder, ours):
            done = False
            try:
                done = await self._emptied(file)
            except sqlite3.DatabaseError as error:
                if isinstance(error, sqlite3.OperationalError):
                    raise
                await self._beside(put_aside, file.path)
            finally:
                await self._beside(*((remove, file) if done else (file.close,)))
            if done:
                _log.info("stored what another process left behind", file=file.path.name)
            else:
                return


def encode(entry: CallEntry) -> bytes:
    """A record as JSON; sealed bodies as hexadecimal digits."""
    fields: dict[str, Any] = {name: getattr(entry, name) for name in _FIELDS}
    for name in _BINARY:
        if fields[name] is not None:
            fields[name] = fields[name].hex()
    for name in ("key_id", "provider", "tool", "outcome"):
        fields[name] = fields[name].encode("utf-8", "replace").decode()
    # The ids that asyncpg reads are of a class of its own.
    return orjson.dumps(fields, default=str)


def decode(record: bytes) -> CallEntry:
    """The record again; fields of later releases are left out. Raises ValueError, TypeError, KeyError."""
    fields = {name: value for name, value in orjson.loads(record).items() if name in _FIELDS}
    for name in ("id", "tenant_id"):
        fields[name] = UUID(fields[name])
    for name in ("at", "deadline"):
        if fields.get(name) is not None:
            fields[name] = datetime.fromisoformat(fields[name])
    for name in _BINARY:
        if fields.get(name) is not None:
            fields[name] = bytes.fromhex(fields[name])
    return CallEntry(**fields)
