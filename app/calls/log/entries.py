"""The record of one call as the call path creates it, and the interface of the call log."""

from asyncio import Future
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, Protocol
from uuid import UUID

from app.core.upstream_mode import CallSource

Interface = Literal["rest", "utcp", "mcp", "tool-calls", "agent-test", "ubp", "approval", "console"]
"""The interface of the gateway by which a call came; `utcp` where a manual's call template was followed,
`approval` where it was made once another key had approved it.
"""
RUNNING: Final = "running"
"""The outcome of a call in the record that is stored before it is made."""
UNKNOWN: Final = "unknown"
"""The outcome of such a call whose end was never recorded, because its process ended before."""


@dataclass(slots=True)
class CallLogEntry:  # made at each call; a frozen one costs twice as much
    """The record of a call: key, tool, outcome, duration, sizes; bodies only where CALL_LOG_BODIES enables
    them.

    `id` is the UUIDv7 of the call (its `X-Call-Id`): records are paged by it, and storing one repeatedly has
    no further effect. `outcome` is `ok`, the slug of the error, or `running`; `duration_ms` is in
    milliseconds, `at` is aware UTC. `toolset` is the name of the toolset by whose address the call came, ""
    without one; `source` is what the response came from. `deadline`, aware UTC, is set where the call is
    recorded before it is made: in a durable mode, for a call with effects (`safe` is False). `arguments`,
    `result` and `evidence` are sealed.
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
    interface: Interface = "rest"
    toolset: str = ""
    source: CallSource = "upstream"
    deadline: datetime | None = None
    arguments: bytes | None = None
    result: bytes | None = None
    evidence: bytes | None = None


class CallLog(Protocol):
    """The call log in one of its modes: fast (`batch_writer`) or strict (`strict`)."""

    durable: bool
    """Whether calls with effects must be recorded by `record_intent` before they are made."""

    @property
    def dropped(self) -> int:
        """Records that were dropped, since the start."""

    def __len__(self) -> int:
        """Return the number of records that have not been stored yet."""

    async def record_intent(self, entry: CallLogEntry) -> None:
        """Store the record of a call that is about to be made; raise CallLogUnavailable when that fails."""

    def record(self, entry: CallLogEntry) -> "Future[bool] | None":
        """Record the end of a call; never raise.

        Return a future, if any, to be waited for by `wait_recorded` before the client has the whole response.
        """

    async def wait_recorded(self, waiting: "Future[bool]") -> None:
        """Wait until a record is stored, for a bounded time; raise nothing but CancelledError."""

    async def flush(self) -> bool:
        """Store all queued records; return False when PostgreSQL is unavailable and they are still queued."""

    async def start(self) -> None:
        """Start the background tasks."""

    async def aclose(self) -> None:
        """Stop the background tasks and store the remaining records, for a bounded time."""
