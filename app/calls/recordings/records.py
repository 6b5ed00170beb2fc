"""The rows of recordings and their interactions, within a transaction of the caller."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import delete, func, select, update
from sqlalchemy import text as sql
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.core.errors import (
    Conflict,
    FieldError,
    Forbidden,
    InvalidInput,
    NotFound,
)
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.security.principal import Principal
from app.storage.models import TENANT, RecordedInteractionRow, RecordingRow, ReplayRunRow

MAX_RECORDINGS: Final = 1_000
"""At most so many recordings are stored."""
_ORDER: Final = Ordering(
    {
        "name": SortField(col(RecordingRow.name).collate("C"), "name", unique=True),
        "created_at": SortField(col(RecordingRow.created_at), "created_at", datetime),
        "updated_at": SortField(col(RecordingRow.updated_at), "updated_at", datetime),
        "used_at": SortField(col(RecordingRow.used_at), "used_at", datetime),
    },
    item_id=col(RecordingRow.id),
)
_INTERACTION_ORDER: Final = Ordering(
    {"recorded_at": SortField(col(RecordedInteractionRow.recorded_at), "recorded_at", datetime)},
    item_id=col(RecordedInteractionRow.id),
)
# The position is taken from the locked row of the recording, which also holds its limits, whichever worker
# records.
_TAKE_POSITION: Final = sql(
    "UPDATE recordings SET interactions = interactions + 1, bytes = bytes + :size,"
    " last_position = last_position + 1, used_at = now(), updated_at = now()"
    " WHERE id = :id AND interactions < :max_interactions AND bytes + :size <= :max_bytes"
    " RETURNING last_position, options"
)
_NEXT_OF_RUN: Final = sql(
    "INSERT INTO replay_runs (recording_id, run, digest, tenant_id, replayed, used_at)"
    " VALUES (:recording, :run, :digest, :tenant, 1, now())"
    " ON CONFLICT (recording_id, run, digest) DO UPDATE SET replayed = replay_runs.replayed + 1,"
    " used_at = now() RETURNING replayed"
)


async def find_recording(session: AsyncSession, name: str, *, lock: bool = False) -> RecordingRow | None:
    """Return a stored recording, None where there is none; with `lock`, until the end of the transaction."""
    query = select(RecordingRow).where(col(RecordingRow.tenant_id) == TENANT, col(RecordingRow.name) == name)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def require_recording(session: AsyncSession, name: str, *, lock: bool = False) -> RecordingRow:
    """Return a stored recording; raise NotFound."""
    row = await find_recording(session, name, lock=lock)
    if row is None:
        raise NotFound(
            f"There is no recording {name}.", hint="Check the spelling; GET /recordings has all names."
        )
    return row


async def read_page_of_recordings(
    session: AsyncSession, page: PageRequest, *, q: str | None
) -> Page[RecordingRow]:
    """Return a page of the recordings; raise InvalidInput for another list's cursor."""
    statement = select(RecordingRow).where(col(RecordingRow.tenant_id) == TENANT)
    if q is not None:
        statement = statement.where(contains(q, col(RecordingRow.name), col(RecordingRow.description)))
    return await read_page(session, statement, ordering=_ORDER, page=page)


async def read_page_of_interactions(
    session: AsyncSession, page: PageRequest, *, recording_id: UUID, tool: str | None, q: str | None
) -> Page[RecordedInteractionRow]:
    """Return a page of the interactions of a recording; raise InvalidInput for another list's cursor."""
    statement = select(RecordedInteractionRow).where(col(RecordedInteractionRow.recording_id) == recording_id)
    if tool is not None:
        statement = statement.where(col(RecordedInteractionRow.tool) == tool)
    if q is not None:
        statement = statement.where(contains(q, col(RecordedInteractionRow.tool)))
    return await read_page(session, statement, ordering=_INTERACTION_ORDER, page=page)


async def insert_recording(session: AsyncSession, row: RecordingRow) -> None:
    """Store a new recording; raise Conflict where there is one of this name, and InvalidInput where there are
    too many.
    """
    counted = select(func.count()).select_from(RecordingRow).where(col(RecordingRow.tenant_id) == TENANT)
    if (await session.execute(counted)).scalar_one() >= MAX_RECORDINGS:
        raise InvalidInput(
            f"There are {MAX_RECORDINGS:,} recordings already.", hint="Delete one that is not used."
        )
    values = {column.name: getattr(row, column.name) for column in RecordingRow.__table__.columns}  # type: ignore[attr-defined]
    statement = insert(RecordingRow).values(**values).on_conflict_do_nothing().returning(col(RecordingRow.id))
    if (await session.execute(statement)).scalar_one_or_none() is None:
        error = Conflict(
            f"There is a recording {row.name} already.", hint="Choose another name, or replace it with PUT."
        )
        error.errors = (FieldError("/name", "This name is taken."),)
        raise error


async def record_recording_change(
    session: AsyncSession, name: str, action: str, *, actor: str, detail: dict[str, Any] | None = None
) -> None:
    """Record the event of a change, and tell all workers."""
    await record_event(
        session,
        actor=actor,
        action=action,
        object_type="recording",
        object_name=name,
        detail=detail or {},
    )
    await record_change(session, kind="recording", object_id=name)


async def take_position(
    session: AsyncSession, recording_id: UUID, *, size: int, max_interactions: int, max_bytes: int
) -> tuple[int, dict[str, Any]] | None:
    """Return the position of a new interaction of `size` bytes, and the options of its recording; None where
    the recording is full or was deleted. Its row is locked until the end of the transaction.
    """
    values = {
        "id": recording_id, "size": size, "max_interactions": max_interactions, "max_bytes": max_bytes,
    }  # fmt: skip
    row = (await session.execute(_TAKE_POSITION, values)).one_or_none()
    return None if row is None else (row.last_position, row.options)


async def count_omitted(session: AsyncSession, recording_id: UUID) -> bool:
    """Count a response that was not stored; return whether the recording exists."""
    statement = (
        update(RecordingRow)
        .where(col(RecordingRow.id) == recording_id)
        .values(omitted=col(RecordingRow.omitted) + 1)
        .returning(col(RecordingRow.id))
    )
    return (await session.execute(statement)).scalar_one_or_none() is not None


async def find_interactions_of_request(
    session: AsyncSession, recording_id: UUID, digest: bytes
) -> list[UUID]:
    """Return the ids of the interactions of a request, in the order of recording."""
    query = (
        select(col(RecordedInteractionRow.id))
        .where(
            col(RecordedInteractionRow.recording_id) == recording_id,
            col(RecordedInteractionRow.digest) == digest,
        )
        .order_by(col(RecordedInteractionRow.position))
    )
    return list((await session.scalars(query)).all())


async def count_replay(session: AsyncSession, recording_id: UUID, run: str, digest: bytes) -> int:
    """Count a replay of a request in a run, and return how many it has had, this one included."""
    values = {"recording": recording_id, "run": run, "digest": digest, "tenant": TENANT}
    return int((await session.execute(_NEXT_OF_RUN, values)).scalar_one())


async def restart_run(session: AsyncSession, recording_id: UUID, run: str) -> None:
    """Let a run begin with the first response of each request again."""
    await session.execute(
        delete(ReplayRunRow).where(
            col(ReplayRunRow.recording_id) == recording_id, col(ReplayRunRow.run) == run
        )
    )


async def delete_interactions(session: AsyncSession, recording_id: UUID) -> None:
    """Delete all interactions of a recording, and its runs."""
    await session.execute(
        delete(RecordedInteractionRow).where(col(RecordedInteractionRow.recording_id) == recording_id)
    )
    await session.execute(delete(ReplayRunRow).where(col(ReplayRunRow.recording_id) == recording_id))


async def read_all_interactions(
    session: AsyncSession, recording_id: UUID
) -> Sequence[RecordedInteractionRow]:
    """Return all interactions of a recording in their order."""
    query = (
        select(RecordedInteractionRow)
        .where(col(RecordedInteractionRow.recording_id) == recording_id)
        .order_by(col(RecordedInteractionRow.position))
    )
    return (await session.scalars(query)).all()


def require_unrestricted(principal: Principal) -> None:
    """Raise Forbidden for a restricted key: recordings have arguments and responses of any tool."""
    if principal.is_restricted or principal.toolsets is not None:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: it may not use recordings.",
            hint="Use a key without restrictions that has the scope `recordings:read` or `recordings:write`.",
        )
