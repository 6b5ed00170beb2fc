"""What the index reads: as text where JSON is only passed on, and only the columns that it needs."""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, literal_column, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import call_url, stamp, tool_select
from app.models import TENANT, Override, Provider, Tool
from app.search.entries import entry
from app.search.index import Indexed, ProviderFacts

_BATCH: Final = 250
_STAMPS_AT_ONCE: Final = 2_000


@dataclass(frozen=True, slots=True)
class Scope:
    """Which tools are looked at: all, or those of some providers and some by themselves."""

    everything: bool = False
    providers: frozenset[UUID] = frozenset()
    tools: frozenset[UUID] = frozenset()

    def where(self) -> ColumnElement[bool]:
        """For a statement over tools and their overrides; a disabled tool is in no index."""
        enabled = func.coalesce(col(Override.enabled), true())
        if self.everything:
            return enabled
        return and_(enabled, or_(col(Tool.provider_id).in_(self.providers), col(Tool.id).in_(self.tools)))


def _stamp() -> ColumnElement[Any]:
    """Changes whenever the tool's row or its override's is written (PostgreSQL, "System Columns")."""
    return stamp(cast(literal_column("tools.xmin"), Text))


def _rows() -> Select[Any]:
    found = tool_select()
    columns = found.selected_columns
    plain = (columns[name] for name in ("id", "provider_id", "provider", "name", "alias", "description"))
    rest = (columns["tags"], columns["set_tags"], cast(columns["inputs"], Text).label("inputs_text"))
    return found.with_only_columns(*plain, *rest, _stamp())


async def provider_facts(
    session: AsyncSession, *, only: Collection[UUID] | None
) -> dict[UUID, ProviderFacts]:
    """By id; `only` some of them."""
    columns = (col(Provider.id), col(Provider.name), col(Provider.enabled), col(Provider.tags))
    statement = select(*columns).where(col(Provider.tenant_id) == TENANT)
    if only is not None:
        statement = statement.where(col(Provider.id).in_(only))
    rows = (await session.execute(statement)).all()
    return {row[0]: ProviderFacts(row[1], row[2], frozenset(row[3])) for row in rows}


async def stamps(session: AsyncSession, scope: Scope) -> dict[UUID, dict[UUID, str]]:
    """Of the enabled tools in scope, by provider and tool."""
    statement = (
        select(col(Tool.provider_id), col(Tool.id), _stamp())
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == TENANT, scope.where())
        .execution_options(yield_per=_STAMPS_AT_ONCE)
    )
    found: dict[UUID, dict[UUID, str]] = {}
    stream = await session.stream(statement)
    async for rows in stream.partitions(_STAMPS_AT_ONCE):
        for provider, tool, stamped in rows:
            found.setdefault(provider, {})[tool] = stamped
    return found


async def tool_rows(session: AsyncSession, scope: Scope) -> AsyncIterator[Sequence[Any]]:
    """The enabled tools in scope, in batches that are some milliseconds of work each."""
    statement = _rows().where(scope.where()).execution_options(yield_per=_BATCH)
    stream = await session.stream(statement)
    async for rows in stream.partitions(_BATCH):
        yield rows


def indexed(row: Any, *, base_url: str) -> Indexed:
    """A row of `tool_rows` as the index takes it."""
    tool, provider_id, provider, name, alias, description, tags, set_tags, inputs, _ = row
    return Indexed(
        id=tool,
        provider_id=provider_id,
        provider=provider,
        name=name,
        alias=alias,
        description=description,
        inputs=orjson.loads(inputs),
        tags=tags,
        set_tags=set_tags or (),
        entry=entry(
            name=name,
            alias=alias,
            provider=provider,
            description=description,
            inputs=inputs,
            tags=tags,
            call_url=call_url(base_url, alias),
        ),
    )
