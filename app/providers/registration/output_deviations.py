"""Results that deviate from the published output schema of their tool: counted, and the schema withdrawn.

Clients of MCP reject a result that is not valid for the listed schema, and upstreams deviate from their
documents; so a schema that describes them wrongly is published no longer after some deviations.
"""

import asyncio
import hashlib
from typing import Final
from uuid import UUID

import structlog
from sqlalchemy import Text, cast, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.feed import ChangeFeed
from app.catalog.tools import tool_select
from app.core.background import TaskSet
from app.core.errors import GatewayError
from app.providers.registration.overrides import forget_deviations, store_overrides
from app.providers.registration.tool_history import ToolHistoryWriter
from app.storage.database import Database
from app.storage.models import Override, Tool, now

_log = structlog.get_logger(__name__)

MAX_DEVIATIONS: Final = 3
"""The number of deviating results after which an output schema is withdrawn."""
_ACTOR: Final = "gateway"
_CLOSE_SECONDS: Final = 5.0
_NOT_COUNTED: Final = "deviations from an output schema were not counted"


class OutputDeviations:
    """Counts the deviations that this worker reports, and withdraws output schemas.

    The count of a tool is in its override, which all workers change under the lock of the tool's row: each
    deviation counts once. It begins anew when the schema is published again, and when it changes.
    `observed` is the number of deviations that were reported, `withdrawn` that of schemas withdrawn by this
    worker. `max_history` is the maximum number of entries of a tool's history.
    """

    def __init__(self, database: Database, feed: ChangeFeed, *, max_history: int) -> None:
        self._database = database
        self._feed = feed
        self._history = ToolHistoryWriter(_ACTOR, max_history)
        self._pending: dict[tuple[UUID, str], int] = {}
        self._tasks = TaskSet()
        self._task: asyncio.Task[None] | None = None
        self.observed = 0
        self.withdrawn = 0

    def report(self, tool_id: UUID, outputs_json: bytes) -> None:
        """Count one result of a tool that deviates from its output schema, which is `outputs_json` in the
        form of PostgreSQL, in the background.
        """
        self.observed += 1
        key = (tool_id, hashlib.sha256(outputs_json).hexdigest())
        self._pending[key] = self._pending.get(key, 0) + 1
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._store_pending(), name="output-deviations")
            self._tasks.add(self._task)

    async def flush(self) -> None:
        """Wait until the deviations that were reported so far are counted."""
        if self._task is not None:
            await asyncio.wait([self._task])

    async def aclose(self) -> None:
        """Count what was reported, for at most five seconds."""
        await self._tasks.aclose(timeout=_CLOSE_SECONDS)

    async def _store_pending(self) -> None:
        while self._pending:
            (tool_id, digest), number = self._pending.popitem()
            try:
                await self._store(tool_id, digest, number)
            except GatewayError as error:
                # Not repeated: after a commit whose response was lost, they would count twice.
                _log.warning(_NOT_COUNTED, number=number, reason=error.detail)
            except Exception:  # noqa: BLE001 - the others are counted.
                _log.exception(_NOT_COUNTED, number=number)

    async def _store(self, tool_id: UUID, digest: str, number: int) -> None:
        """Count deviations from the schema of this digest; too many withdraw it. Raise GatewayError."""
        name = await self._count(tool_id, digest, number)
        if name is None:
            return
        self.withdrawn += 1
        _log.warning(
            "an output schema was withdrawn, because results deviated from it: PATCH /tools/{name} publishes "
            "it again",
            tool=name,
            deviations=MAX_DEVIATIONS,
        )
        await self._feed.catch_up()

    async def _count(self, tool_id: UUID, digest: str, number: int) -> str | None:
        """Count deviations from the schema of this digest; return the name of the tool where that withdrew
        the schema, else None.
        """
        async with self._database.transaction() as session:
            locked = select(col(Tool.name)).where(col(Tool.id) == tool_id).with_for_update()
            name = (await session.execute(locked)).scalar_one_or_none()
            override = await session.get(Override, tool_id)
            if name is None or override is None or not override.publish_output_schema:
                return None
            if await _read_schema_digest(session, tool_id) != digest:
                return None
            if override.deviations_schema != digest or override.output_schema_withdrawn_at is not None:
                # The schema has changed, or a worker of an earlier release published it again.
                forget_deviations(override)
            override.deviations_schema = digest
            override.output_deviations += number
            session.add(override)
            if override.output_deviations < MAX_DEVIATIONS:
                return None
            override.output_schema_withdrawn_at = now()
            changes = {tool_id: {"publish_output_schema": False}}
            await store_overrides(session, changes, history=self._history)
            return str(name)


async def _read_schema_digest(session: AsyncSession, tool_id: UUID) -> str:
    """Return the digest of the output schema that agents see now."""
    statement = tool_select()
    outputs = cast(statement.selected_columns["outputs"], Text)
    query = statement.with_only_columns(outputs).where(col(Tool.id) == tool_id)
    return hashlib.sha256((await session.execute(query)).scalar_one().encode()).hexdigest()
