"""The values of sessions."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final
from uuid import UUID

from app.security.secret import Secret

RECENT_SECONDS: Final = 300
"""For how long after the key was presented dangerous acts do not ask for it again."""
LINK_SECONDS: Final = 60
"""How long a sign-in link is valid."""
FIRST_LINK_SECONDS: Final = 600
"""How long the link of a gateway's first start is valid: who sees it may have to open a browser first."""


@dataclass(frozen=True, slots=True)
class Session:
    """A session of the console, with the rights of an API key. Times are aware, UTC.

    `authenticated_at` is when the key was last presented, `expires_at` when the session ends however much it
    is used.
    """

    key_id: str
    tenant_id: UUID
    created_at: datetime
    authenticated_at: datetime
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session that was just created: `text` is the value of its cookie, and is not stored."""

    text: Secret
    expires_at: datetime


@dataclass(frozen=True, slots=True)
class SessionPolicy:
    """Times in seconds: after how long without a request a session ends, and how long it lasts at most; for
    how long a cached session is used without reading it again, and while PostgreSQL is unavailable.
    `capacity` is the number of sessions that are cached.
    """

    idle_seconds: float = 43_200.0
    max_seconds: float = 604_800.0
    fresh_seconds: float = 60.0
    stale_seconds: float = 900.0
    capacity: int = 10_000
