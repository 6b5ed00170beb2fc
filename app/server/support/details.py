"""How the gateway does: its build, the servers that it needs, and what waits in the process that responds."""

import os
import platform
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final, Literal

from pydantic import BaseModel, Field
from redis.asyncio import Redis
from sqlalchemy import text

from app.core.errors import Overloaded, Unavailable
from app.server.health import DependencyState
from app.server.openapi_document import VERSION
from app.services import Services
from app.storage.redis import REDIS_ERRORS


class _ProcessStart:
    """When this process was started, or forked from one that had done its imports."""

    at = datetime.now(UTC)


def _note_start() -> None:
    _ProcessStart.at = datetime.now(UTC)


os.register_at_fork(after_in_child=_note_start)
_COUNTS: Final = text(
    "SELECT (SELECT count(*) FROM providers) AS providers, (SELECT count(*) FROM tools) AS tools,"
    " (SELECT count(*) FROM toolsets) AS toolsets,"
    " (SELECT count(*) FROM keys WHERE revoked_at IS NULL) AS keys,"
    " (SELECT count(*) FROM approvals WHERE state = 'pending') AS approvals_pending"
)


class BuildView(BaseModel):
    """What runs."""

    version: str
    python: str
    platform: str


class ProcessView(BaseModel):
    """The worker process that responded."""

    pid: int
    started_at: datetime
    workers: int = Field(description="Worker processes of this replica.")


class DatabaseView(BaseModel):
    """PostgreSQL, and the connections of this worker."""

    state: DependencyState
    version: str | None
    schema_revision: str | None = Field(description="The last migration.", examples=["0042"])
    connections_busy: int
    connections_idle: int
    connections_max: int


class RedisView(BaseModel):
    """Redis or Valkey."""

    state: DependencyState
    version: str | None


class DataKeyCount(BaseModel):
    """Data keys that a key of the ring wraps."""

    key_ring_id: str
    data_keys: int
    in_ring: bool


class KeyRingView(BaseModel):
    """The ids of the key ring; never a key."""

    ids: list[str] = Field(description="In their order: the first one wraps.")
    stored: list[DataKeyCount] = Field(
        description="Which of them wrap stored data keys: an id without any may leave the ring."
    )


class FeedView(BaseModel):
    """The change feed of this worker."""

    position: int = Field(description="The last change that it has read.")
    lag_seconds: float = Field(description="Seconds since it was known to be up to date.")


class CallRecordsView(BaseModel):
    """How calls are recorded."""

    mode: Literal["fast", "strict"]
    durable: bool = Field(description="Whether calls with effects are recorded before they are made.")
    waiting: int = Field(description="Records of this worker that are not stored yet.")
    dropped: int = Field(description="Records that this worker has dropped since its start.")
    bodies: Literal["off", "errors", "all"]


class SemanticSearchView(BaseModel):
    """Search by meaning."""

    state: str = Field(examples=["ready"])
    is_ready: bool
    encoded: int = Field(description="Tools that have a vector.")
    total: int


class CountsView(BaseModel):
    """How much is stored."""

    providers: int
    tools: int
    toolsets: int
    keys: int
    approvals_pending: int


class DetailsView(BaseModel):
    """The state of the gateway, as the worker that responded sees it."""

    build: BuildView
    process: ProcessView
    database: DatabaseView
    redis: RedisView
    key_ring: KeyRingView
    change_feed: FeedView
    call_records: CallRecordsView
    semantic_search: SemanticSearchView
    counts: CountsView | None = Field(description="null without PostgreSQL.")


async def read_details(services: Services) -> DetailsView:
    """Return the state of the gateway; what PostgreSQL or Redis do not say is None."""
    settings, status = services.settings, services.vectors.status
    busy, idle = services.database.connection_counts()
    database = DatabaseView(
        state="unavailable", version=None, schema_revision=None, connections_busy=busy,
        connections_idle=idle, connections_max=services.database.pool_size,
    )  # fmt: skip
    stored: list[DataKeyCount] = []
    counts = None
    with suppress(Unavailable, Overloaded, TimeoutError):
        async with services.database.read_session() as session:
            version = (await session.execute(text("SHOW server_version"))).scalar_one()
            revision = (await session.execute(text("SELECT version_num FROM alembic_version"))).scalar()
            by_id = text("SELECT kek_id, count(*) FROM data_keys GROUP BY kek_id ORDER BY kek_id")
            stored = [
                DataKeyCount(key_ring_id=row[0], data_keys=row[1], in_ring=row[0] in services.vault.ring)
                for row in await session.execute(by_id)
            ]
            counts = CountsView(**(await session.execute(_COUNTS)).mappings().one())
        database = database.model_copy(
            update={"state": "ok", "version": version, "schema_revision": revision}
        )
    return DetailsView(
        build=BuildView(version=VERSION, python=platform.python_version(), platform=platform.platform()),
        process=ProcessView(pid=os.getpid(), started_at=_ProcessStart.at, workers=settings.workers),
        database=database,
        redis=await _read_redis(services.redis),
        key_ring=KeyRingView(ids=list(services.vault.ring.ids), stored=stored),
        change_feed=FeedView(
            position=services.feed.position, lag_seconds=round(services.feed.lag_seconds(), 3)
        ),
        call_records=CallRecordsView(
            mode=settings.call_log_mode,
            durable=services.call_log.durable,
            waiting=len(services.call_log),
            dropped=services.call_log.dropped,
            bodies=settings.call_log_bodies,
        ),
        semantic_search=SemanticSearchView(
            state=status.state, is_ready=services.vectors.is_ready, encoded=status.encoded, total=status.total
        ),
        counts=counts,
    )


async def _read_redis(redis: Redis) -> RedisView:
    try:
        info = await redis.info("server")
    except REDIS_ERRORS:
        return RedisView(state="unavailable", version=None)
    valkey = info.get("valkey_version")
    return RedisView(state="ok", version=f"Valkey {valkey}" if valkey else str(info.get("redis_version")))
