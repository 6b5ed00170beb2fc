"""Reads and changes stored tools. A change is one transaction, committed before the response."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, Literal
from uuid import UUID, uuid5

from sqlalchemy import ARRAY, ColumnElement, Select, Text, Uuid, and_, any_, cast, func, or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event
from app.calls.stats.tool_usage import ToolUsage, is_used, tool_usage
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
from app.core.errors import Conflict, NotFound, PreconditionFailed, scopes_missing
from app.core.pagination import (
    ItemField,
    Ordering,
    Page,
    PageRequest,
    SortField,
    contains,
    matches_etag,
    paginate_items,
    read_page,
    write_etag,
)
from app.core.resource_names import TOOL_NAME
from app.providers.registration.approval_requirements import keep_requirements
from app.providers.registration.header_inputs import check_header_inputs
from app.providers.registration.overrides import require_approver, store_overrides
from app.providers.registration.repository import lock_names
from app.providers.registration.tool_history import ToolHistoryWriter
from app.search.conditions import ToolConditions
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Override, Provider, Tool
from app.toolsets import AgentTool, ToolCollection
from app.toolsets.hidden_inputs import without_inputs

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
_SEEN_ORDER: Final = {
    "name": ItemField("name"),
    "created_at": ItemField("created_at", datetime),
    "updated_at": ItemField("updated_at", datetime),
}


ToolListState = Literal[
    "enabled", "disabled", "deprecated", "used", "unused", "destructive", "missing-credential"
]


@dataclass(frozen=True, slots=True)
class ToolFilters:
    """Which tools: of a provider, with a tag of their own or of their provider, in a state, of these
    canonical names, and, with `q`, those whose name or description contains it. None is no filter, and so is
    no name. With `usage`, the calls of each are read, too.
    """

    q: str | None = None
    provider: str | None = None
    tag: str | None = None
    enabled: bool | None = None
    state: ToolListState | None = None
    names: Sequence[str] = ()
    usage: bool = False


@dataclass(frozen=True, slots=True)
class SourceTexts:
    """What the source of a tool says, where people may have said otherwise."""

    description: str
    tags: Sequence[str]
    keywords: Sequence[str]


class UnknownTool(NotFound):
    """There is no tool of this name that the principal may see; its route adds similar names."""

    def __init__(self, name: str) -> None:
        super().__init__(f"There is no tool {name}.")
        self.name = name


def etag(tool: ToolView) -> str:
    """Return the strong entity tag of a tool: its version in quotes (RFC 9110 section 8.8.3)."""
    return write_etag(tool.version)


async def list_tools(
    database: Database,
    page: PageRequest,
    filters: ToolFilters,
    collection: ToolCollection,
    conditions: ToolConditions,
) -> tuple[Page[ToolView], Mapping[str, ToolUsage]]:
    """Return a page of the tools of a collection, and with `usage` the usage of each by its name.

    Raise InvalidInput for another list's cursor, and Forbidden for what tells of calls, without the scope
    for reading them.
    """
    principal = collection.principal
    if filters.usage or filters.state in ("used", "unused"):
        _require_reads_calls(principal)
    if not collection.is_registry:
        return await _list_seen_tools(database, page, filters, collection, conditions)
    async with database.read_session() as session:
        statement = await _filter_tools(session, filters, conditions)
        statement = statement.where(principal_filter(principal))
        if filters.names:
            statement = statement.where(col(Tool.name) == any_(cast(sorted(set(filters.names)), ARRAY(Text))))
        if filters.q is not None:
            statement = statement.where(has_text(filters.q))
        # Named tools are few: their rows are read at once.
        ordering = replace(_ORDER, ids_first=not filters.names)
        listed = await read_page(session, statement, ordering=ordering, page=page)
        names = [row.name for row in listed.rows] if filters.usage else []
        usage = await tool_usage(session, names, tenant=principal.tenant_id)
    rows = [tool_view(row) for row in listed.rows]
    return Page(rows, listed.next_cursor, listed.total, listed.total_at_least), usage


async def _list_seen_tools(
    database: Database,
    page: PageRequest,
    filters: ToolFilters,
    collection: ToolCollection,
    conditions: ToolConditions,
) -> tuple[Page[ToolView], Mapping[str, ToolUsage]]:
    """Return the page of tools as toolsets have them: names and texts are those, all else is stored."""
    words = (filters.q or "").casefold()
    wanted = set(filters.names)
    tools = [
        tool
        for tool in await collection.tools()
        if (not wanted or wanted.intersection((tool.tool, tool.name)))
        and (words in tool.listed_names[0].casefold() or words in tool.description.casefold())
    ]
    ids = sorted({tool.id for tool in tools})
    async with database.read_session() as session:
        statement = (await _filter_tools(session, filters, conditions)).where(_is_one_of(ids))
        times = statement.with_only_columns(col(Tool.id), col(Tool.created_at), col(Tool.updated_at))
        stored = {row.id: row for row in await session.execute(times)}
        items = [_SeenItem.of(tool, stored[tool.id]) for tool in tools if tool.id in stored]
        listed = paginate_items(items, fields=_SEEN_ORDER, item_id="item_id", page=page)
        shown = sorted({item.tool.id for item in listed.rows})
        rows = await session.execute(tool_select(outputs=False).where(_is_one_of(shown)))
        views = {row.id: tool_view(row) for row in rows}
        names = sorted({item.tool.tool for item in listed.rows}) if filters.usage else []
        usage = await tool_usage(session, names, tenant=collection.principal.tenant_id)
    seen = [_show_as_seen(views[item.tool.id], item.tool) for item in listed.rows if item.tool.id in views]
    used = {item.name: usage[item.tool.tool] for item in listed.rows if item.tool.tool in usage}
    return Page(seen, listed.next_cursor, listed.total), used


@dataclass(frozen=True, slots=True)
class _SeenItem:
    """An item of the list of tools as toolsets have them."""

    tool: AgentTool
    item_id: str
    name: str
    created_at: datetime
    updated_at: datetime

    @classmethod
    def of(cls, tool: AgentTool, row: Any) -> "_SeenItem":
        name, _ = tool.listed_names
        return cls(tool, str(uuid5(tool.id, name)), name, row.created_at, row.updated_at)


def _show_as_seen(view: ToolView, tool: AgentTool) -> ToolView:
    """Return a stored tool as a toolset has it: what it sets is in none of the schemas."""
    name, alias = tool.listed_names
    inputs = view.inputs
    if tool.presets:
        inputs, _ = without_inputs(inputs, tool.presets)
    return replace(
        view, name=name, alias=alias, agent_name=tool.name, description=tool.description, inputs=inputs
    )


async def _filter_tools(
    session: AsyncSession, filters: ToolFilters, conditions: ToolConditions
) -> Select[Any]:
    """Return the select of tools with all filters but those by names and texts."""
    statement = tool_select(outputs=False)
    if filters.provider is not None:
        statement = statement.where(col(Provider.name) == filters.provider)
    if filters.tag is not None:
        statement = statement.where(has_tag(filters.tag))
    if filters.enabled is not None:
        statement = statement.where(is_enabled() if filters.enabled else is_disabled())
    if filters.state == "missing-credential":
        stored = await conditions.read_stored(session)
        statement = statement.where(lacks_credential(stored.slots))
    elif filters.state is not None:
        statement = statement.where(state_filter(filters.state))
    return statement


def _is_one_of(ids: Sequence[UUID]) -> ColumnElement[bool]:
    return col(Tool.id) == any_(cast(list(ids), ARRAY(Uuid)))


async def get_seen_tool(
    database: Database, collection: ToolCollection, *, name: str, full: bool = False
) -> tuple[ToolView, str]:
    """Return one tool by a name that it has in a collection, as the collection has it, and its entity tag,
    which changes with what a toolset changes; raise NotFound and AmbiguousTool. See `get_tool` for `full`.
    """
    if collection.is_registry:
        view = await get_tool(database, principal=collection.principal, name=name, full=full)
        return view, etag(view)
    tool = await collection.get(name)
    async with database.read_session() as session:
        statement = tool_select(full=full).where(col(Tool.id) == tool.id)
        seen = _show_as_seen(await _found(session, statement, name), tool)
    return seen, write_etag(f"{seen.version}-{tool.stamp}")


async def get_tool(database: Database, *, principal: Principal, name: str, full: bool = False) -> ToolView:
    """Return one tool by canonical name or alias; raise NotFound where there is none that the principal may
    see.

    With `full`, a large tool has the schemas that calls are validated against, not the slimmed ones that
    models see.
    """
    async with database.read_session() as session:
        return await _found(session, _visible(name, principal, full=full), name)


async def source_of(database: Database, tool: ToolView) -> SourceTexts:
    """Return what the source of a tool says, without what people have changed."""
    columns = (col(Tool.description), col(Tool.tags), col(Tool.keywords))
    statement = select(*columns).where(col(Tool.id) == tool.id)
    async with database.read_session() as session:
        row = (await session.execute(statement)).one()
    return SourceTexts(row.description, tuple(row.tags), tuple(row.keywords))


async def change_tool(
    database: Database,
    *,
    principal: Principal,
    name: str,
    changes: Mapping[str, Any],
    if_match: str | None,
    history: ToolHistoryWriter,
) -> ToolView:
    """Override what the source says with the changes, which are members of an override; None reverts to the
    source. Return the tool after it.

    Raises NotFound, PreconditionFailed where `if_match` names another version, Forbidden for removing the
    requirement of approval without the scope for approving, and InvalidInput for inputs that cannot be
    repeated in headers.
    """
    async with database.transaction() as session:
        if "requires_approval" in changes:
            await lock_names(session)
        before = await _locked(session, principal=principal, name=name, if_match=if_match)
        require_approver(principal, before.requires_approval, changes)
        check_header_inputs(before.inputs, changes)
        await store_overrides(session, {before.id: changes}, history=history, principal=principal)
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
        await lock_names(session)
        tool = await _locked(session, principal=principal, name=name, if_match=if_match)
        if not tool.custom:
            raise Conflict(
                f"The tool {tool.name} was imported, and the next import would restore it: disable it "
                'instead with PATCH and {"enabled": false}.'
            )
        await keep_requirements(session, actor=principal.key_id, provider_id=tool.provider_id)
        row = await session.get_one(Tool, tool.id)
        await history.write_changes(session, tool.provider_id, {row.source_key: []}, action="deleted")
        await session.delete(row)
        await session.flush()
        await record_event(
            session, actor=principal.key_id, action="deleted", object_type="tool", object_name=tool.name
        )
        await _record(session, tool)


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
    if if_match is not None and not matches_etag(if_match, etag(tool)):
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
