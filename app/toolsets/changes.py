"""Changes of stored toolsets, within a transaction of the caller."""

from typing import Final

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.core.errors import Conflict, FieldError, Forbidden, InvalidInput
from app.security.principal import Principal
from app.storage.models import TENANT, ToolsetRow
from app.toolsets.definition import StoredDefinition, ToolsetDefinition

MAX_TOOLSETS: Final = 1_000
"""At most so many toolsets are stored: each worker has all of them in memory."""


def require_unrestricted(principal: Principal) -> None:
    """Raise Forbidden for a restricted key: a toolset has effects for keys that see more than it does."""
    if principal.is_restricted:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: it may not change toolsets.",
            hint="Use a key without restrictions that has the scope `providers:write`.",
        )


async def find_toolset(session: AsyncSession, name: str, *, lock: bool = False) -> ToolsetRow | None:
    """Return a stored toolset, None where there is none; with `lock`, until the end of the transaction."""
    query = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT, col(ToolsetRow.name) == name)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def insert_toolset(
    session: AsyncSession,
    name: str,
    definition: StoredDefinition,
    *,
    title: str,
    description: str,
    principal: Principal,
) -> None:
    """Store a new toolset; raise Conflict where there is one of this name, and InvalidInput where there are
    too many.
    """
    counted = select(func.count()).select_from(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
    if (await session.execute(counted)).scalar_one() >= MAX_TOOLSETS:
        raise InvalidInput(
            f"There are {MAX_TOOLSETS:,} toolsets already.", hint="Delete one that is not used."
        )
    row = ToolsetRow(
        name=name, title=title, description=description, definition=definition.model_dump(mode="json")
    )
    values = {column.name: getattr(row, column.name) for column in ToolsetRow.__table__.columns}  # type: ignore[attr-defined]
    statement = insert(ToolsetRow).values(**values).on_conflict_do_nothing().returning(col(ToolsetRow.id))
    if (await session.execute(statement)).scalar_one_or_none() is None:
        raise name_taken(name)
    await record_toolset_change(session, name, "created", principal)


async def record_toolset_change(session: AsyncSession, name: str, action: str, principal: Principal) -> None:
    """Record the event of a change, and tell all workers."""
    await record_event(
        session, actor=principal.key_id, action=action, object_type="toolset", object_name=name
    )
    await record_change(session, kind="toolset", object_id=name)


def name_taken(name: str) -> Conflict:
    """Return the error for the name of a toolset that exists."""
    error = Conflict(
        f"There is a toolset {name} already.", hint="Choose another name, or replace it with PUT."
    )
    error.errors = (FieldError("/name", "This name is taken."),)
    return error


def stored_definition(row: ToolsetRow) -> ToolsetDefinition:
    """Return the definition of a stored toolset as it was given."""
    members = {
        name: value for name, value in row.definition.items() if name in ToolsetDefinition.model_fields
    }
    return ToolsetDefinition.model_validate(members)
