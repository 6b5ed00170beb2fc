"""Reads and changes stored tools. A change is one transaction, committed before the response."""

import re
from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from sqlalchemy import ARRAY, ColumnElement, Select, Text, and_, any_, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.catalog.feed import record_change
from app.catalog.tools import (
    ToolView,
    has_name,
    has_tag,
    is_destructive,
    is_disabled,
    is_enabled,
    lacks_credential,
    principal_filter,
    tool_select,
    tool_view,
)
from app.database import Database
from app.errors import Conflict, NotFound, PreconditionFailed, scopes_missing
from app.models import Override, Provider, Tool
from app.pagination import Ordering, Page, SortField, contains, etag_matches, read_page, version_etag
from app.registration.overrides import require_approver, store_overrides
from app.registration.tool_history import ToolHistoryWriter
from app.resource_names import TOOL_NAME
from app.security.principal import Principal
from app.stats.tool_usage import ToolUsage, is_used, tool_usage
from app.tool_conditions import ToolConditions
from app.tools.header_inputs import check_header_inputs
from app.tools.schemas import ToolPatch, ToolQuery, ToolSource

_NAME = re.compile(TOOL_NAME)
_ORDER: Final = Ordering(
    {
        "name": SortField(col(Tool.name), "name", unique=True),
        "created_at": SortField(col(Tool.created_at), "created_at", datetime),
        "updated_at": SortField(col(Tool.updated_at), "updated_at", datetime),
    },
    item_id=col(Tool.id),
    ids_first=True,
)


class UnknownTool(NotFound):
    """There is no tool of this name that the principal may see; its route adds similar names."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no tool {name}.")
        self.name = name


def etag(tool: ToolView) -> str:
    """Return the strong entity tag of a tool: its version in quotes (RFC 9110 section 8.8.3)."""
    return version_etag(tool.version)


async def list_tools(
    database: Database, query: ToolQuery, *, principal: Principal, conditions: ToolConditions
) -> tuple[Page[ToolView], Mapping[str, ToolUsage]]:
    """Return a page of the tools that the principal may see, and with `usage` the usage of each by its name.

    Raise InvalidInput for another list's cursor, and Forbidden for what tells of calls, without the scope
    for reading them.
    """
    if query.usage or query.state in ("used", "unused"):
        _require_reads_calls(principal)
    statement = tool_select(outputs=False).where(principal_filter(principal))
    if query.provider is not None:
        statement = statement.where(col(Provider.name) == query.provider)
    if query.tag is not None:
        statement = statement.where(has_tag(query.tag))
    if query.enabled is not None:
        statement = statement.where(is_enabled() if query.enabled else is_disabled())
    if query.names:
        statement = statement.where(col(Tool.name) == any_(cast(sorted(set(query.names)), ARRAY(Text))))
    if query.q is not None:
        statement = statement.where(has_text(query.q))
    async with database.read_session() as session:
        if query.state == "missing-credential":
            stored = await conditions.read_stored(session)
            statement = statement.where(lacks_credential(stored.slots))
        elif query.state is not None:
            statement = statement.where(state_filter(query.state))
        # Named tools are few: their rows are read at once.
        ordering = replace(_ORDER, ids_first=not query.names)
        page = await read_page(session, statement, ordering=ordering, page=query.page())
        names = [row.name for row in page.rows] if query.usage else []
        usage = await tool_usage(session, names, tenant=principal.tenant_id)
    rows = [tool_view(row) for row in page.rows]
    return Page(rows, page.next_cursor, page.total, page.total_at_least), usage


async def get_tool(database: Database, *, principal: Principal, name: str, full: bool = False) -> ToolView:
    """Return one tool by canonical name or alias; raise NotFound where there is none that the principal may
    see.

    With `full`, a large tool has the schemas that calls are validated against, not the slimmed ones that
    models see.
    """
    async with database.read_session() as session:
        return await _found(session, _visible(name, principal, full=full), name)


async def source_of(database: Database, tool: ToolView) -> ToolSource:
    """Return what the source of a tool says, without what people have changed."""
    columns = (col(Tool.description), col(Tool.tags), col(Tool.keywords))
    statement = select(*columns).where(col(Tool.id) == tool.id)
    async with database.read_session() as session:
        row = (await session.execute(statement)).one()
    return ToolSource(description=row.description, tags=list(row.tags), keywords=list(row.keywords))


async def change_tool(
    database: Database,
    *,
    principal: Principal,
    name: str,
    patch: ToolPatch,
    if_match: str | None,
    history: ToolHistoryWriter,
) -> ToolView:
    """Override the source's description, tags or enabled, or the requirement of approval, with the patch;
    return the tool after the change.

    Raises NotFound, PreconditionFailed where `if_match` names another version, Forbidden for removing the
    requirement of approval without the scope for approving, and InvalidInput for inputs that cannot be
    repeated in headers.
    """
    changes = patch.model_dump(exclude_unset=True)
    async with database.transaction() as session:
        before = await _locked(session, principal=principal, name=name, if_match=if_match)
        require_approver(principal, before.requires_approval, changes)
        check_header_inputs(before.inputs, changes)
        await store_overrides(session, {before.id: changes}, history=history)
        return await _found(session, _visible_by_id(before), name)


async def delete_tool(
    database: Database,
    *,
    principal: Principal,
    name: str,
    if_match: str | None,
    history: ToolHistoryWriter,
) -> None:
    """Delete a custom tool.

    Raises NotFound, PreconditionFailed, and Conflict for an imported tool, which the next import would
    restore.
    """
    async with database.transaction() as session:
        tool = await _locked(session, principal=principal, name=name, if_match=if_match)
        if not tool.custom:
            raise Conflict(
                f"The tool {tool.name} was imported, and the next import would restore it: disable it "
                'instead with PATCH and {"enabled": false}.'
            )
        row = await session.get_one(Tool, tool.id)
        await history.write_changes(session, tool.provider_id, {row.source_key: []}, action="deleted")
        await session.delete(row)
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


def state_filter(state: str) -> ColumnElement[bool]:
    """Return the condition that a tool is in a state: enabled, disabled, deprecated, used, unused or
    destructive.
    """
    match state:
        case "enabled":
            return is_enabled()
        case "disabled":
            return is_disabled()
        case "used":
            return is_used()
        case "unused":
            return ~is_used()
        case "destructive":
            return is_destructive()
    return col(Tool.deprecated).is_(True)


def has_text(q: str) -> ColumnElement[bool]:
    """Return the condition that the name or the description that is shown contains the text."""
    overridden = col(Override.description)
    stored = func.coalesce(col(Tool.slimmed)["description"].astext, col(Tool.description))
    return or_(
        contains(q, col(Tool.name), overridden),
        and_(overridden.is_(None), contains(q, stored)),
    )


def _require_reads_calls(principal: Principal) -> None:
    if not principal.has_scope("calls:read"):
        raise scopes_missing("How tools are used needs the scope calls:read.", ["calls:read"])


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
        raise UnknownTool(name)
    return tool_view(row)


async def _record(session: AsyncSession, tool: ToolView) -> None:
    await record_change(session, kind="tool", provider_id=tool.provider_id, object_id=str(tool.id))
