"""Changes many tools in one transaction, by the rules of a change of one tool."""

from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final, Literal
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import has_tag, principal_filter
from app.core.errors import (
    Conflict,
    FieldError,
    GatewayError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
)
from app.core.pagination import matches_etag
from app.providers.registration.header_inputs import check_header_inputs, header_inputs_of, inputs_by_tool
from app.providers.registration.overrides import (
    OverridableTool,
    overridable,
    overridable_select,
    require_approver,
    store_overrides,
)
from app.providers.registration.repository import lock_names
from app.providers.registration.tool_history import ToolHistoryWriter
from app.providers.tools.service import ToolFilters, has_text, state_filter
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Provider, Tool

MAX_TOOLS: Final = 1_000
"""At most so many tools are changed at once."""
MAX_FILTERS: Final = 50
"""At most so many operations of one batch have a filter: each reads the tools anew."""
_MAX_TAGS: Final = 64
_FLAGS: Final = ("enabled", "requires_approval", "publish_output_schema")


@dataclass(frozen=True, slots=True)
class OperationDraft:
    """A change of the tool of a name, or of all tools that the filters select.

    `changes` are the members of the override to set; None reverts to the source. `adopts_source_tags` tells
    whether the remaining tags of the source may become those of a registrar. `if_match` is for a named tool.
    """

    tool: str | None = None
    filters: ToolFilters | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    add_tags: Sequence[str] = ()
    remove_tags: Sequence[str] = ()
    adopts_source_tags: bool = False
    if_match: str | None = None


@dataclass(frozen=True, slots=True)
class BatchDraft:
    """Operations that are applied in their order in one transaction.

    With `atomic` nothing is stored where one of them fails; with `dry_run` nothing is stored at all.
    """

    operations: Sequence[OperationDraft]
    atomic: bool = False
    dry_run: bool = False


@dataclass(frozen=True, slots=True)
class ToolOutcome:
    """The result of the operation of this number for one tool.

    `name` is canonical; as given, where there is no such tool. `version` is that of the tool as stored, None
    where the principal sees none. `changed` are the fields that differ afterwards.
    """

    operation: int
    name: str
    outcome: Literal["changed", "unchanged", "failed", "rolled_back"]
    version: int | None
    changed: Sequence[str]
    error: GatewayError | None = None


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The results of a batch, and whether its changes were stored."""

    applied: bool
    outcomes: Sequence[ToolOutcome]


@dataclass(slots=True)
class _Target:
    """One tool that one operation changes; `tool` is None where there is none of this name."""

    operation: int
    name: str
    tool: OverridableTool | None
    error: GatewayError | None = None
    changed: list[str] = field(default_factory=list)


async def change_tools(
    database: Database,
    batch: BatchDraft,
    *,
    principal: Principal,
    history: ToolHistoryWriter,
) -> BatchOutcome:
    """Apply the operations to the tools that they name or select, and return the result of each.

    Raises InvalidInput where the operations select more tools than are changed at once, or have too many
    filters.
    """
    _require_few_filters(batch)
    async with database.transaction() as session:
        if any("requires_approval" in operation.changes for operation in batch.operations):
            await lock_names(session)
        targets = await _find_targets(session, batch, principal)
        changes = await _plan(session, targets, batch, principal)
        failed = any(one.error is not None for one in targets)
        is_applied = not batch.dry_run and not (batch.atomic and failed)
        after: Mapping[UUID, OverridableTool] = {}
        if is_applied and changes:
            after = await store_overrides(session, changes, history=history, principal=principal)
    is_rolled_back = batch.atomic and failed
    outcomes = tuple(_describe_outcome(target, after, is_rolled_back=is_rolled_back) for target in targets)
    return BatchOutcome(is_applied, outcomes)


def _require_few_filters(batch: BatchDraft) -> None:
    """Raise InvalidInput where more operations have a filter than one request may have."""
    numbers = [number for number, one in enumerate(batch.operations) if one.filters is not None]
    if len(numbers) > MAX_FILTERS:
        detail = f"The operations before this one have {MAX_FILTERS} filters already."
        raise InvalidInput(
            f"At most {MAX_FILTERS} operations have a filter.",
            errors=[FieldError(f"/operations/{numbers[MAX_FILTERS]}/filter", detail)],
            hint="Name the tools, or send several requests.",
        )


async def _find_targets(session: AsyncSession, batch: BatchDraft, principal: Principal) -> list[_Target]:
    """Return the tools of each operation, in the order of the operations and of the names."""
    visible = overridable_select().where(principal_filter(principal))
    names = {one.tool for one in batch.operations if one.tool is not None}
    by_name = (
        col(Tool.name).in_(sorted(one for one in names if "." in one)),
        col(Tool.alias).in_(sorted(one for one in names if "." not in one)),
    )
    known: dict[str, OverridableTool] = {}
    if names:
        found = await session.execute(
            visible.add_columns(col(Tool.alias).label("alias")).where(or_(*by_name))
        )
        for row in found:
            known[row.name] = known[row.alias] = overridable(row)
    targets: list[_Target] = []
    for number, operation in enumerate(batch.operations):
        if operation.tool is not None:
            targets.append(_Target(number, operation.tool, known.get(operation.tool)))
        else:
            selected = await _select_tools(session, operation, principal, limit=MAX_TOOLS + 1)
            targets += (_Target(number, tool.name, tool) for tool in selected)
        if len(targets) > MAX_TOOLS:
            detail = f"The operations up to this one select more than {MAX_TOOLS:,} tools."
            raise InvalidInput(
                f"At most {MAX_TOOLS:,} tools are changed at once.",
                errors=[FieldError(f"/operations/{number}", detail)],
                hint="Narrow the filter, e.g. to one provider, or send several requests.",
            )
    return targets


async def _select_tools(
    session: AsyncSession, operation: OperationDraft, principal: Principal, *, limit: int
) -> list[OverridableTool]:
    chosen = operation.filters
    if chosen is None:
        return []
    statement = overridable_select().where(principal_filter(principal))
    if chosen.provider is not None:
        statement = statement.where(col(Provider.name) == chosen.provider)
    if chosen.tag is not None:
        statement = statement.where(has_tag(chosen.tag))
    if chosen.q is not None:
        statement = statement.where(has_text(chosen.q))
    if chosen.state is not None:
        statement = statement.where(state_filter(chosen.state))
    found = await session.execute(statement.order_by(col(Tool.name)).limit(limit))
    return [overridable(row) for row in found]


async def _plan(
    session: AsyncSession, targets: list[_Target], batch: BatchDraft, principal: Principal
) -> dict[UUID, dict[str, Any]]:
    """Lock the tools, set the errors and changed fields of the targets, and return what is to be stored."""
    ids = sorted({one.tool.id for one in targets if one.tool is not None})
    # In the order of their ids, so that concurrent batches cannot deadlock.
    await session.execute(
        select(col(Tool.id)).where(col(Tool.id).in_(ids)).order_by(col(Tool.id)).with_for_update()
    )
    locked = overridable_select().where(col(Tool.id).in_(ids), principal_filter(principal))
    current = {row.id: overridable(row) for row in await session.execute(locked)}
    state = {key: one.values() for key, one in current.items()}
    inputs = await inputs_by_tool(session, _with_header_inputs(targets, batch))
    changes: dict[UUID, dict[str, Any]] = {}
    for target in targets:
        tool = None if target.tool is None else current.get(target.tool.id)
        try:
            if tool is None:
                raise NotFound(f"There is no tool {target.name}.")
            operation = batch.operations[target.operation]
            members = _find_changed_members(tool, operation, state[tool.id], changes.get(tool.id, {}))
            require_approver(principal, tool.requires_approval, members)
            check_header_inputs(inputs.get(tool.id), members, at="/patch")
        except GatewayError as error:
            target.error = error
            continue
        target.name = tool.name
        target.changed = sorted(members)
        if members:
            changes.setdefault(tool.id, {}).update(members)
            state[tool.id].update({name: value for name, value in members.items() if value is not None})
    return changes


def _with_header_inputs(targets: Iterable[_Target], batch: BatchDraft) -> set[UUID]:
    """Return the ids of the tools of which an operation names inputs for headers."""
    naming = {
        number for number, operation in enumerate(batch.operations) if header_inputs_of(operation.changes)
    }
    return {one.tool.id for one in targets if one.tool is not None and one.operation in naming}


def _find_changed_members(
    tool: OverridableTool, operation: OperationDraft, state: Mapping[str, Any], earlier: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members of the override that an operation changes.

    `state` are the tool's values after the operations before it, `earlier` what these set. Raises
    PreconditionFailed and Conflict.
    """
    if operation.if_match is not None and not matches_etag(operation.if_match, tool.etag):
        raise PreconditionFailed(f"{tool.name} has changed since it was read: its ETag is {tool.etag} now.")
    members = dict(operation.changes)
    if operation.add_tags or operation.remove_tags:
        members["tags"] = _change_tags(
            tool, operation, state["tags"], is_own="tags" in earlier or tool.has_own_tags
        )
    own = tool.overridden | earlier.keys()
    return {name: value for name, value in members.items() if _differs(name, value, state, own)}


def _differs(name: str, value: Any, state: Mapping[str, Any], own: AbstractSet[str]) -> bool:
    """Return whether setting a field has an effect; `own` are the fields that a person has set."""
    if value is None:
        return name in own
    # Tags of the source that are set become those of a registrar, and a description no longer follows it.
    return bool(value != state[name]) or (name not in _FLAGS and name not in own)


def _change_tags(
    tool: OverridableTool, operation: OperationDraft, tags: list[str], *, is_own: bool
) -> list[str]:
    removed = set(operation.remove_tags)
    found = [tag for tag in dict.fromkeys([*tags, *operation.add_tags]) if tag not in removed]
    adopted = [tag for tag in found if tag in tags and tag not in operation.add_tags]
    if adopted and not is_own and not operation.adopts_source_tags:
        raise Conflict(
            f"The tags of {tool.name} are those of its source. Changed ones would be set by a registrar, and "
            f"admit keys that are restricted to them: {', '.join(adopted)}.",
            hint="Give `adopt_source_tags` true to set these tags, too, or set all tags with `patch`.",
        )
    if len(found) > _MAX_TAGS:
        raise InvalidInput(
            f"A tool has at most {_MAX_TAGS} tags.",
            errors=[FieldError("/add_tags", f"{tool.name} would have {len(found)} tags.")],
        )
    return found


def _describe_outcome(
    target: _Target, after: Mapping[UUID, OverridableTool], *, is_rolled_back: bool
) -> ToolOutcome:
    error = target.error
    stored = None if target.tool is None else after.get(target.tool.id, target.tool)
    outcome: Literal["changed", "unchanged", "failed", "rolled_back"]
    if error is not None:
        outcome = "failed"
    elif is_rolled_back:
        outcome = "rolled_back"
    else:
        outcome = "changed" if target.changed else "unchanged"
    return ToolOutcome(
        operation=target.operation,
        name=target.name,
        outcome=outcome,
        version=None if stored is None or isinstance(error, NotFound) else stored.version,
        changed=() if error is not None else tuple(target.changed),
        error=error,
    )
