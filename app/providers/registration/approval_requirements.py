"""Required approvals that outlive their tools: kept by operation, whatever a tool is called.

    a tool gets a requirement        the operation is kept (`keep_requirements`)
    a tool is stored or changed      it gets the requirement of a kept operation (`apply_requirements`)
    an operation is kept      other tools about which nothing was decided get it (`require_of_others`)
    a variable changes      tools whose operation changes with it get it (`require_where_changed`)
    an approver frees the tool, or removes the requirement      the operation is not kept any more

So the requirement is a property of the stored tool, and a call reads nothing else. A tool that is there
already keeps what was decided about it for as long as its operation is the same. What a tool got like this
spreads no further: a wide one (`/{id}`, a socket) does not bring its requirement to all that it could call.
"""

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Text, and_, cast, delete, exists, or_, select, true, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event, record_events
from app.catalog.feed import record_change
from app.catalog.loader import VariableFinder
from app.catalog.tools import provider_filter, requires_approval, tool_select
from app.core import exact_json
from app.core.errors import Conflict, Forbidden, NotFound
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.core.uuid7 import uuid7
from app.protocols.operations import Operation, operation_of, socket_of
from app.protocols.variables import variables_of, with_variables
from app.providers.credentials.model import Json
from app.providers.registration.model import ToolDraft
from app.providers.registration.repository import lock_names, variables_for
from app.security.principal import Principal
from app.storage.database import Database
from app.storage.models import (
    TENANT,
    ApprovalRequirementRow,
    Override,
    Provider,
    Tool,
    now,
)

EVENT_TYPE: Final = "approval-requirement"
_UPGRADE: Final = "upgrade"
_ORDER: Final = Ordering(
    {"created_at": SortField(col(ApprovalRequirementRow.created_at), "created_at", datetime)},
    item_id=col(ApprovalRequirementRow.id),
)
_CHUNK: Final = 1_000


@dataclass(frozen=True, slots=True)
class ApprovalRequirements:
    """Lists and removes kept requirements, for keys that may decide about calls."""

    database: Database

    async def keep_existing(self) -> None:
        """Keep the operations of the tools for which a person required approval before an upgrade.

        A gateway does so when it starts: it reads the tools of which no requirement has the name, and the
        lock of names is taken only where one of them could make no call of a kept operation.
        """
        row = ApprovalRequirementRow
        named = exists().where(col(row.tool) == col(Tool.name), col(row.provider) == col(Provider.name))
        query = _select_tools().where(col(Override.requires_approval).is_(True), ~named)
        async with self.database.read_session() as session:
            tools = await _read_tools(session, query)
            kept = [_read_operation(row) for row in await _read_rows(session)] if tools else []
        if all(any(one.may_be(tool.operation) for one in kept) for tool in tools):
            return
        async with self.database.transaction() as session:
            await lock_names(session)
            await keep_requirements(session, actor=_UPGRADE)

    async def page(
        self, page: PageRequest, *, principal: Principal, provider: str | None, q: str | None
    ) -> Page[ApprovalRequirementRow]:
        """Return a page of the requirements that the key may see: with `provider` those of its tools, with
        `q` those in whose tool, origin or path it occurs. Raise InvalidInput for another list's cursor.
        """
        row = ApprovalRequirementRow
        statement = select(row).where(_is_visible(principal))
        if provider is not None:
            statement = statement.where(col(row.provider) == provider)
        if q is not None:
            statement = statement.where(contains(q, col(row.tool), col(row.origin), col(row.path)))
        async with self.database.read_session() as session:
            return await read_page(session, statement, ordering=_ORDER, page=page)

    async def get(self, requirement_id: UUID, *, principal: Principal) -> ApprovalRequirementRow:
        """Return a requirement; raise NotFound where there is none that the key may see."""
        async with self.database.read_session() as session:
            return await _require(session, requirement_id, principal)

    async def remove(self, requirement_id: UUID, *, principal: Principal) -> None:
        """Remove a requirement: tools that are stored from now on may make such calls without approval.

        Raise NotFound, and Conflict where a tool still has the requirement.
        """
        async with self.database.transaction() as session:
            await lock_names(session)
            row = await _require(session, requirement_id, principal)
            holders = [
                tool.name for tool in await _read_tools_with_requirement(session) if tool.digest == row.digest
            ]
            if holders:
                named = "A tool" if principal.is_restricted else f"The tool {holders[0]}"
                raise Conflict(
                    f"{named} that makes these calls requires approval still.",
                    hint="Set its `requires_approval` to false: that removes the requirement, too.",
                )
            await session.execute(
                delete(ApprovalRequirementRow).where(col(ApprovalRequirementRow.id) == row.id)
            )
            await _record(session, row, "deleted", actor=principal.key_id)


@dataclass(frozen=True, slots=True)
class _ToolWithOperation:
    """A tool and its operation; `is_stated` tells that its manifest requires approval, and nobody decided."""

    id: UUID
    name: str
    provider_id: UUID
    provider: str
    operation: Operation
    is_stated: bool = False

    @property
    def digest(self) -> bytes:
        return _compute_digest(self.operation)


async def keep_requirements(
    session: AsyncSession, *, actor: str, provider_id: UUID | None = None, decided: Collection[UUID] = ()
) -> list[Operation]:
    """Keep the operation of each tool for which a person requires approval, and of each one of a provider
    whose manifest does; return those of `decided` that were not kept before, for `require_of_others`.

    `decided` are the tools for which a person requires it just now. Of the others, those that could make the
    calls of a kept operation already may have got their requirement from it, and add nothing. The caller
    holds the lock of names.
    """
    candidates = await _read_tools_with_requirement(session, provider_id)
    if not candidates:
        return []
    # Of tools with one operation, the one that decides whether it is kept is the last.
    candidates.sort(key=lambda tool: (tool.id in decided, tool.is_stated))
    tools = {tool.digest: tool for tool in candidates}
    rows = await _read_rows(session)
    digests, kept = {row.digest for row in rows}, [_read_operation(row) for row in rows]
    created: list[Operation] = []
    for digest, tool in tools.items():
        operation = tool.operation
        if digest in digests:
            continue
        is_own = tool.is_stated or tool.id in decided
        if not is_own and any(one.may_be(operation) for one in kept):
            continue
        into = upsert(ApprovalRequirementRow).values(
            id=uuid7(),
            tenant_id=TENANT,
            digest=digest,
            protocol=operation.protocol,
            origin=operation.origin,
            method=operation.method,
            path=operation.path,
            operations=list(operation.names),
            tool=tool.name,
            provider=tool.provider,
            created_by=actor,
            created_at=now(),
        )
        stored = into.on_conflict_do_nothing().returning(ApprovalRequirementRow)
        row = (await session.scalars(stored)).one_or_none()
        if row is not None:
            if tool.id in decided:
                created.append(operation)
            await _record(session, row, "created", actor=actor)
    return created


async def require_of_others(session: AsyncSession, created: Sequence[Operation], *, actor: str) -> None:
    """Require approval of the tools that are there already, about which nothing was decided, and whose calls
    could be those of operations that were just kept.

    The last statements of a transaction but for change notices, which it writes, too.
    """
    if not created:
        return
    sockets = {socket_of(one.origin) for one in created}
    query = _select_tools().where(col(Override.requires_approval).is_(None), ~requires_approval())
    if "" not in sockets:
        providers = await session.execute(select(col(Provider.id), col(Provider.origins)))
        near = [
            row.id
            for row in providers
            if not row.origins or any(socket_of(origin) in sockets for origin in row.origins)
        ]
        query = query.where(or_(col(Tool.provider_id).in_(near), _has_variables()))
    tool_ids = [
        tool.id
        for tool in await _read_tools(session, query)
        if any(one.may_be(tool.operation) for one in created)
    ]
    await _require_and_notify(session, tool_ids, actor=actor)


async def operations_with_variables(session: AsyncSession, provider_id: UUID | None) -> dict[UUID, Operation]:
    """Return the operations of the tools of a provider, or of all, whose templates name variables, by tool:
    of those that require no approval, and none where no operation is kept.
    """
    if not await _read_rows(session):
        return {}
    query = _select_tools().where(_has_variables(), ~requires_approval())
    if provider_id is not None:
        query = query.where(col(Tool.provider_id) == provider_id)
    return {tool.id: tool.operation for tool in await _read_tools(session, query)}


async def require_where_changed(
    session: AsyncSession, before: Mapping[UUID, Operation], *, actor: str
) -> None:
    """Require approval of the tools whose operation, `before` a change of variables, was another one, and
    whose calls could now be those of a kept operation.

    The last statements of a transaction but for change notices, which it writes, too. The caller holds the
    lock of names.
    """
    if not before:
        return
    kept = [_read_operation(row) for row in await _read_rows(session)]
    tool_ids: list[UUID] = []
    ids = list(before)
    for start in range(0, len(ids), _CHUNK):
        query = _select_tools().where(col(Tool.id).in_(ids[start : start + _CHUNK]))
        tool_ids += [
            tool.id
            for tool in await _read_tools(session, query)
            if tool.operation != before[tool.id] and any(one.may_be(tool.operation) for one in kept)
        ]
    await _require_and_notify(session, tool_ids, actor=actor)


async def apply_requirements(
    session: AsyncSession,
    provider: Provider,
    drafts: Iterable[ToolDraft],
    *,
    before: Mapping[str, Json] | None = None,
    actor: str,
) -> None:
    """Require approval of the tools of a provider that were just stored from `drafts` and whose calls could
    be those of a kept operation.

    `before` are the templates that those had which existed already, by source key: with the operation that it
    had, such a tool keeps what was decided about it. The last statements about these tools in a transaction
    that holds the lock of names; `keep_requirements` comes before they are changed.
    """
    rows = await _read_rows(session)
    if not rows:
        return
    sockets = {socket_of(row.origin) for row in rows}
    near = [one for one in drafts if not one.origin or "" in sockets or socket_of(one.origin) in sockets]
    if not near:
        return
    values = await _read_public_values(
        session, provider.id, provider.name, [one.call_template for one in near]
    )
    kept = [_read_operation(row) for row in rows]
    named: list[str] = []
    for draft in near:
        old = None if before is None else before.get(draft.source_key)
        if old == draft.call_template:
            continue
        operation = operation_of(_replace_variables(draft.call_template, values), origin=draft.origin)
        if old is not None and not _is_other(old, operation, values):
            continue
        if any(one.may_be(operation) for one in kept):
            named.append(draft.source_key)
    for start in range(0, len(named), _CHUNK):
        await _require_approval(session, provider, named[start : start + _CHUNK], actor=actor)


async def forget_requirements(
    session: AsyncSession, tools: Collection[UUID], *, principal: Principal
) -> None:
    """Keep the operations of tools no longer: a key that may decide has removed their requirement.

    Raise Forbidden where a tool could make the calls of a kept operation that the key may not see.
    """
    affected = await _read_tools(session, _select_tools().where(col(Tool.id).in_(list(tools))))
    visible = set(
        (await session.scalars(select(col(ApprovalRequirementRow.id)).where(_is_visible(principal)))).all()
    )
    hidden = [_read_operation(row) for row in await _read_rows(session) if row.id not in visible]
    for tool in affected:
        if any(one.may_be(tool.operation) for one in hidden):
            raise Forbidden(
                f"The calls of {tool.name} could be some that require approval outside the limits of the API "
                "key.",
                hint="A key with `approvals:decide` that is not limited can free them.",
            )
    removed = (
        delete(ApprovalRequirementRow)
        .where(
            col(ApprovalRequirementRow.tenant_id) == TENANT,
            col(ApprovalRequirementRow.digest).in_([tool.digest for tool in affected]),
        )
        .returning(ApprovalRequirementRow)
    )
    for row in (await session.scalars(removed)).all():
        await _record(session, row, "deleted", actor=principal.key_id)


def operation_text(row: ApprovalRequirementRow) -> str:
    """Return what a kept operation does, in one line: `POST https://bank.example/transfers/{}`."""
    where = f"{row.origin}{row.path or ''}"
    return " ".join(part for part in (row.method, where, ", ".join(row.operations)) if part)


def _is_other(old: Json, operation: Operation, values: Mapping[str, str]) -> bool:
    """Return whether a tool whose template was `old` had another operation, or a requirement of its manifest,
    which goes with the manifest.
    """
    if (old.get("toolclad") or {}).get("human_approval") is True:
        return True
    return operation_of(_replace_variables(old, values)) != operation


async def _require_approval(
    session: AsyncSession, provider: Provider, keys: Sequence[str], *, actor: str
) -> None:
    of_drafts = (col(Tool.provider_id) == provider.id, col(Tool.source_key).in_(keys))
    query = _select_tools().where(*of_drafts, ~requires_approval())
    await _write_requirements(session, (await session.execute(query)).all(), actor=actor)


async def _require_and_notify(session: AsyncSession, tools: Sequence[UUID], *, actor: str) -> None:
    providers: set[UUID] = set()
    ordered = sorted(tools)
    for start in range(0, len(ordered), _CHUNK):
        ids = ordered[start : start + _CHUNK]
        await session.execute(
            select(col(Tool.id)).where(col(Tool.id).in_(ids)).order_by(col(Tool.id)).with_for_update()
        )
        query = _select_tools().where(col(Tool.id).in_(ids), ~requires_approval())
        rows = (await session.execute(query)).all()
        await _write_requirements(session, rows, actor=actor)
        changed = update(Tool).where(col(Tool.id).in_([row.id for row in rows]))
        changed = changed.values(version=col(Tool.version) + 1, updated_at=now())
        await session.execute(changed, execution_options={"synchronize_session": False})
        providers.update(row.owner for row in rows)
    for provider_id in sorted(providers):
        await record_change(session, kind="provider", provider_id=provider_id, object_id=str(provider_id))


async def _write_requirements(session: AsyncSession, tools: Sequence[Any], *, actor: str) -> None:
    if not tools:
        return
    into = upsert(Override).values([{"tool_id": row.id, "requires_approval": True} for row in tools])
    await session.execute(
        into.on_conflict_do_update(index_elements=["tool_id"], set_={"requires_approval": True})
    )
    detail = {"changed": ["requires_approval"], "reason": "the operation requires approval"}
    details = {row.name: detail for row in tools}
    await record_events(session, actor=actor, action="updated", object_type="tool", details=details)


async def _read_rows(session: AsyncSession) -> Sequence[ApprovalRequirementRow]:
    query = select(ApprovalRequirementRow).where(col(ApprovalRequirementRow.tenant_id) == TENANT)
    return (await session.scalars(query)).all()


def _has_variables() -> ColumnElement[bool]:
    return cast(col(Tool.call_template), Text).contains("$")


async def _read_tools_with_requirement(
    session: AsyncSession, provider_id: UUID | None = None
) -> list[_ToolWithOperation]:
    """Return the tools for which a person requires approval, and those of a provider whose manifest does: to
    look for manifests in all tools would read all of their templates.
    """
    tools = await _read_tools(session, _select_tools().where(col(Override.requires_approval).is_(True)))
    if provider_id is not None:
        of_provider = _select_tools().where(col(Tool.provider_id) == provider_id, requires_approval())
        tools += await _read_tools(session, of_provider)
    return tools


def _select_tools() -> Any:
    return tool_select().with_only_columns(
        col(Tool.id),
        col(Tool.name),
        col(Tool.call_template),
        col(Provider.id).label("owner"),
        col(Provider.name).label("by"),
        col(Override.requires_approval).label("decided"),
        requires_approval().label("requires"),
    )


async def _read_tools(session: AsyncSession, statement: Any) -> list[_ToolWithOperation]:
    rows = (await session.execute(statement)).all()
    owners: dict[UUID, tuple[str, list[Json]]] = {}
    for row in rows:
        owners.setdefault(row.owner, (row.by, []))[1].append(row.call_template)
    values = {
        owner: await _read_public_values(session, owner, name, templates)
        for owner, (name, templates) in owners.items()
    }
    return [
        _ToolWithOperation(
            row.id,
            row.name,
            row.owner,
            row.by,
            operation_of(_replace_variables(row.call_template, values[row.owner])),
            is_stated=row.requires and row.decided is None,
        )
        for row in rows
    ]


async def _read_public_values(
    session: AsyncSession, provider_id: UUID, provider: str, templates: Iterable[Json]
) -> dict[str, str]:
    """Return the values of the public variables that templates of a provider name."""
    names = {name for template in templates for name in variables_of(template)}
    if not names:
        return {}
    finder = VariableFinder(provider, await variables_for(session, provider_id), {})
    variables = {name: finder.find(name) for name in names}
    return {
        name: variable.value
        for name, variable in variables.items()
        if variable is not None and not variable.secret and variable.value is not None
    }


def _replace_variables(template: Json, values: Mapping[str, str]) -> Json:
    """Return a template with the variables that have a value here replaced."""
    if not values:
        return template
    replaced: Json = with_variables(template, lambda name: values.get(name, f"${{{name}}}"))
    return replaced


def _read_operation(row: ApprovalRequirementRow) -> Operation:
    return Operation(row.protocol, row.origin, row.method, row.path, tuple(row.operations))


def _compute_digest(operation: Operation) -> bytes:
    members = [operation.protocol, operation.origin, operation.method, operation.path, operation.names]
    return hashlib.sha256(exact_json.dumps(members)).digest()


def _is_visible(principal: Principal) -> ColumnElement[bool]:
    """Return the condition on requirements that a key may see: those of providers within its limits. A key
    that is limited to tags sees none whose provider is gone.
    """
    row = ApprovalRequirementRow
    within: ColumnElement[bool] = true()
    if principal.tags is not None:
        providers = select(col(Provider.name)).where(provider_filter(principal))
        within = col(row.provider).in_(providers)
    elif principal.providers is not None:
        within = col(row.provider).in_(sorted(principal.providers))
    return and_(col(row.tenant_id) == TENANT, within)


async def _require(
    session: AsyncSession, requirement_id: UUID, principal: Principal
) -> ApprovalRequirementRow:
    query = select(ApprovalRequirementRow).where(
        _is_visible(principal), col(ApprovalRequirementRow.id) == requirement_id
    )
    row: ApprovalRequirementRow | None = (await session.execute(query)).scalar_one_or_none()
    if row is None:
        raise NotFound(f"There is no requirement of approval {requirement_id}.")
    return row


async def _record(session: AsyncSession, row: ApprovalRequirementRow, action: str, *, actor: str) -> None:
    await record_event(
        session,
        actor=actor,
        action=action,
        object_type=EVENT_TYPE,
        object_name=str(row.id),
        detail={"operation": operation_text(row), "tool": row.tool},
    )
