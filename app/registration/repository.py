"""The SQL of the control plane: providers, their tools, credentials, variables and overrides.

Overrides are what people changed on tools. They are retained when a refresh removes a tool, and restored with
it.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Text, cast, delete, exists, func, insert, or_, select, text, update
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import provider_filter
from app.credentials.model import Json
from app.database import store_valid_rows
from app.models import (
    TENANT,
    Credential,
    Override,
    Provider,
    RetainedOverride,
    Revision,
    SourceRow,
    Tool,
    Variable,
    new_id,
    now,
)
from app.protocols.variables import variables_of
from app.registration.model import ToolDraft
from app.security.principal import Principal
from app.utcp.names import alias_for, legal_name

_LOCK: Final = text("SELECT pg_advisory_xact_lock(7235)")
_CHUNK: Final = 200
_ID_CHUNK: Final = 5_000
_OVERRIDDEN: Final = ("description", "tags", "enabled")
# Else the ORM looks for the rows of each statement among all objects of the session: n * n for n tools.
_UNSYNCHRONIZED: Final = {"synchronize_session": False}


async def lock_names(session: AsyncSession) -> None:
    """Wait for other registrations to end: names and aliases are chosen by looking at those that exist."""
    await session.execute(_LOCK)


async def provider_named(session: AsyncSession, name: str, *, locked: bool = False) -> Provider | None:
    """Return the provider of this name; `locked` keeps it from changing until the transaction ends."""
    query = select(Provider).where(col(Provider.tenant_id) == TENANT, col(Provider.name) == name)
    return (await session.execute(query.with_for_update() if locked else query)).scalar_one_or_none()


async def page_of_providers(
    session: AsyncSession, *, principal: Principal, after: str, limit: int
) -> list[Provider]:
    """Return up to `limit` providers that the key may see, by name, after the name `after`."""
    query = select(Provider).where(
        col(Provider.tenant_id) == TENANT, provider_filter(principal), col(Provider.name).collate("C") > after
    )
    found = await session.execute(query.order_by(col(Provider.name).collate("C")).limit(limit))
    return list(found.scalars())


async def tool_counts(session: AsyncSession, ids: Sequence[UUID]) -> dict[UUID, int]:
    """Return the number of tools of each provider that has some."""
    query = select(col(Tool.provider_id), func.count()).where(col(Tool.provider_id).in_(ids))
    return {row[0]: row[1] for row in await session.execute(query.group_by(col(Tool.provider_id)))}


async def credentials_of(session: AsyncSession, ids: Sequence[UUID]) -> list[Credential]:
    """Return the stored credentials of providers, sorted by slot."""
    query = select(Credential).where(
        col(Credential.provider_id).in_(ids), col(Credential.principal).is_(None)
    )
    return list((await session.execute(query.order_by(col(Credential.slot)))).scalars())


async def variables_for(session: AsyncSession, provider_id: UUID | None) -> list[Variable]:
    """Return the variables of the tenant and those of one provider."""
    own = or_(col(Variable.provider_id).is_(None), col(Variable.provider_id) == provider_id)
    query = select(Variable).where(col(Variable.tenant_id) == TENANT, own)
    return list((await session.execute(query)).scalars())


async def names_in_use(session: AsyncSession, provider: Provider) -> set[str]:
    """Return the names of variables in a provider's stored templates and credentials, as they are stored."""
    query = select(col(Tool.call_template)).where(
        col(Tool.provider_id) == provider.id, cast(col(Tool.call_template), Text).contains("$")
    )
    templates = [provider.call_template, *(await session.execute(query)).scalars()]
    named = {name for one in templates for name in variables_of(one)}
    return named.union(*(row.variable_names for row in await credentials_of(session, [provider.id])))


async def source_of(session: AsyncSession, provider_id: UUID) -> SourceRow | None:
    """Return the newest source of a provider, if it has one."""
    query = select(SourceRow).where(col(SourceRow.provider_id) == provider_id)
    return (await session.execute(query.order_by(col(SourceRow.id).desc()).limit(1))).scalar_one_or_none()


async def source_facts(session: AsyncSession, ids: Sequence[UUID]) -> dict[UUID, Json]:
    """Return what may be shown of the sources of providers, by provider and without their bytes."""
    size = func.length(col(SourceRow.body))
    overlay = func.encode(func.sha256(func.convert_to(col(SourceRow.overlay), "UTF8")), "hex")
    columns = (
        col(SourceRow.provider_id), SourceRow.format, SourceRow.url, SourceRow.media_type, SourceRow.sha256,
        size, SourceRow.root, overlay, SourceRow.follows,
    )  # fmt: skip
    query = select(*columns).where(col(SourceRow.provider_id).in_(ids)).order_by(col(SourceRow.id))  # type: ignore[call-overload]
    keys = ("format", "url", "media_type", "sha256", "bytes", "root", "overlay_sha256", "follow_references")
    return {row[0]: dict(zip(keys, row[1:], strict=True)) for row in await session.execute(query)}


async def report_of(session: AsyncSession, provider_id: UUID) -> Json:
    """Return the report of the import whose tools are in use; {} where all tools are custom ones."""
    query = select(col(Revision.report)).where(
        col(Revision.provider_id) == provider_id, col(Revision.state) == "active"
    )
    found = await session.execute(query.order_by(col(Revision.id).desc()).limit(1))
    return found.scalar_one_or_none() or {}


async def pending_of(session: AsyncSession, provider_id: UUID) -> Revision | None:
    """Return the revision that waits for approval, if there is one."""
    query = select(Revision).where(col(Revision.provider_id) == provider_id, col(Revision.state) == "pending")
    return (await session.execute(query.order_by(col(Revision.id).desc()).limit(1))).scalar_one_or_none()


async def drop_pending(session: AsyncSession, provider: Provider) -> None:
    """Delete what waits for approval."""
    pending = (col(Revision.provider_id) == provider.id, col(Revision.state) == "pending")
    await session.execute(delete(Revision).where(*pending))


async def active_revision(session: AsyncSession, provider_id: UUID) -> UUID | None:
    """Return the id of the import whose tools are in use."""
    query = select(col(Revision.id)).where(
        col(Revision.provider_id) == provider_id, col(Revision.state) == "active"
    )
    return (await session.execute(query.order_by(col(Revision.id).desc()).limit(1))).scalar_one_or_none()


async def tools_of(session: AsyncSession, provider_id: UUID) -> list[Tool]:
    """Return all tools of a provider, by name.

    They are read some at a time, between which other tasks run: making objects of 10,000 rows takes half a
    second.
    """
    tools: list[Tool] = []
    while True:
        query = (
            select(Tool).where(col(Tool.provider_id) == provider_id).order_by(col(Tool.name)).limit(_CHUNK)
        )
        if tools:
            query = query.where(col(Tool.name) > tools[-1].name)
        found = (await session.execute(query)).scalars().all()
        tools += found
        if len(found) < _CHUNK:
            return tools


async def insert_tools(
    session: AsyncSession, provider: Provider, drafts: Sequence[ToolDraft], *, revision_id: UUID | None
) -> tuple[dict[str, str], list[str]]:
    """Store tools under new names, while the names are locked.

    Returns the canonical names of all tools by source key, and the source keys of those that PostgreSQL
    rejects.
    """
    names = await _local_names(session, provider)
    used = set(names.values())
    rejected: list[str] = []

    async def store(rows: Sequence[Json]) -> None:
        await session.execute(insert(Tool), [*rows])

    for chunk in _chunks(drafts):
        rows: list[Json] = []
        for draft in chunk:
            names[draft.source_key] = legal_name(draft.name, used)
            used.add(names[draft.source_key])
        taken = await _taken_aliases(session, provider.name, [names[draft.source_key] for draft in chunk])
        for draft in chunk:
            local = names[draft.source_key]
            alias = alias_for(provider.name, local, taken)
            taken.add(alias)
            revision = None if draft.is_custom else revision_id
            rows.append(_row(draft, provider, revision, name=f"{provider.name}.{local}", alias=alias))
        rejected += [row["source_key"] for row in await store_valid_rows(session, rows, store)]
    return {key: f"{provider.name}.{local}" for key, local in names.items() if key not in rejected}, rejected


async def update_tools(
    session: AsyncSession, existing: Mapping[str, Tool], drafts: Sequence[ToolDraft]
) -> list[str]:
    """Replace what the source says of tools that exist; their names, aliases and overrides stay.

    Returns the source keys of those that PostgreSQL rejects, which stay as they are.
    """

    async def store(part: Sequence[ToolDraft]) -> None:
        for draft in part:
            tool = existing[draft.source_key]
            changed = {**draft.columns(), "version": tool.version + 1, "updated_at": now()}
            statement = update(Tool).where(col(Tool.id) == tool.id).values(**changed)
            await session.execute(statement, execution_options=_UNSYNCHRONIZED)

    rejected = [await store_valid_rows(session, chunk, store) for chunk in _chunks(drafts)]
    return [draft.source_key for part in rejected for draft in part]


async def delete_tools(session: AsyncSession, tools: Iterable[Tool]) -> None:
    """Delete tools with their overrides; `retain_overrides` comes before it."""
    ids = [tool.id for tool in tools]
    for start in range(0, len(ids), _ID_CHUNK):
        await session.execute(delete(Tool).where(col(Tool.id).in_(ids[start : start + _ID_CHUNK])))


async def activate(session: AsyncSession, provider: Provider, source: SourceRow, *, report: Json) -> Revision:
    """Store a source and an active revision of it, which supersedes earlier ones, and delete their bytes."""
    older = (col(Revision.provider_id) == provider.id,)
    await session.execute(update(Revision).where(*older).values(state="superseded", source_id=None))
    await session.execute(delete(SourceRow).where(col(SourceRow.provider_id) == provider.id))
    session.add(source)
    await session.flush()
    revision = Revision(provider_id=provider.id, source_id=source.id, report=report)
    session.add(revision)
    await session.flush()
    from_source = (col(Tool.provider_id) == provider.id, col(Tool.revision_id).is_not(None))
    statement = update(Tool).where(*from_source).values(revision_id=revision.id)
    await session.execute(statement, execution_options=_UNSYNCHRONIZED)
    return revision


async def _local_names(session: AsyncSession, provider: Provider) -> dict[str, str]:
    query = select(col(Tool.source_key), col(Tool.name)).where(col(Tool.provider_id) == provider.id)
    return {row[0]: row[1].removeprefix(f"{provider.name}.") for row in await session.execute(query)}


async def _taken_aliases(session: AsyncSession, provider: str, names: Sequence[str]) -> set[str]:
    """Return those of the aliases that these tools could get which exist already."""
    likely = {alias_for(provider, name) for name in names}
    query = select(col(Tool.alias)).where(col(Tool.tenant_id) == TENANT, col(Tool.alias).in_(likely))
    taken = set((await session.execute(query)).scalars())
    while more := {alias_for(provider, name, taken) for name in names} - likely:
        likely |= more
        query = select(col(Tool.alias)).where(col(Tool.tenant_id) == TENANT, col(Tool.alias).in_(more))
        taken |= set((await session.execute(query)).scalars())
    return taken


def _row(draft: ToolDraft, provider: Provider, revision_id: UUID | None, *, name: str, alias: str) -> Json:
    moment = now()
    return {
        **draft.columns(),
        "id": new_id(),
        "tenant_id": TENANT,
        "provider_id": provider.id,
        "revision_id": revision_id,
        "source_key": draft.source_key,
        "name": name,
        "alias": alias,
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def _chunks(drafts: Sequence[ToolDraft]) -> Iterator[Sequence[ToolDraft]]:
    for start in range(0, len(drafts), _CHUNK):
        yield drafts[start : start + _CHUNK]


def columns_of(tool: Tool) -> dict[str, Any]:
    """Return the columns that a re-import compares, as `ToolDraft.columns` does."""
    return {
        "description": tool.description,
        "inputs": tool.inputs,
        "outputs": tool.outputs,
        "tags": list(tool.tags),
        "call_template": tool.call_template,
        "security": tool.security,
        "deprecated": tool.deprecated,
        "average_response_size": tool.average_response_size,
        "shown": tool.shown,
    }


async def overrides_of(session: AsyncSession, provider: Provider) -> dict[str, Json]:
    """Return all overrides by source key, those of removed tools included."""
    applied = (
        select(col(Tool.source_key), *_overridden(Override))
        .join(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.provider_id) == provider.id)
    )
    retained = select(col(RetainedOverride.source_key), *_overridden(RetainedOverride))
    found: dict[str, Json] = {}
    for query in (retained.where(col(RetainedOverride.provider_id) == provider.id), applied):
        for key, *values in await session.execute(query):
            found[key] = dict(zip(_OVERRIDDEN, values, strict=True))
    return dict(sorted(found.items()))


async def write_overrides(
    session: AsyncSession, provider: Provider, overrides: Mapping[str, Mapping[str, Any]]
) -> None:
    """Store the overrides of a new provider, by source key."""
    if not overrides:
        return
    tools = {tool.source_key: tool.id for tool in await tools_of(session, provider.id)}
    applied: list[Json] = []
    retained: list[Json] = []
    for key, changed in overrides.items():
        row: Json = {
            "tenant_id": provider.tenant_id,
            **{name: changed.get(name) for name in _OVERRIDDEN},
        }
        if key in tools:
            applied.append({**row, "tool_id": tools[key]})
        else:
            retained.append({**row, "provider_id": provider.id, "source_key": key})
    if applied:
        await session.execute(insert(Override), applied)
    if retained:
        await session.execute(insert(RetainedOverride), retained)


async def retain_overrides(session: AsyncSession, tools: Iterable[Tool]) -> None:
    """Retain the overrides of tools that are about to be deleted."""
    ids = [tool.id for tool in tools]
    for start in range(0, len(ids), _ID_CHUNK):
        columns = (
            col(Tool.provider_id),
            col(Tool.source_key),
            col(Tool.tenant_id),
            *_overridden(Override),
        )
        found = (
            select(*columns)
            .join(Override, col(Override.tool_id) == col(Tool.id))
            .where(col(Tool.id).in_(ids[start : start + _ID_CHUNK]))
        )
        into = upsert(RetainedOverride).from_select(
            ["provider_id", "source_key", "tenant_id", *_OVERRIDDEN], found, include_defaults=False
        )
        fresh = {name: into.excluded[name] for name in _OVERRIDDEN}
        await session.execute(
            into.on_conflict_do_update(index_elements=["provider_id", "source_key"], set_=fresh)
        )


async def restore_overrides(session: AsyncSession, provider: Provider) -> None:
    """Restore the retained overrides of tools that exist again."""
    same = (
        col(RetainedOverride.provider_id) == provider.id,
        col(Tool.provider_id) == col(RetainedOverride.provider_id),
        col(Tool.source_key) == col(RetainedOverride.source_key),
    )
    found = select(col(Tool.id), col(RetainedOverride.tenant_id), *_overridden(RetainedOverride)).where(*same)
    into = upsert(Override).from_select(["tool_id", "tenant_id", *_OVERRIDDEN], found, include_defaults=False)
    await session.execute(into.on_conflict_do_nothing())
    await session.execute(delete(RetainedOverride).where(same[0], exists().where(*same[1:])))


def _overridden(table: type[Override] | type[RetainedOverride]) -> list[Any]:
    return [getattr(table, name) for name in _OVERRIDDEN]
