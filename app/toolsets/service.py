"""Reads and changes toolsets. A change is one transaction, in effect on this worker when it returns."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.feed import ChangeFeed
from app.catalog.tools import tool_select, tool_view
from app.core.errors import FieldError, InvalidInput, PreconditionFailed
from app.core.pagination import (
    Ordering,
    Page,
    PageRequest,
    SortField,
    contains,
    matches_etag,
    read_page,
    write_etag,
)
from app.core.text import pointer, split_pointer
from app.formats.json_schema.input_lookup import may_have_input
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import TENANT, Tool, ToolsetRow, now
from app.toolsets.agent_tool import AgentTool
from app.toolsets.changes import (
    find_toolset,
    insert_toolset,
    name_taken,
    record_toolset_change,
    require_unrestricted,
    stored_definition,
)
from app.toolsets.collections import ToolCollections
from app.toolsets.definition import StoredDefinition, ToolsetDefinition, with_former_names
from app.toolsets.members import MemberProblem
from app.toolsets.meta_tools import META_TOOL_NAMES

_ORDER: Final = Ordering(
    {
        "name": SortField(col(ToolsetRow.name).collate("C"), "name", unique=True),
        "created_at": SortField(col(ToolsetRow.created_at), "created_at", datetime),
        "updated_at": SortField(col(ToolsetRow.updated_at), "updated_at", datetime),
    },
    item_id=col(ToolsetRow.id),
)


@dataclass(frozen=True, slots=True)
class ToolsetDraft:
    """A toolset to be stored, without its name."""

    title: str
    description: str
    definition: ToolsetDefinition


@dataclass(frozen=True, slots=True)
class ListedToolset:
    """A toolset of a list: its row, and the number of its tools that the principal may call."""

    row: ToolsetRow
    tools: int


@dataclass(frozen=True, slots=True)
class SeenToolset:
    """A toolset as a principal sees it: its row, and its tools that the principal may call.

    `definition` is None, and `problems` are empty, where the principal may not see the definition. `problems`
    are the parts of it that have no effect now.
    """

    row: ToolsetRow
    tools: Sequence[AgentTool]
    definition: ToolsetDefinition | None = None
    problems: Sequence[MemberProblem] = ()

    @property
    def etag(self) -> str:
        """The strong entity tag: the version in quotes (RFC 9110 section 8.8.3)."""
        return write_etag(self.row.version)


@dataclass(frozen=True, slots=True)
class ToolsetService:
    """The operations on toolsets."""

    database: Database
    feed: ChangeFeed
    collections: ToolCollections

    async def page(self, page: PageRequest, *, q: str | None, principal: Principal) -> Page[ListedToolset]:
        """Return a page of the toolsets that the principal may use; raise InvalidInput for another list's
        cursor.
        """
        statement = select(ToolsetRow).where(col(ToolsetRow.tenant_id) == TENANT)
        if principal.is_restricted:
            visible = await self.collections.visible_toolsets(principal)
            statement = statement.where(col(ToolsetRow.name).in_([one.name for one in visible]))
        if q is not None:
            columns = (col(ToolsetRow.name), col(ToolsetRow.title), col(ToolsetRow.description))
            statement = statement.where(contains(q, *columns))
        async with self.database.read_session() as session:
            rows = await read_page(session, statement, ordering=_ORDER, page=page)
        toolsets = [
            ListedToolset(row, await self.collections.count(row.name, principal)) for row in rows.rows
        ]
        return Page(toolsets, rows.next_cursor, rows.total, rows.total_at_least)

    async def get(self, name: str, *, principal: Principal) -> SeenToolset:
        """Return a toolset; raise NotFound where there is none that the principal may use."""
        collection = await self.collections.toolset(name, principal)
        async with self.database.read_session() as session:
            row = await find_toolset(session, name)
        tools = await collection.tools()
        if row is None:
            raise await self.collections.unknown_toolset(name, principal)
        if principal.has_scope("providers:read") and not principal.is_restricted:
            problems = await self.collections.problems(name)
            return SeenToolset(row, tools, stored_definition(row), problems)
        return SeenToolset(row, tools)

    async def create(self, name: str, draft: ToolsetDraft, *, principal: Principal) -> SeenToolset:
        """Create a toolset; raise Conflict where there is one of this name, InvalidInput where there are too
        many, and Forbidden for a restricted key.
        """
        require_unrestricted(principal)
        _check_names(draft.definition)
        await self._check_presets(draft.definition)
        async with self.database.transaction() as session:
            if await find_toolset(session, name, lock=True) is not None:
                raise name_taken(name)
            await _insert(session, name, draft, principal)
        await self.feed.catch_up()
        return await self.get(name, principal=principal)

    async def put(
        self, name: str, draft: ToolsetDraft, *, if_match: str | None, principal: Principal
    ) -> tuple[SeenToolset, bool]:
        """Replace a toolset, or create it; return it, and whether it is new.

        Raise PreconditionFailed where `if_match` names another version, and what `create` raises.
        """
        require_unrestricted(principal)
        _check_names(draft.definition)
        await self._check_presets(draft.definition)
        async with self.database.transaction() as session:
            row = await find_toolset(session, name, lock=True)
            is_new = row is None
            _check_version(row, if_match, name)
            if row is None:
                await _insert(session, name, draft, principal)
            else:
                stored = with_former_names(StoredDefinition.model_validate(row.definition), draft.definition)
                row.title, row.description = draft.title, draft.description
                row.definition = stored.model_dump(mode="json")
                row.version += 1
                row.updated_at = now()
                await session.flush()
                await record_toolset_change(session, name, "updated", principal)
        await self.feed.catch_up()
        return await self.get(name, principal=principal), is_new

    async def delete(self, name: str, *, if_match: str | None, principal: Principal) -> None:
        """Delete a toolset; raise NotFound, and what `put` raises."""
        require_unrestricted(principal)
        async with self.database.transaction() as session:
            row = await find_toolset(session, name, lock=True)
            if row is None:
                raise await self.collections.unknown_toolset(name, principal)
            _check_version(row, if_match, name)
            await session.delete(row)
            await session.flush()
            await record_toolset_change(session, name, "deleted", principal)
        await self.feed.catch_up()

    async def _check_presets(self, definition: ToolsetDefinition) -> None:
        """Raise InvalidInput for a preset of an input that its tool, which exists, does not have."""
        wanted = {tool: change.presets for tool, change in definition.changes.items() if change.presets}
        if not wanted:
            return
        statement = tool_select(full=True).where(or_(col(Tool.name).in_(wanted), col(Tool.alias).in_(wanted)))
        async with self.database.read_session() as session:
            views = [tool_view(row) for row in (await session.execute(statement)).all()]
        errors = [
            FieldError(
                pointer("/definition/changes", name, "presets", _given_name(at)),
                f"{view.name} has no input of this name.",
            )
            for view in views
            for name in (view.name, view.alias)
            for at in wanted.get(name, ())
            if not may_have_input(view.inputs, split_pointer(at))
        ]
        if errors:
            raise InvalidInput("A preset is for an input that its tool does not have.", errors=errors)


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


def _given_name(at: str) -> str:
    """Return the name of a preset as it is usually given: without a slash where it is no nested member."""
    parts = split_pointer(at)
    return parts[0] if len(parts) == 1 else at


def _check_version(row: ToolsetRow | None, if_match: str | None, name: str) -> None:
    if if_match is None:
        return
    if row is None:
        raise PreconditionFailed(f"There is no toolset {name}.")
    current = write_etag(row.version)
    if not matches_etag(if_match, current):
        raise PreconditionFailed(f"{name} has changed since it was read: its ETag is {current} now.")


async def _insert(session: AsyncSession, name: str, draft: ToolsetDraft, principal: Principal) -> None:
    definition = with_former_names(None, draft.definition)
    await insert_toolset(
        session, name, definition, title=draft.title, description=draft.description, principal=principal
    )
