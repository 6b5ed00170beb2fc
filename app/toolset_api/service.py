"""Reads and changes toolsets. A change is one transaction, in effect on this worker when it returns."""

from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import func, select
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import ChangeFeed, record_change
from app.database import Database
from app.errors import Conflict, FieldError, Forbidden, InvalidInput, PreconditionFailed
from app.meta_tools import META_TOOL_NAMES
from app.models import TENANT, ToolsetRow, now
from app.pagination import Ordering, Page, SortField, contains, etag_matches, read_page, version_etag
from app.security.principal import Principal
from app.text import pointer
from app.toolset_api.schemas import (
    ToolsetCreate,
    ToolsetInput,
    ToolsetProblem,
    ToolsetQuery,
    ToolsetSummary,
    ToolsetView,
    members_of,
    summary_of,
)
from app.toolsets import ToolCollections
from app.toolsets.definition import StoredDefinition, ToolsetDefinition, with_former_names

MAX_TOOLSETS: Final = 1_000
"""At most so many toolsets are stored: each worker has all of them in memory."""
_ORDER: Final = Ordering(
    {
        "name": SortField(col(ToolsetRow.name).collate("C"), "name", unique=True),
        "created_at": SortField(col(ToolsetRow.created_at), "created_at", datetime),
        "updated_at": SortField(col(ToolsetRow.updated_at), "updated_at", datetime),
    },
    item_id=col(ToolsetRow.id),
)


@dataclass(frozen=True, slots=True)
class ToolsetService:
    """The operations on toolsets; `base_url` is the gateway's public address."""

    database: Database
    feed: ChangeFeed
    collections: ToolCollections
    base_url: str

    async def page(self, query: ToolsetQuery, *, principal: Principal) -> Page[ToolsetSummary]:
        """Return a page of the toolsets that the principal may use; raise InvalidInput for another list's
        cursor.
        """
        statement = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
        if principal.is_restricted:
            visible = await self.collections.visible_toolsets(principal)
            statement = statement.where(col(ToolsetRow.name).in_([one.name for one in visible]))
        if query.q is not None:
            columns = (col(ToolsetRow.name), col(ToolsetRow.title), col(ToolsetRow.description))
            statement = statement.where(contains(query.q, *columns))
        async with self.database.read_session() as session:
            page = await read_page(session, statement, ordering=_ORDER, page=query.page())
        rows = [await self._summary(row, principal) for row in page.rows]
        return Page(rows, page.next_cursor, page.total, page.total_at_least)

    async def get(self, name: str, *, principal: Principal) -> ToolsetView:
        """Return a toolset; raise NotFound where there is none that the principal may use."""
        collection = await self.collections.toolset(name, principal)
        async with self.database.read_session() as session:
            row = await _found(session, name)
        tools = await collection.tools()
        if row is None:
            raise await self.collections.unknown_toolset(name, principal)
        sees_definition = principal.has_scope("providers:read") and not principal.is_restricted
        problems: list[ToolsetProblem] = []
        definition = None
        if sees_definition:
            definition = stored_definition(row).model_dump(mode="json", exclude_defaults=True)
            problems = [ToolsetProblem.of(one) for one in await self.collections.problems(name)]
        return ToolsetView(
            **summary_of(row, len(tools), base_url=self.base_url),
            members=members_of(tools),
            definition=definition,
            problems=problems,
        )

    async def create(self, body: ToolsetCreate, *, principal: Principal) -> ToolsetView:
        """Create a toolset; raise Conflict where there is one of this name, InvalidInput where there are too
        many, and Forbidden for a restricted key.
        """
        _require_unrestricted(principal)
        _check_names(body.definition)
        async with self.database.transaction() as session:
            if await _found(session, body.name, lock=True) is not None:
                raise _taken(body.name)
            await _insert(session, body.name, body, principal)
        await self.feed.catch_up()
        return await self.get(body.name, principal=principal)

    async def put(
        self, name: str, body: ToolsetInput, *, if_match: str | None, principal: Principal
    ) -> tuple[ToolsetView, bool]:
        """Replace a toolset, or create it; return it, and whether it is new.

        Raise PreconditionFailed where `if_match` names another version, and what `create` raises.
        """
        _require_unrestricted(principal)
        _check_names(body.definition)
        async with self.database.transaction() as session:
            row = await _found(session, name, lock=True)
            is_new = row is None
            _check_version(row, if_match, name)
            if row is None:
                await _insert(session, name, body, principal)
            else:
                stored = with_former_names(StoredDefinition.model_validate(row.definition), body.definition)
                row.title, row.description = body.title, body.description
                row.definition = stored.model_dump(mode="json")
                row.version += 1
                row.updated_at = now()
                await session.flush()
                await _record(session, name, "updated", principal)
        await self.feed.catch_up()
        return await self.get(name, principal=principal), is_new

    async def delete(self, name: str, *, if_match: str | None, principal: Principal) -> None:
        """Delete a toolset; raise NotFound, and what `put` raises."""
        _require_unrestricted(principal)
        async with self.database.transaction() as session:
            row = await _found(session, name, lock=True)
            if row is None:
                raise await self.collections.unknown_toolset(name, principal)
            _check_version(row, if_match, name)
            await session.delete(row)
            await session.flush()
            await _record(session, name, "deleted", principal)
        await self.feed.catch_up()

    async def _summary(self, row: ToolsetRow, principal: Principal) -> ToolsetSummary:
        tools = await self.collections.count(row.name, principal)
        return ToolsetSummary(**summary_of(row, tools, base_url=self.base_url))


def etag(toolset: ToolsetView) -> str:
    """Return the strong entity tag of a toolset: its version in quotes (RFC 9110 section 8.8.3)."""
    return version_etag(toolset.version)


def stored_definition(row: ToolsetRow) -> ToolsetDefinition:
    """Return the definition of a stored toolset as it was given."""
    members = {
        name: value for name, value in row.definition.items() if name in ToolsetDefinition.model_fields
    }
    return ToolsetDefinition.model_validate(members)


def _require_unrestricted(principal: Principal) -> None:
    """Raise Forbidden for a restricted key: a toolset has effects for keys that see more than it does."""
    if principal.is_restricted:
        raise Forbidden(
            "Your key is restricted to providers, tags or toolsets: it may not change toolsets.",
            hint="Use a key without restrictions that has the scope `providers:write`.",
        )


def _check_names(definition: ToolsetDefinition) -> None:
    """Raise InvalidInput for a tool that gets the name of a meta-tool, which MCP clients could not call.

    Stored definitions are not checked: they stay readable when a release adds a meta-tool.
    """
    errors = [
        FieldError(pointer("/definition/changes", tool, "name"), f"{change.name} is a tool of the gateway's.")
        for tool, change in definition.changes.items()
        if change.name in META_TOOL_NAMES
    ]
    if errors:
        raise InvalidInput("A tool has the name of a tool of the gateway's.", errors=errors)


def _check_version(row: ToolsetRow | None, if_match: str | None, name: str) -> None:
    if if_match is None:
        return
    if row is None:
        raise PreconditionFailed(f"There is no toolset {name}.")
    current = version_etag(row.version)
    if not etag_matches(if_match, current):
        raise PreconditionFailed(f"{name} has changed since it was read: its ETag is {current} now.")


def _taken(name: str) -> Conflict:
    error = Conflict(
        f"There is a toolset {name} already.", hint="Choose another name, or replace it with PUT."
    )
    error.errors = (FieldError("/name", "This name is taken."),)
    return error


async def _found(session: AsyncSession, name: str, *, lock: bool = False) -> ToolsetRow | None:
    query = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT, col(ToolsetRow.name) == name)
    return (await session.execute(query.with_for_update() if lock else query)).scalar_one_or_none()


async def _insert(session: AsyncSession, name: str, body: ToolsetInput, principal: Principal) -> None:
    counted = select(func.count()).select_from(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
    if (await session.execute(counted)).scalar_one() >= MAX_TOOLSETS:
        raise InvalidInput(
            f"There are {MAX_TOOLSETS:,} toolsets already.", hint="Delete one that is not used."
        )
    row = ToolsetRow(
        name=name,
        title=body.title,
        description=body.description,
        definition=with_former_names(None, body.definition).model_dump(mode="json"),
    )
    values = {column.name: getattr(row, column.name) for column in ToolsetRow.__table__.columns}  # type: ignore[attr-defined]
    statement = insert(ToolsetRow).values(**values).on_conflict_do_nothing().returning(col(ToolsetRow.id))
    if (await session.execute(statement)).scalar_one_or_none() is None:
        raise _taken(name)
    await _record(session, name, "created", principal)


async def _record(session: AsyncSession, name: str, action: str, principal: Principal) -> None:
    await record_event(
        session, actor=principal.key_id, action=action, object_type="toolset", object_name=name
    )
    await record_change(session, kind="toolset", object_id=name)
