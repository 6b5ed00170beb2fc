"""What the modes that promise a record have in common: a call waits until its record is kept."""

import asyncio
from abc import ABC, abstractmethod

from app.audit.calls import CallWriter
from app.audit.entries import RUNNING, CallEntry
from app.audit.group import GroupCommit, decided
from app.errors import AuditUnavailable


class DurableRecorder(ABC):
    """Records that are kept in groups, each waited for by its call for at most `wait_seconds`.

    The ends of calls that cannot be kept go the way of the fast mode, through `writer`; beginnings do not.
    """

    durable = True

    def __init__(self, writer: CallWriter, *, wait_seconds: float) -> None:
        self._writer = writer
        self._wait_seconds = wait_seconds
        self._group = GroupCommit(self._commit)

    @property
    def lost(self) -> int:
        """Records that were dropped, since the start."""
        return self._writer.lost

    async def intend(self, entry: CallEntry) -> None:
        """Keeps the record of a call that is about to be made, or raises AuditUnavailable."""
        if not await decided(self._group.add(entry), seconds=self._wait_seconds):
            raise AuditUnavailable("The call has effects and cannot be put on record now. It was not made.")

    async def kept(self, waiting: "asyncio.Future[bool]") -> None:
        """Waits for the record of a call's end; one that is not kept in time waits with the others."""
        await decided(waiting, seconds=self._wait_seconds)

    @abstractmethod
    async def _keep(self, entries: list[CallEntry]) -> bool:
        """Whether all of them are kept."""

    async def _commit(self, entries: list[CallEntry]) -> bool:
        kept = False
        try:
            kept = await self._keep(entries)
        finally:
            if not kept:
                for entry in entries:
                    if entry.outcome != RUNNING:
                        self._writer.record(entry)
        return kept
