"""What people change on tools, stored with its version, history, events and change notices.

Used by the change of one tool, by that of many, and where the gateway withdraws an output schema.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Select, false, func, select, true, update
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.access.events import record_event, record_events
from app.catalog.feed import record_change
from app.catalog.tools import OVERRIDDEN, is_custom, requires_approval, tool_select
from app.core.errors import FieldError, scopes_missing
from app.core.pagination import write_etag
from app.protocols.operations import Operation
from app.providers.registration.approval_requirements import (
    forget_requirements,
    keep_requirements,
    require_of_others,
)
from app.providers.registration.tool_history import ToolHistoryWriter, build_field_change
from app.security.principal import Principal
from app.storage.models import Override, Tool, now

_APPROVER: Final = "approvals:decide"
_UNSYNCHRONIZED: Final = {"synchronize_session": False}


@dataclass(frozen=True, slots=True)
class OverridableTool:
    """The parts of a tool that a person can change, as they apply now, and what identifies it.

    `enabled` is the tool's own, whether or not its provider is enabled. `has_own_tags` tells that a registrar
    set the tags: only such tags count for the restriction of a key to tags.
    """

    id: UUID
    provider_id: UUID
    source_key: str
    name: str
    version: int
    description: str
    tags: tuple[str, ...]
    keywords: tuple[str, ...]
    enabled: bool
    requires_approval: bool
    annotations: dict[str, Any] | None
    response_options: dict[str, Any] | None
    publish_output_schema: bool
    has_own_tags: bool
    overridden: frozenset[str] = frozenset()
    """The fields whose value a person has set in place of the source's."""

    @property
    def etag(self) -> str:
        """The strong entity tag: the version in quotes (RFC 9110 section 8.8.3)."""
        return write_etag(self.version)

    def values(self) -> dict[str, Any]:
        """Return the fields of `OVERRIDDEN` as they apply now, as JSON values."""
        lists = {"tags": list(self.tags), "keywords": list(self.keywords)}
        return {name: getattr(self, name) for name in OVERRIDDEN} | lists


def overridable_select() -> Select[Any]:
    """Return a select of the columns that `overridable()` reads, joined to provider and override."""
    columns: list[Any] = [
        col(Tool.id).label("id"),
        col(Tool.provider_id).label("provider_id"),
        col(Tool.source_key).label("source_key"),
        col(Tool.name).label("name"),
        col(Tool.version).label("version"),
        func.coalesce(
            col(Override.description), col(Tool.slimmed)["description"].astext, col(Tool.description)
        ).label("description"),
        func.coalesce(col(Override.tags), col(Tool.tags)).label("tags"),
        func.coalesce(col(Override.keywords), col(Tool.keywords)).label("keywords"),
        func.coalesce(col(Override.enabled), true()).label("enabled"),
        requires_approval().label("requires_approval"),
        col(Override.annotations).label("annotations"),
        col(Override.response_options).label("response_options"),
        func.coalesce(col(Override.publish_output_schema), false()).label("publish_output_schema"),
        *(col(getattr(Override, name)).is_not(None).label(f"own_{name}") for name in OVERRIDDEN),
        (is_custom() | col(Override.tags).is_not(None)).label("has_own_tags"),
    ]
    return tool_select().with_only_columns(*columns)


def overridable(row: Any) -> OverridableTool:
    """Return a row of `overridable_select()` as an OverridableTool."""
    return OverridableTool(
        id=row.id,
        provider_id=row.provider_id,
        source_key=row.source_key,
        name=row.name,
        version=row.version,
        description=row.description,
        tags=tuple(row.tags),
        keywords=tuple(row.keywords),
        enabled=row.enabled,
        requires_approval=row.requires_approval,
        annotations=row.annotations,
        response_options=row.response_options,
        publish_output_schema=row.publish_output_schema,
        has_own_tags=row.has_own_tags,
        overridden=frozenset(name for name in OVERRIDDEN if getattr(row, f"own_{name}")),
    )


def require_approver(
    principal: Principal, requires_approval: bool, changes: Mapping[str, Any], *, at: str = ""
) -> None:
    """Raise Forbidden where the changes decide that the calls of a tool need no approval, and the key may not
    approve them.

    A decision against it, also where nothing requires it yet, holds against later requirements of the same
    operation. `at` is the JSON pointer of the changes in the request.
    """
    wanted = changes.get("requires_approval", True)
    if wanted or (wanted is None and not requires_approval) or principal.has_scope(_APPROVER):
        return
    error = scopes_missing(
        f"The API key lacks the scope `{_APPROVER}`, which is required for deciding that calls need no "
        "approval.",
        [_APPROVER],
    )
    error.errors = (
        FieldError(f"{at}/requires_approval", f"Changing this requires the scope `{_APPROVER}`."),
    )
    raise error


async def store_overrides(
    session: AsyncSession,
    changes: Mapping[UUID, Mapping[str, Any]],
    *,
    history: ToolHistoryWriter,
    principal: Principal | None = None,
) -> dict[UUID, OverridableTool]:
    """Change the overrides of tools, whose rows are locked, and return the tools after it, by id.

    `changes` are the members of the overrides to set, by the id of the tool; None reverts to the source.
    Where they publish an output schema, or revert that, deviations from it are counted anew. Where they
    change `requires_approval`, the caller holds the lock of names. `history` has the actor of the changes;
    where they free calls from approval, `principal` is the key, and Forbidden is raised where its limits
    exclude what requires that.
    The last statements of a transaction: the caller calls `feed.catch_up()` after its commit.
    """
    before = await _read(session, changes)
    query = select(Override).where(col(Override.tool_id).in_(list(changes)))
    stored = {row.tool_id: row for row in (await session.execute(query)).scalars()}
    for tool_id, members in changes.items():
        override = stored.get(tool_id) or Override(tool_id=tool_id)
        for field, value in members.items():
            setattr(override, field, value)
        if members.get("publish_output_schema", False) is not False:
            forget_deviations(override)
        if any(getattr(override, name) is not None for name in OVERRIDDEN):
            session.add(override)
        elif tool_id in stored:
            await session.delete(override)
    await session.flush()
    bumped = update(Tool).where(col(Tool.id).in_(list(changes)))
    bumped = bumped.values(version=col(Tool.version) + 1, updated_at=now())
    await session.execute(bumped, execution_options=_UNSYNCHRONIZED)
    after = await _read(session, changes)
    await _write_history(session, before, after, history=history)
    created = await _keep_requirements(session, before, after, changes, history.actor, principal)
    if len(changes) == 1:
        (tool_id,) = changes
        await record_event(
            session,
            actor=history.actor,
            action="updated",
            object_type="tool",
            object_name=before[tool_id].name,
            detail={"changed": sorted(changes[tool_id])},
        )
    else:
        details = {before[one].name: {"changed": sorted(members)} for one, members in changes.items()}
        await record_events(
            session, actor=history.actor, action="updated", object_type="tool", details=details
        )
    await require_of_others(session, created, actor=history.actor)
    await record_tool_changes(session, before.values())
    return after


async def _keep_requirements(
    session: AsyncSession,
    before: Mapping[UUID, OverridableTool],
    after: Mapping[UUID, OverridableTool],
    changes: Mapping[UUID, Mapping[str, Any]],
    actor: str,
    principal: Principal | None,
) -> list[Operation]:
    """Return the operations that were not kept before."""
    freed = [key for key, old in before.items() if old.requires_approval > after[key].requires_approval]
    if freed and principal is not None:
        await forget_requirements(session, freed, principal=principal)
    decided = [key for key, members in changes.items() if members.get("requires_approval")]
    if not decided and not any(
        old.requires_approval < after[key].requires_approval for key, old in before.items()
    ):
        return []
    return await keep_requirements(session, actor=actor, decided=decided)


def forget_deviations(override: Override) -> None:
    """Make an override one whose output schema no result has deviated from."""
    override.output_deviations = 0
    override.deviations_schema = None
    override.output_schema_withdrawn_at = None


async def record_tool_changes(session: AsyncSession, tools: Iterable[OverridableTool]) -> None:
    """Write the change notices of tools: one for the whole provider where several of its tools changed."""
    by_provider: dict[UUID, list[OverridableTool]] = {}
    for tool in tools:
        by_provider.setdefault(tool.provider_id, []).append(tool)
    for provider_id, changed in by_provider.items():
        if len(changed) == 1:
            await record_change(session, kind="tool", provider_id=provider_id, object_id=str(changed[0].id))
        else:
            await record_change(session, kind="provider", provider_id=provider_id, object_id=str(provider_id))


async def _read(session: AsyncSession, ids: Iterable[UUID]) -> dict[UUID, OverridableTool]:
    rows = await session.execute(overridable_select().where(col(Tool.id).in_(list(ids))))
    return {row.id: overridable(row) for row in rows}


async def _write_history(
    session: AsyncSession,
    before: Mapping[UUID, OverridableTool],
    after: Mapping[UUID, OverridableTool],
    *,
    history: ToolHistoryWriter,
) -> None:
    by_provider: dict[UUID, dict[str, Sequence[dict[str, Any]]]] = {}
    for tool_id, old in before.items():
        was, now_is = old.values(), after[tool_id].values()
        changes = [
            build_field_change(name, was[name], now_is[name])
            for name in OVERRIDDEN
            if was[name] != now_is[name]
        ]
        if changes:
            by_provider.setdefault(old.provider_id, {})[old.source_key] = changes
    for provider_id, changes_by_key in by_provider.items():
        await history.write_changes(session, provider_id, changes_by_key, action="overridden")
