"""Reports the API keys that expire soon: a number for the metrics, and a warning in the log once a day."""

import asyncio
import time
from datetime import timedelta
from typing import Final

import structlog

from app.access.repository import expiring_keys
from app.core.background import LoopMessages, cancel_tasks, run_periodically
from app.storage.database import Database
from app.storage.redis import RedisClient

_log = structlog.get_logger(__name__)

_INTERVAL_SECONDS: Final = 300.0
_DAY_SECONDS: Final = 86_400
_MAX_NAMED: Final = 20
_REPORTED: Final = "utcp-gateway:key-expiry-reported"
_MESSAGES: Final = LoopMessages(
    unavailable="API keys that expire soon are counted later: the database is unavailable",
    failed="API keys that expire soon could not be counted",
)


class KeyExpiryMonitor:
    """Counts the valid keys that expire `within` this time, every five minutes; one per worker.

    One worker of all replicas writes the warning of a day, as long as Redis is available; without it, each.
    """

    def __init__(self, database: Database, redis_client: RedisClient, *, within: timedelta) -> None:
        self._database = database
        self._redis_client = redis_client
        self._within = within
        self._reported_at = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []
        self.expiring = 0
        """The number of valid keys that expired within that time when they were last counted."""

    async def start(self) -> None:
        """Count the keys now, and start the task that counts them again."""
        loop = run_periodically(
            self.check, interval=_INTERVAL_SECONDS, messages=_MESSAGES, run_immediately=True
        )
        self._tasks = [asyncio.create_task(loop, name="key-expiry")]

    async def aclose(self) -> None:
        """Stop the task."""
        await cancel_tasks(self._tasks)

    async def check(self) -> None:
        """Count the keys; where there are some, warn in the log unless that was done within a day.

        Raise Unavailable where the database is unavailable.
        """
        async with self._database.read_session() as session:
            self.expiring, first = await expiring_keys(session, within=self._within, limit=_MAX_NAMED)
        if not self.expiring or not await self._is_due():
            return
        _log.warning(
            "API keys expire soon: rotate them with POST /keys/{key_id}/rotate",
            count=self.expiring,
            within_days=self._within.days,
            keys=[
                {"id": row.key_id, "name": row.name, "owner": row.owner, "expires_at": str(row.expires_at)}
                for row in first
            ],
        )

    async def _is_due(self) -> bool:
        """Return whether this worker is to warn now, and remember it for a day, in Redis for all workers."""
        now = time.monotonic()
        if now - self._reported_at < _DAY_SECONDS:
            return False
        self._reported_at = now
        client = self._redis_client.available_client()
        if client is not None:
            with self._redis_client:
                return bool(await client.set(_REPORTED, b"1", nx=True, ex=_DAY_SECONDS))
        return True
