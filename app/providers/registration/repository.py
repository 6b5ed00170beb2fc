"""The SQL of the control plane: providers, their tools, credentials, variables and overrides.

Overrides are what people changed on tools. They are retained when a refresh removes a tool, and restored with
it.
"""

import asyncio
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import Table, Text, TextClause, cast, delete, exists, func, insert, or_, select, text, update
from sqlalchemy.dialects import postgresql
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.calls.approvals.records import replace_changes
from app.catalog.tools import OVERRIDDEN, provider_filter
from app.core.pagination import Ordering, Page, PageRequest, SortField, contains, read_page
from app.core.uuid7 import uuid7
from app.formats.utcp.names import (
    MAX_AGENT_NAME,
    RESERVED_NAMES,
    choose_agent_name,
    choose_alias,
    make_legal_name,
)
from app.openapi.report import SourceReport
from app.protocols.variables import variables_of
from app.providers.credentials.model import CredentialSlot, Json
from app.providers.registration.model import ToolChange, ToolDraft
from app.security.principal import Principal
from app.storage.database import json_text, store_valid_rows
from app.storage.models import (
    TENANT,
    Credential,
    Override,
    Provider,
    RetainedOverride,
    Revision,
    SourceRow,
    Tool,
    Variable,
    now,
)

_LOCK: Final = text("SELECT pg_advisory_xact_lock(7235)")
_CHUNK: Final = 200
_INSERT_CHUNK: Final = 500
_PAYLOAD_CHARACTERS: Final = 4 << 20
_ID_CHUNK: Final = 5_000
# Else the ORM looks for the rows of each statement among all objects of the session: n * n for n tools.
_UNSYNCHRONIZED: Final = {"synchronize_session": False}
_RETAINED: Final = (*OVERRIDDEN, "output_deviations", "deviations_schema", "output_schema_withdrawn_at")
"""The columns of an override that are retained while the source does not have its tool."""
_PROVIDER_ORDER: Final = Ordering(
    {
        "name": SortField(col(Provider.name).collate("C"), "name", unique=True),
        "created_at": SortField(col(Provider.created_at), "created_at", datetime),
        "updated_at": SortField(col(Provider.updated_at), "updated_at", datetime),
    },
    item_id=col(Provider.id),
)


def insert_from_json(table: Table) -> TextClause:
    """Return a statement that inserts the rows of the JSON array `:rows`.

    For 10,000 tools it takes a fraction of the time of one INSERT for each row.
    """
    names = ", ".join(column.name for column in table.columns)
    types = ", ".join(f"{one.name} {one.type.compile(dialect=_DIALECT)}" for one in table.columns)
    source = f"json_to_recordset(CAST(:rows AS json)) AS given({types})"
    return text(f"INSERT INTO {table.name} ({names}) SELECT {names} FROM {source}")  # noqa: S608


_DIALECT: Final = postgresql.dialect()  # type: ignore[no-untyped-call]
# A join is planned well for any number of aliases; the generic plan of `IN` is a sequential scan for each.
_EXISTING_ALIASES: Final = text(
    "SELECT tools.alias FROM unnest(CAST(:aliases AS text[])) AS given(alias) "
    "JOIN tools ON tools.tenant_id = :tenant AND tools.alias = given.alias "
    "UNION SELECT tools.agent_name FROM unnest(CAST(:aliases AS text[])) AS given(alias) "
    "JOIN tools ON tools.tenant_id = :tenant AND tools.agent_name = given.alias"
)
_INSERT_TOOLS: Final = insert_from_json(Tool.__table__)  # type: ignore[attr-defined]


@dataclass(frozen=True, slots=True)
class SourceSummary:
    """What may be shown of a provider's source. `size` is in bytes; `sha256` is in hexadecimal digits, of a
    manual a keyed hash; `overlay_sha256` is None where no overlay is applied.
    """

    format: str
    url: str | None
    media_type: str
    sha256: str
    size: int
    root: str | None
    overlay_sha256: str | None
    follow_references: bool


def slots_of(provider: Provider) -> tuple[CredentialSlot, ...]:
    """Return the credential slots of a stored provider."""
    return tuple(CredentialSlot.from_json(slot) for slot in provider.slots)


async def lock_names(session: AsyncSession) -> None:
    """Wait for other registrations to end: names and aliases are chosen by looking at those that exist."""
    await session.execute(_LOCK)


async def provider_named(session: AsyncSession, name: str, *, locked: bool = False) -> Provider | None:
    """Return the provider of this name; `locked` keeps it from changing until the transaction ends."""
    query = select(Provider).where(col(Provider.tenant_id) == TENANT, col(Provider.name) == name)
    return (await session.execute(query.with_for_update() if locked else query)).scalar_one_or_none()


async def page_of_providers(
    session: AsyncSession, *, principal: Principal, page: PageRequest, q: str | None, state: str | None
) -> Page[Provider]:
    """Return a page of the providers that the key may see.

    With `q`, those whose name, title or description contains it; with `state` (enabled, disabled, pending),
    those in this state.
    """
    query = select(Provider).where(col(Provider.tenant_id) == TENANT, provider_filter(principal))
    if q is not None:
        query = query.where(contains(q, col(Provider.name), col(Provider.title), col(Provider.description)))
    if state == "pending":
        waiting = (col(Revision.provider_id) == col(Provider.id), col(Revision.state) == "pending")
        query = query.where(exists().where(*waiting))
    elif state is not None:
        query = query.where(col(Provider.enabled).is_(state == "enabled"))
    return await read_page(session, query, ordering=_PROVIDER_ORDER, page=page)


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
    in_scope = or_(col(Variable.provider_id).is_(None), col(Variable.provider_id) == provider_id)
    query = select(Variable).where(col(Variable.tenant_id) == TENANT, in_scope)
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


async def source_summaries(session: AsyncSession, ids: Sequence[UUID]) -> dict[UUID, SourceSummary]:
    """Return the summary of the newest source of each provider that has one, by provider id."""
    size = func.length(col(SourceRow.body))
    overlay = func.encode(func.sha256(func.convert_to(col(SourceRow.overlay), "UTF8")), "hex")
    columns = (
        col(SourceRow.provider_id), SourceRow.format, SourceRow.url, SourceRow.media_type, SourceRow.sha256,
        size, SourceRow.root, overlay, SourceRow.follow_references,
    )  # fmt: skip
    query = select(*columns).where(col(SourceRow.provider_id).in_(ids)).order_by(col(SourceRow.id))  # type: ignore[call-overload]
    return {row[0]: SourceSummary(*row[1:]) for row in await session.execute(query)}


async def report_of(session: AsyncSession, provider_id: UUID) -> SourceReport | None:
    """Return the report of the import whose tools are in use; None where all tools are custom ones."""
    query = select(col(Revision.report)).where(
        col(Revision.provider_id) == provider_id, col(Revision.state) == "active"
    )
    result = await session.execute(query.order_by(col(Revision.id).desc()).limit(1))
    stored = result.scalar_one_or_none()
    return SourceReport.from_json(stored) if stored else None


async def final_url_of(session: AsyncSession, provider_id: UUID) -> str | None:
    """Return where the URL of the source redirected to at the import whose tools are in use, if it did."""
    query = select(col(Revision.report)["final_url"].astext).where(
        col(Revision.provider_id) == provider_id, col(Revision.state) == "active"
    )
    result = await session.execute(query.order_by(col(Revision.id).desc()).limit(1))
    return result.scalar_one_or_none()


async def pending_of(session: AsyncSession, provider_id: UUID) -> Revision | None:
    """Return the revision that waits for approval, if there is one."""
    query = select(Revision).where(col(Revision.provider_id) == provider_id, col(Revision.state) == "pending")
    return (await session.execute(query.order_by(col(Revision.id).desc()).limit(1))).scalar_one_or_none()


def changes_of(pending: Revision) -> list[ToolChange]:
    """Return the changes of a pending revision."""
    return [ToolChange.from_json(change) for change in pending.report["operations"]]


async def drop_pending(session: AsyncSession, provider: Provider) -> None:
    """Delete what waits for approval; its approval expires."""
    await replace_changes(session, provider.id)
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
        rows = (await session.execute(query)).scalars().all()
        tools += rows
        if len(rows) < _CHUNK:
            return tools


async def insert_tools(
    session: AsyncSession, provider: Provider, drafts: Sequence[ToolDraft], *, revision_id: UUID | None
) -> tuple[dict[str, str], list[str]]:
    """Store tools under new names, while the names are locked.

    Returns the canonical names of all tools by source key, and the source keys of those that PostgreSQL
    rejects.
    """
    names = await _read_local_names(session, provider)
    await asyncio.to_thread(_add_names, names, drafts)
    taken = await _find_taken_aliases(session, provider.name, [names[draft.source_key] for draft in drafts])
    rejected: list[str] = []

    async def store(rows: Sequence[Json]) -> None:
        # In a thread, so that the event loop gets its turns: a row may have megabytes.
        for payload in await asyncio.to_thread(_build_payloads, rows):
            await session.execute(_INSERT_TOOLS, {"rows": payload})

    for chunk in _split_drafts(drafts, _INSERT_CHUNK):
        rows: list[Json] = []
        for draft in chunk:
            local = names[draft.source_key]
            alias = choose_alias(provider.name, local, taken)
            taken.add(alias)
            name = f"{provider.name}.{local}"
            is_own = len(alias) <= MAX_AGENT_NAME and alias not in RESERVED_NAMES
            agent_name = alias if is_own else choose_agent_name(name, alias, taken)
            taken.add(agent_name)
            revision = None if draft.is_custom else revision_id
            rows.append(_build_row(draft, provider, revision, name=name, alias=alias, agent_name=agent_name))
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
            changed = {**draft.definition.columns(), "version": tool.version + 1, "updated_at": now()}
            statement = update(Tool).where(col(Tool.id) == tool.id).values(**changed)
            await session.execute(statement, execution_options=_UNSYNCHRONIZED)

    rejected = [await store_valid_rows(session, chunk, store) for chunk in _split_drafts(drafts)]
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


async def _read_local_names(session: AsyncSession, provider: Provider) -> dict[str, str]:
    query = select(col(Tool.source_key), col(Tool.name)).where(col(Tool.provider_id) == provider.id)
    return {row[0]: row[1].removeprefix(f"{provider.name}.") for row in await session.execute(query)}


def _add_names(names: dict[str, str], drafts: Sequence[ToolDraft]) -> None:
    """Choose the local names of new tools, and add them to `names`, which are by source key."""
    used = set(names.values())
    for draft in drafts:
        names[draft.source_key] = make_legal_name(draft.name, used)
        used.add(names[draft.source_key])


async def _find_taken_aliases(session: AsyncSession, provider: str, names: Sequence[str]) -> set[str]:
    """Return those of the aliases and agent names that these tools could get which exist already."""
    checked: set[str] = set()
    taken: set[str] = set()
    while more := await asyncio.to_thread(_build_possible_aliases, provider, names, taken) - checked:
        checked |= more
        rows = await session.execute(_EXISTING_ALIASES, {"tenant": TENANT, "aliases": sorted(more)})
        taken |= set(rows.scalars())
    return taken


def _build_possible_aliases(provider: str, names: Sequence[str], taken: set[str]) -> set[str]:
    aliases = {name: choose_alias(provider, name, taken) for name in names}
    agent_names = {choose_agent_name(f"{provider}.{name}", alias, taken) for name, alias in aliases.items()}
    return agent_names.union(aliases.values())


def _build_row(
    draft: ToolDraft, provider: Provider, revision_id: UUID | None, *, name: str, alias: str, agent_name: str
) -> Json:
    """Return the row of a new tool, of JSON values."""
    moment = now().isoformat()
    return {
        **draft.definition.columns(),
        "id": str(uuid7()),
        "tenant_id": str(TENANT),
        "provider_id": str(provider.id),
        "revision_id": None if revision_id is None else str(revision_id),
        "source_key": draft.source_key,
        "name": name,
        "alias": alias,
        "agent_name": agent_name,
        "version": 1,
        "created_at": moment,
        "updated_at": moment,
    }


def _build_payloads(rows: Sequence[Json]) -> list[str]:
    """Return the rows as JSON arrays of some megabytes each, for `_INSERT_TOOLS`."""
    payloads: list[str] = []
    pending: list[str] = []
    size = 0
    for row in rows:
        pending.append(json_text(row))
        size += len(pending[-1])
        if size > _PAYLOAD_CHARACTERS:
            payloads.append(f"[{','.join(pending)}]")
            pending, size = [], 0
    if pending:
        payloads.append(f"[{','.join(pending)}]")
    return payloads


def _split_drafts(drafts: Sequence[ToolDraft], size: int = _CHUNK) -> Iterator[Sequence[ToolDraft]]:
    for start in range(0, len(drafts), size):
        yield drafts[start : start + size]


async def overrides_of(session: AsyncSession, provider: Provider) -> dict[str, Json]:
    """Return all overrides by source key, those of removed tools included."""
    applied = (
        select(col(Tool.source_key), *_list_columns(Override))
        .join(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.provider_id) == provider.id)
    )
    retained = select(col(RetainedOverride.source_key), *_list_columns(RetainedOverride))
    overrides: dict[str, Json] = {}
    for query in (retained.where(col(RetainedOverride.provider_id) == provider.id), applied):
        for key, *values in await session.execute(query):
            overrides[key] = dict(zip(OVERRIDDEN, values, strict=True))
    return dict(sorted(overrides.items()))


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
            **{name: changed.get(name) for name in OVERRIDDEN},
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
            *_list_columns(Override, _RETAINED),
        )
        query = (
            select(*columns)
            .join(Override, col(Override.tool_id) == col(Tool.id))
            .where(col(Tool.id).in_(ids[start : start + _ID_CHUNK]))
        )
        into = upsert(RetainedOverride).from_select(
            ["provider_id", "source_key", "tenant_id", *_RETAINED], query, include_defaults=False
        )
        fresh = {name: into.excluded[name] for name in _RETAINED}
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
    retained = _list_columns(RetainedOverride, _RETAINED)
    query = select(col(Tool.id), col(RetainedOverride.tenant_id), *retained).where(*same)
    into = upsert(Override).from_select(["tool_id", "tenant_id", *_RETAINED], query, include_defaults=False)
    await session.execute(into.on_conflict_do_nothing())
    await session.execute(delete(RetainedOverride).where(same[0], exists().where(*same[1:])))


def _list_columns(
    table: type[Override] | type[RetainedOverride], names: Iterable[str] = OVERRIDDEN
) -> list[Any]:
    return [getattr(table, name) for name in names]
