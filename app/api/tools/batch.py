"""`POST /tools:batch`: changes many tools in one transaction, by the rules of a change of one tool."""

from collections import Counter
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final
from uuid import UUID

from sqlalchemy import or_, select
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.api.tools.header_inputs import check_header_inputs, header_inputs_of, inputs_by_tool
from app.api.tools.schemas_batch import (
    MAX_FILTERS,
    MAX_TOOLS,
    ToolBatch,
    ToolBatchCounts,
    ToolBatchItem,
    ToolBatchResult,
    ToolOperation,
)
from app.api.tools.service import has_text, state_filter
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
from app.providers.registration.overrides import (
    OverridableTool,
    overridable,
    overridable_select,
    require_approver,
    store_overrides,
)
from app.providers.registration.repository import lock_names
from app.providers.registration.tool_history import ToolHistoryWriter
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import Provider, Tool

_MAX_TAGS: Final = 64
_FLAGS: Final = ("enabled", "requires_approval", "publish_output_schema")


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
    body: ToolBatch,
    *,
    principal: Principal,
    history: ToolHistoryWriter,
    base_url: str = "",
) -> ToolBatchResult:
    """Apply the operations to the tools that they name or select, and return the result of each.

    With `atomic` nothing is stored where one of them fails; with `dry_run` nothing is stored at all. Raises
    InvalidInput where the operations select more tools than are changed at once, or have too many filters.
    """
    _require_few_filters(body)
    async with database.transaction() as session:
        if any(
            one.patch is not None and "requires_approval" in one.patch.model_fields_set
            for one in body.operations
        ):
            await lock_names(session)
        targets = await _targets(session, body, principal)
        changes = await _plan(session, targets, body, principal)
        failed = any(one.error is not None for one in targets)
        is_applied = not body.dry_run and not (body.atomic and failed)
        after: Mapping[UUID, OverridableTool] = {}
        if is_applied and changes:
            after = await store_overrides(session, changes, history=history, principal=principal)
    items = [_item(one, after, is_rolled_back=body.atomic and failed, base_url=base_url) for one in targets]
    counted = Counter(item.outcome for item in items)
    counts = ToolBatchCounts(
        changed=counted["changed"],
        unchanged=counted["unchanged"],
        failed=counted["failed"],
        rolled_back=counted["rolled_back"],
    )
    return ToolBatchResult(applied=is_applied, dry_run=body.dry_run, items=items, counts=counts)


def _require_few_filters(body: ToolBatch) -> None:
    """Raise InvalidInput where more operations have a filter than one request may have."""
    numbers = [number for number, one in enumerate(body.operations) if one.filter is not None]
    if len(numbers) > MAX_FILTERS:
        detail = f"The operations before this one have {MAX_FILTERS} filters already."
        raise InvalidInput(
            f"At most {MAX_FILTERS} operations have a filter.",
            errors=[FieldError(f"/operations/{numbers[MAX_FILTERS]}/filter", detail)],
            hint="Name the tools, or send several requests.",
        )


async def _targets(session: AsyncSession, body: ToolBatch, principal: Principal) -> list[_Target]:
    """Return the tools of each operation, in the order of the operations and of the names."""
    visible = overridable_select().where(principal_filter(principal))
    names = {one.tool for one in body.operations if one.tool is not None}
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
    for number, operation in enumerate(body.operations):
        if operation.tool is not None:
            targets.append(_Target(number, operation.tool, known.get(operation.tool)))
        else:
            selected = await _selected(session, operation, principal, limit=MAX_TOOLS + 1)
            targets += (_Target(number, tool.name, tool) for tool in selected)
        if len(targets) > MAX_TOOLS:
            detail = f"The operations up to this one select more than {MAX_TOOLS:,} tools."
            raise InvalidInput(
                f"At most {MAX_TOOLS:,} tools are changed at once.",
                errors=[FieldError(f"/operations/{number}", detail)],
                hint="Narrow the filter, e.g. to one provider, or send several requests.",
            )
    return targets


async def _selected(
    session: AsyncSession, operation: ToolOperation, principal: Principal, *, limit: int
) -> list[OverridableTool]:
    chosen = operation.filter
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
    session: AsyncSession, targets: list[_Target], body: ToolBatch, principal: Principal
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
    inputs = await inputs_by_tool(session, _with_header_inputs(targets, body))
    changes: dict[UUID, dict[str, Any]] = {}
    for target in targets:
        tool = None if target.tool is None else current.get(target.tool.id)
        try:
            if tool is None:
                raise NotFound(f"There is no tool {target.name}.")
            operation = body.operations[target.operation]
            members = _members(tool, operation, state[tool.id], changes.get(tool.id, {}))
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


def _with_header_inputs(targets: Iterable[_Target], body: ToolBatch) -> set[UUID]:
    """Return the ids of the tools of which an operation names inputs for headers."""
    patches = [one.patch for one in body.operations]
    naming = {
        number
        for number, patch in enumerate(patches)
        if patch is not None and header_inputs_of(patch.model_dump(exclude_unset=True))
    }
    return {one.tool.id for one in targets if one.tool is not None and one.operation in naming}


def _members(
    tool: OverridableTool, operation: ToolOperation, state: Mapping[str, Any], earlier: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members of the override that an operation changes.

    `state` are the tool's values after the operations before it, `earlier` what these set. Raises
    PreconditionFailed and Conflict.
    """
    if operation.if_match is not None and not matches_etag(operation.if_match, tool.etag):
        raise PreconditionFailed(f"{tool.name} has changed since it was read: its ETag is {tool.etag} now.")
    members = operation.patch.model_dump(exclude_unset=True) if operation.patch is not None else {}
    if operation.add_tags or operation.remove_tags:
        members["tags"] = _tags(tool, operation, state["tags"], is_own="tags" in earlier or tool.has_own_tags)
    own = tool.overridden | earlier.keys()
    return {name: value for name, value in members.items() if _differs(name, value, state, own)}


def _differs(name: str, value: Any, state: Mapping[str, Any], own: AbstractSet[str]) -> bool:
    """Return whether setting a field has an effect; `own` are the fields that a person has set."""
    if value is None:
        return name in own
    # Tags of the source that are set become those of a registrar, and a description no longer follows it.
    return bool(value != state[name]) or (name not in _FLAGS and name not in own)


def _tags(tool: OverridableTool, operation: ToolOperation, tags: list[str], *, is_own: bool) -> list[str]:
    removed = set(operation.remove_tags)
    found = [tag for tag in dict.fromkeys([*tags, *operation.add_tags]) if tag not in removed]
    adopted = [tag for tag in found if tag in tags and tag not in operation.add_tags]
    if adopted and not is_own and not operation.adopt_source_tags:
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


def _item(
    target: _Target, after: Mapping[UUID, OverridableTool], *, is_rolled_back: bool, base_url: str
) -> ToolBatchItem:
    error = target.error
    stored = None if target.tool is None else after.get(target.tool.id, target.tool)
    visible = None if stored is None or isinstance(error, NotFound) else stored
    if error is not None:
        outcome, status = "failed", error.status
    elif is_rolled_back:
        outcome, status = "rolled_back", 424
    else:
        outcome, status = ("changed" if target.changed else "unchanged"), 200
    return ToolBatchItem(
        operation=target.operation,
        name=target.name,
        outcome=outcome,
        status=status,
        version=None if visible is None else visible.version,
        changed=[] if error is not None else target.changed,
        problem=None if error is None else error.as_problem(base_url=base_url),
    )


def has_failures(items: Iterable[ToolBatchItem]) -> bool:
    """Return whether one of the items failed."""
    return any(item.outcome == "failed" for item in items)
