"""The rows of synonyms and pinned results, within a transaction of the caller."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, TypeVar
from uuid import UUID

from sqlalchemy import Select, func, or_, select
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import is_enabled, tool_select
from app.core.errors import FieldError, InvalidInput, NotFound
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.storage.models import (
    TENANT,
    PinnedResultRow,
    SynonymSetRow,
    Tool,
    ToolsetRow,
)

RowT = TypeVar("RowT", SynonymSetRow, PinnedResultRow)

# Changes are rare; one at a time, so that neither bounds nor uniqueness depend on the order of commits.
_LOCK: Final = sql("SELECT pg_advisory_xact_lock(7238)")
OBJECT_TYPES: Final[Mapping[type[Any], str]] = {
    SynonymSetRow: "search synonyms",
    PinnedResultRow: "search pin",
}
"""What events call the objects of each table."""


@dataclass(frozen=True, slots=True)
class NamedTool:
    """An enabled tool that was found by one of its names: its id and its canonical name."""

    id: UUID
    tool: str


async def lock_words(session: AsyncSession) -> None:
    """Wait until no other transaction changes synonyms or pinned results."""
    await session.execute(_LOCK)


async def find_row(session: AsyncSession, kind: type[RowT], row_id: UUID) -> RowT:
    """Return a stored row; raise NotFound."""
    query = select(kind).where(col(kind.tenant_id) == TENANT, col(kind.id) == row_id)
    row = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        what = "set of synonyms" if kind is SynonymSetRow else "pinned result"
        raise NotFound(f"There is no {what} {row_id}.", hint="Check the id; its list has all of them.")
    return row


async def find_equal(
    session: AsyncSession, kind: type[RowT], toolset: str | None, digest: bytes
) -> RowT | None:
    """Return the row of the same words in the same scope; None where there is none."""
    query = select(kind).where(
        col(kind.tenant_id) == TENANT,
        col(kind.toolset).is_not_distinct_from(toolset),
        col(kind.digest) == digest,
    )
    return (await session.execute(query)).scalar_one_or_none()


async def count_rows(session: AsyncSession, kind: type[RowT]) -> int:
    """Return the number of rows, those of toolsets included."""
    counted = select(func.count()).select_from(kind).where(col(kind.tenant_id) == TENANT)
    return int((await session.execute(counted)).scalar_one())


async def list_rows(session: AsyncSession, kind: type[RowT]) -> Sequence[RowT]:
    """Return all rows, the oldest first."""
    return (await session.scalars(_sort_rows(select(kind), kind))).all()


async def list_rows_in_scope(session: AsyncSession, kind: type[RowT], toolset: str | None) -> Sequence[RowT]:
    """Return the rows of a toolset, or with None those of the tenant, the oldest first."""
    query = select(kind).where(col(kind.toolset).is_not_distinct_from(toolset))
    return (await session.scalars(_sort_rows(query, kind))).all()


async def read_synonyms_page(
    session: AsyncSession, page: PageRequest, *, toolset: str | None, q: str | None
) -> Page[SynonymSetRow]:
    """Return a page of the sets of synonyms; raise InvalidInput for another list's cursor."""
    statement = _select_listed(SynonymSetRow, toolset)
    if q is not None:
        terms = (
            func.array_to_string(func.coalesce(column, sql("'{}'::text[]")), ", ")
            for column in (col(SynonymSetRow.terms), col(SynonymSetRow.expand_to))
        )
        statement = statement.where(contains(q, *terms))
    return await read_page(session, statement, ordering=_build_ordering(SynonymSetRow), page=page)


async def read_pins_page(
    session: AsyncSession, page: PageRequest, *, toolset: str | None, q: str | None
) -> Page[PinnedResultRow]:
    """Return a page of the pinned results; raise InvalidInput for another list's cursor."""
    statement = _select_listed(PinnedResultRow, toolset)
    if q is not None:
        tools = func.array_to_string(col(PinnedResultRow.tools), ", ")
        statement = statement.where(contains(q, col(PinnedResultRow.query), tools))
    return await read_page(session, statement, ordering=_PIN_ORDER, page=page)


async def require_toolset(session: AsyncSession, toolset: str | None) -> None:
    """Raise InvalidInput for a toolset that does not exist; one that does is not deleted meanwhile."""
    if toolset is None:
        return
    query = (
        select(col(ToolsetRow.id))
        .where(col(ToolsetRow.tenant_id) == TENANT, col(ToolsetRow.name) == toolset)
        .with_for_update(read=True, key_share=True)
    )
    if (await session.execute(query)).scalar_one_or_none() is None:
        detail = f"There is no toolset {toolset}."
        raise InvalidInput(detail, errors=[FieldError("/toolset", detail)])


async def find_tools(session: AsyncSession, names: Collection[str]) -> Mapping[str, NamedTool]:
    """Return the enabled tools that have these names (canonical, alias, or name for agents), by these."""
    if not names:
        return {}
    # A canonical name always has a dot, the others never have one.
    canonical = [name for name in names if "." in name]
    others = [name for name in names if "." not in name]
    columns = (col(Tool.id), col(Tool.name), col(Tool.alias), col(Tool.agent_name))
    statement = (
        tool_select()
        .with_only_columns(*columns, maintain_column_froms=True)
        .where(
            is_enabled(),
            or_(
                col(Tool.name).in_(canonical),
                col(Tool.alias).in_(others),
                col(Tool.agent_name).in_(others),
            ),
        )
    )
    tools: dict[str, NamedTool] = {}
    rows = (await session.execute(statement)).all()
    # Of two tools with one name, that by its name for agents counts, as in toolsets.
    for column in ("alias", "name", "agent_name"):
        tools |= {getattr(row, column): NamedTool(row.id, row.name) for row in rows}
    return {name: tools[name] for name in names if name in tools}


async def record_words_change(
    session: AsyncSession, kind: type[Any], row_id: UUID | None, action: str, *, actor: str, detail: Any
) -> None:
    """Record the event of a change, and tell all workers; the last statement of its transaction. `row_id` is
    None for a change of a whole list.
    """
    name = "" if row_id is None else str(row_id)
    await record_event(
        session,
        actor=actor,
        action=action,
        object_type=OBJECT_TYPES[kind],
        object_name=name,
        detail=detail,
    )
    await record_change(session, kind="search-words", object_id=name)


def _select_listed(kind: type[RowT], toolset: str | None) -> Select[Any]:
    statement = select(kind).where(col(kind.tenant_id) == TENANT)
    return statement if toolset is None else statement.where(col(kind.toolset) == toolset)


def _sort_rows(statement: Select[Any], kind: type[RowT]) -> Select[Any]:
    return statement.where(col(kind.tenant_id) == TENANT).order_by(col(kind.created_at), col(kind.id))


def _build_ordering(kind: type[RowT]) -> Ordering:
    times = {
        name: SortField(col(getattr(kind, name)), name, datetime) for name in ("created_at", "updated_at")
    }
    return Ordering(times, item_id=col(kind.id))


_PIN_ORDER: Final = Ordering(
    {
        **_build_ordering(PinnedResultRow).fields,
        "query": SortField(col(PinnedResultRow.query).collate("C"), "query"),
    },
    item_id=col(PinnedResultRow.id),
)
