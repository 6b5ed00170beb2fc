"""When credentials were last sent: noted in memory at each call, and stored once a minute."""

import asyncio
import contextlib
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final
from uuid import UUID

from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.core.background import LoopMessages, run_periodically
from app.core.errors import Unavailable
from app.storage.database import Database

_FLUSH_SECONDS: Final = 60.0
_CLOSE_SECONDS: Final = 3.0
_FLUSHING: Final = LoopMessages(
    unavailable="the times of last use of credentials are stored later: the database is unavailable",
    failed="the times of last use of credentials could not be stored",
)
# Locked in the same order everywhere: two workers that update the same credentials must not deadlock.
_LOCK: Final = text("SELECT id FROM credentials WHERE id = ANY(CAST(:ids AS uuid[])) ORDER BY id FOR UPDATE")
# What was stored after the use is another secret.
_SET_LAST_USED: Final = text(
    "UPDATE credentials SET last_used_at = greatest(coalesce(last_used_at, used.at), used.at)"
    " FROM unnest(CAST(:ids AS uuid[]), CAST(:moments AS timestamptz[])) AS used(id, at)"
    " WHERE credentials.id = used.id AND used.at >= credentials.updated_at"
)


class CredentialUses:
    """Stores when each credential was last sent; the resolver of credentials notes it in `used_at`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self.used_at: dict[UUID, float] = {}
        """When each credential was last sent, in seconds since the epoch; ids that are not stored are
        ignored.
        """
        self._flusher: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Start the task that stores the times once a minute."""
        flushing = run_periodically(self.flush, interval=_FLUSH_SECONDS, messages=_FLUSHING)
        self._flusher = asyncio.create_task(flushing, name="credentials-last-used")

    async def aclose(self) -> None:
        """Stop the task, and store the times."""
        if self._flusher is not None:
            self._flusher.cancel()
            await asyncio.gather(self._flusher, return_exceptions=True)
        with contextlib.suppress(Unavailable, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self.flush()

    async def flush(self) -> None:
        """Store the times; after an error, they are stored by the next flush."""
        await self._database.store_noted(self.used_at, _record_last_used)


async def _record_last_used(session: AsyncSession, used: Mapping[UUID, float]) -> None:
    ids = sorted(used)
    moments = [datetime.fromtimestamp(used[one], UTC) for one in ids]
    await session.execute(_LOCK, {"ids": ids})
    await session.execute(_SET_LAST_USED, {"ids": ids, "moments": moments})
