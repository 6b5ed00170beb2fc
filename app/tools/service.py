"""Reads and changes stored tools. A change is one transaction, committed before the response."""

import re
from typing import Any

from sqlalchemy import Select, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import (
    ToolView,
    has_name,
    has_tag,
    is_enabled,
    principal_filter,
    tool_select,
    tool_view,
)
from app.database import Database
from app.errors import Conflict, NotFound, PreconditionFailed
from app.models import Override, Provider, Tool, now
from app.pagination import decode_cursor, encode_cursor, etag_matches
from app.schemas import TOOL_NAME
from app.security.principal import Principal
from app.tools.schemas import ToolPatch

_NAME = re.compile(TOOL_NAME)


def etag(tool: ToolView) -> str:
    """Return the strong entity tag of a tool: its version in quotes (RFC 9110 section 8.8.3)."""
    return f'"{tool.version}"'


async def list_tools(
    database: Database, *, principal: Principal, filters: dict[str, Any], cursor: str | None, limit: int
) -> tuple[list[ToolView], str | None]:
    """Return a page of the tools that the principal may see, by name, and the cursor of the next page or
    None.

    `filters` may have the keys provider, tag and enabled; a value of None does not filter.
    """
    statement = tool_select().where(principal_filter(principal))
    if filters.get("provider") is not None:
        statement = statement.where(col(Provider.name) == filters["provider"])
    if filters.get("tag") is not None:
        statement = statement.where(has_tag(filters["tag"]))
    if filters.get("enabled") is not None:
        enabled = is_enabled()
        statement = statement.where(enabled if filters["enabled"] else ~enabled)
    if cursor is not None:
        statement = statement.where(col(Tool.name) > decode_cursor(cursor))
    statement = statement.order_by(col(Tool.name)).limit(limit + 1)
    async with database.reading() as session:
        tools = [tool_view(row) for row in (await session.execute(statement)).all()]
    page = tools[:limit]
    return page, encode_cursor(page[-1].name) if len(tools) > limit else None


async def get_tool(database: Database, *, principal: Principal, name: str, full: bool = False) -> ToolView:
    """Return one tool by canonical name or alias; raise NotFound where there is none that the principal may
    see.

    With `full`, a large tool has the schemas that calls are validated against, not the slimmed ones that
    models see.
    """
    async with database.reading() as session:
        return await _found(session, _visible(name, principal, full=full), name)


async def change_tool(
    database: Database, *, principal: Principal, name: str, patch: ToolPatch, if_match: str | None
) -> ToolView:
    """Override the source's description, tags or enabled with the patch; return the tool after the change.

    Raises NotFound, and PreconditionFailed where `if_match` names another version.
    """
    given = patch.model_dump(exclude_unset=True)
    async with database.writing() as session:
        before = await _locked(session, principal=principal, name=name, if_match=if_match)
        override = await session.get(Override, before.id) or Override(tool_id=before.id)
        for field, value in given.items():
            setattr(override, field, value)
        if override.description is None and override.tags is None and override.enabled is None:
            if override in session:
                await session.delete(override)
        else:
            session.add(override)
        row = await session.get_one(Tool, before.id)
        row.version += 1
        row.updated_at = now()
        await session.flush()
        after = await _found(session, _visible_by_id(before), name)
        await record_event(
            session,
            actor=principal.key_id,
            action="updated",
            object_type="tool",
            object_name=before.name,
            detail={"changed": sorted(given)},
        )
        await _record(session, before)
    return after


async def delete_tool(database: Database, *, principal: Principal, name: str, if_match: str | None) -> None:
    """Delete a custom tool.

    Raises NotFound, PreconditionFailed, and Conflict for an imported tool, which the next import would
    restore.
    """
    async with database.writing() as session:
        tool = await _locked(session, principal=principal, name=name, if_match=if_match)
        if not tool.custom:
            raise Conflict(
                f"The tool {tool.name} was imported, and the next import would restore it: disable it "
                'instead with PATCH and {"enabled": false}.'
            )
        await session.delete(await session.get_one(Tool, tool.id))
        await session.flush()
        await record_event(
            session, actor=principal.key_id, action="deleted", object_type="tool", object_name=tool.name
        )
        await _record(session, tool)


def visible_tool_names(principal: Principal) -> Select[Any] | None:
    """Return a query for the names of the tools that a principal limited to tags may see; None for others."""
    if principal.tags is None:
        return None
    return tool_select().with_only_columns(col(Tool.name)).where(principal_filter(principal))


async def _locked(
    session: AsyncSession, *, principal: Principal, name: str, if_match: str | None
) -> ToolView:
    """Lock the tool's row and return the tool; raise PreconditionFailed where `if_match` does not match."""
    seen = await _found(session, _visible(name, principal), name)
    await session.execute(select(col(Tool.id)).where(col(Tool.id) == seen.id).with_for_update())
    tool = await _found(session, _visible(name, principal), name)
    if if_match is not None and not etag_matches(if_match, etag(tool)):
        raise PreconditionFailed(f"{tool.name} has changed since it was read: its ETag is {etag(tool)} now.")
    return tool


def _visible(name: str, principal: Principal, *, full: bool = False) -> Select[Any]:
    if _NAME.fullmatch(name) is None:
        raise NotFound("There is no tool of this name.")
    return tool_select(full=full).where(has_name(name), principal_filter(principal))


def _visible_by_id(tool: ToolView) -> Select[Any]:
    # Not limited to the principal: with its new tags the tool may no longer be visible to it.
    return tool_select().where(col(Tool.id) == tool.id)


async def _found(session: AsyncSession, statement: Select[Any], name: str) -> ToolView:
    row = (await session.execute(statement)).one_or_none()
    if row is None:
        raise NotFound(f"There is no tool {name}.")
    return tool_view(row)


async def _record(session: AsyncSession, tool: ToolView) -> None:
    await record_change(session, kind="tool", provider_id=tool.provider_id, object_id=str(tool.id))
