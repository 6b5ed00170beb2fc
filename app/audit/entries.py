"""The record of one call, as the call path makes it (no tables in here)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(slots=True)
class CallEntry:  # made at each call; a frozen one costs twice as much
    """Who called what, and how it went; never arguments or results.

    `id` is the UUIDv7 of the call (its `X-Call-Id`): records are paged by it, and stored once however often
    they are sent. `outcome` is `ok` or the slug of the error, `duration_ms` milliseconds, `at` aware UTC.
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
