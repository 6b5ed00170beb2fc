"""The record of one call, as the call path makes it, and what keeps such records (no tables in here)."""

from asyncio import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Protocol
from uuid import UUID

RUNNING: Final = "running"
"""The outcome of a call that is put on record before it is made."""
UNKNOWN: Final = "unknown"
"""The outcome of one whose end was never recorded: its process was lost between the two."""


@dataclass(slots=True)
class CallEntry:  # made at each call; a frozen one costs twice as much
    """Who called what, and how it went; arguments and results only where a setting asks for them.

    `id` is the UUIDv7 of the call (its `X-Call-Id`): records are paged by it, and stored once however often
    they are sent. `outcome` is `ok`, the slug of the error, or `running`; `duration_ms` milliseconds, `at`
    aware UTC. `deadline`, aware UTC, is set where the call was put on record before it was made: one with
    effects (`safe` is False) in a durable mode. `arguments` and `result` are sealed.
    """

    id: UUID
    at: datetime
    tenant_id: UUID
    key_id: str
    provider: str
    tool: str
    outcome: str
    status: int
    duration_ms: float
    upstream_status: int | None = None
    request_bytes: int = 0
    response_bytes: int = 0
    attempts: int = 0
    safe: bool | None = None
    deadline: datetime | None = None
    arguments: bytes | None = None
    result: bytes | None = None


class Recorder(Protocol):
    """A mode of the audit: `calls.CallWriter` (fast) or `strict.StrictRecorder`."""

    durable: bool
    """Whether calls with effects must be put on record by `intend` before they are made."""

    @property
    def lost(self) -> int:
        """Records that were dropped, since the start."""

    def __len__(self) -> int:
        """Records that are not stored yet."""

    async def intend(self, entry: CallEntry) -> None:
        """Keep the record of a call that is about to be made; raises AuditUnavailable when that fails."""

    def record(self, entry: CallEntry) -> "Future[bool] | None":
        """Take the record of a call that has ended; never raises.

        What it gives, if anything, is to be waited for (`kept`) before the caller has its whole answer.
        """

    async def kept(self, waiting: "Future[bool]") -> None:
        """Wait until a record is kept, for a bounded time; never raises but when it is cancelled."""

    async def flush(self) -> bool:
        """Store all records that wait now; False when PostgreSQL is away and they still wait."""

    async def start(self) -> None:
        """Start the background tasks."""

    async def aclose(self) -> None:
        """Stop them and stores what is left, for a bounded time."""
