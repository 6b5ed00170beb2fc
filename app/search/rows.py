"""Database reads of the search index: only the columns that it needs, and JSON as text where it is passed
on.
"""

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

import orjson
from sqlalchemy import ColumnElement, Select, Text, and_, cast, func, literal_column, or_, select, true
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.annotations import Annotations, effects
from app.catalog.availability import executor_command
from app.catalog.tools import call_url, tool_select, version_stamp
from app.search.hits import ShownTool, json_members
from app.search.index import IndexedProvider, IndexedTool
from app.security.requirements import compile_security, slot_alternatives
from app.storage.models import TENANT, Override, Provider, Tool

_BATCH: Final = 250
_STAMP_BATCH: Final = 2_000
_DECIDING: Final = (
    "call_template", "annotations", "requires_approval", "deprecated", "average_response_size", "security",
)  # fmt: skip
"""The columns by which a client decides whether to call a tool."""


@dataclass(frozen=True, slots=True)
class RowScope:
    """Which tools are read: all, or those of some providers and some single tools."""

    everything: bool = False
    providers: frozenset[UUID] = frozenset()
    tools: frozenset[UUID] = frozenset()

    def build_condition(self) -> ColumnElement[bool]:
        """Return the condition for a statement over tools and overrides. Disabled tools are never indexed."""
        enabled = func.coalesce(col(Override.enabled), true())
        if self.everything:
            return enabled
        return and_(enabled, or_(col(Tool.provider_id).in_(self.providers), col(Tool.id).in_(self.tools)))


def _build_stamp() -> ColumnElement[Any]:
    """Return an expression that changes whenever the row of the tool or of its override is written (`xmin`;
    PostgreSQL, "System Columns"), and when the indexed texts of its provider change. The row of a provider
    also changes without them, with each refresh.
    """
    of_provider = func.concat_ws("|", col(Provider.title), _choose_language())
    return version_stamp(cast(literal_column("tools.xmin"), Text), func.left(func.md5(of_provider), 8))


def _choose_language() -> ColumnElement[Any]:
    return func.coalesce(col(Provider.language), col(Provider.document_language))


def _select_rows() -> Select[Any]:
    statement = tool_select()
    columns = statement.selected_columns
    plain = (columns[name] for name in ("id", "provider_id", "provider", "name", "alias", "description"))
    rest: tuple[ColumnElement[Any], ...] = (
        columns["tags"],
        columns["registrar_tags"],
        cast(columns["inputs"], Text).label("inputs_text"),
        *(columns[name] for name in _DECIDING),
        columns["keywords"],
        _choose_language().label("language"),
        col(Provider.title).label("provider_title"),
    )
    return statement.with_only_columns(*plain, *rest, _build_stamp())


async def read_providers(
    session: AsyncSession, *, only: Collection[UUID] | None
) -> dict[UUID, IndexedProvider]:
    """Return the providers by id; with `only`, those of these ids."""
    columns = (col(Provider.id), col(Provider.name), col(Provider.enabled), col(Provider.tags))
    statement = select(*columns).where(col(Provider.tenant_id) == TENANT)
    if only is not None:
        statement = statement.where(col(Provider.id).in_(only))
    rows = (await session.execute(statement)).all()
    return {row[0]: IndexedProvider(row[1], row[2], frozenset(row[3])) for row in rows}


async def read_stamps(session: AsyncSession, scope: RowScope) -> dict[UUID, dict[UUID, str]]:
    """Return the stamps of the enabled tools in scope, by provider and tool."""
    statement = (
        select(col(Tool.provider_id), col(Tool.id), _build_stamp())
        .join(Provider, col(Provider.id) == col(Tool.provider_id))
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == TENANT, scope.build_condition())
        .execution_options(yield_per=_STAMP_BATCH)
    )
    stamps_by_provider: dict[UUID, dict[UUID, str]] = {}
    stream = await session.stream(statement)
    async for rows in stream.partitions(_STAMP_BATCH):
        for provider, tool, stamped in rows:
            stamps_by_provider.setdefault(provider, {})[tool] = stamped
    return stamps_by_provider


async def stream_tool_rows(session: AsyncSession, scope: RowScope) -> AsyncIterator[Sequence[Any]]:
    """Yield the rows of the enabled tools in scope, in batches of a few milliseconds of work each."""
    statement = _select_rows().where(scope.build_condition()).execution_options(yield_per=_BATCH)
    stream = await session.stream(statement)
    async for rows in stream.partitions(_BATCH):
        yield rows


def make_indexed_tool(row: Any, *, base_url: str) -> IndexedTool:
    """Return a row of `stream_tool_rows` as a tool to index; `base_url` is the gateway's public address."""
    schema = orjson.loads(row.inputs_text)
    known = Annotations.of_template(row.call_template).overridden(row.annotations)
    shown = ShownTool(
        name=row.name,
        alias=row.alias,
        provider=row.provider,
        description=row.description,
        schema=schema,
        inputs=row.inputs_text,
        effects=effects(known, requires_approval=row.requires_approval, deprecated=row.deprecated),
        average_response_size=row.average_response_size,
        tags=row.tags,
        call_url=call_url(base_url, row.alias),
    )
    return IndexedTool(
        id=row.id,
        provider_id=row.provider_id,
        provider=row.provider,
        name=row.name,
        alias=row.alias,
        description=row.description,
        inputs=schema,
        tags=row.tags,
        registrar_tags=row.registrar_tags or (),
        json_members=json_members(shown),
        command_name=executor_command(row.call_template),
        credential_slots=slot_alternatives(compile_security(row.security)),
        keywords=row.keywords,
        language=row.language,
        provider_title=row.provider_title,
    )
