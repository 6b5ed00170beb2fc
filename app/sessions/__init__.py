"""Sessions of the console (placeholder of the interface)."""

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID


@dataclass(frozen=True, slots=True)
class Session:
    """A session: somebody who signed in with an API key."""

    key_id: str
    tenant_id: UUID
    created_at: datetime
    authenticated_at: datetime
    expires_at: datetime
