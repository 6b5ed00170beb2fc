"""What people changed on tools. It is laid aside when a refresh removes a tool, and comes back with it."""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from sqlalchemy import delete, exists, insert, select
from sqlalchemy.dialects.postgresql import insert as upsert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.credentials.model import Json
from app.models import KeptOverride, Override, Provider, Tool
from app.registration.repository import tools_of

_FIELDS: Final = ("description", "tags", "enabled")
_CHUNK: Final = 5_000


async def overrides_of(session: AsyncSession, provider: Provider) -> dict[str, Json]:
    """By source key, those of tools that are away, too."""
    laid = (
        select(col(Tool.source_key), *_columns(Override))
        .join(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.provider_id) == provider.id)
    )
    kept = select(col(KeptOverride.source_key), *_columns(KeptOverride))
    found: dict[str, Json] = {}
    for query in (kept.where(col(KeptOverride.provider_id) == provider.id), laid):
        for key, *values in await session.execute(query):
            found[key] = dict(zip(_FIELDS, values, strict=True))
    return dict(sorted(found.items()))


async def write_overrides(
    session: AsyncSession, provider: Provider, overrides: Mapping[str, Mapping[str, Any]]
) -> None:
    """Stores those of a new provider, by source key."""
    if not overrides:
        return
    tools = {tool.source_key: tool.id for tool in await tools_of(session, provider.id)}
    laid: list[Json] = []
    kept: list[Json] = []
    for key, changed in overrides.items():
        row: Json = {"tenant_id": provider.tenant_id, **{name: changed.get(name) for name in _FIELDS}}
        if key in tools:
            laid.append({**row, "tool_id": tools[key]})
        else:
            kept.append({**row, "provider_id": provider.id, "source_key": key})
    if laid:
        await session.execute(insert(Override), laid)
    if kept:
        await session.execute(insert(KeptOverride), kept)


async def keep_overrides(session: AsyncSession, tools: Iterable[Tool]) -> None:
    """Lays aside what people changed on tools that are about to be removed."""
    ids = [tool.id for tool in tools]
    for start in range(0, len(ids), _CHUNK):
        columns = (col(Tool.provider_id), col(Tool.source_key), col(Tool.tenant_id), *_columns(Override))
        found = (
            select(*columns)
            .join(Override, col(Override.tool_id) == col(Tool.id))
            .where(col(Tool.id).in_(ids[start : start + _CHUNK]))
        )
        into = upsert(KeptOverride).from_select(
            ["provider_id", "source_key", "tenant_id", *_FIELDS], found, include_defaults=False
        )
        fresh = {name: into.excluded[name] for name in _FIELDS}
        await session.execute(
            into.on_conflict_do_update(index_elements=["provider_id", "source_key"], set_=fresh)
        )


async def restore_overrides(session: AsyncSession, provider: Provider) -> None:
    """Gives back what was laid aside of tools that are there again."""
    same = (
        col(KeptOverride.provider_id) == provider.id,
        col(Tool.provider_id) == col(KeptOverride.provider_id),
        col(Tool.source_key) == col(KeptOverride.source_key),
    )
    found = select(col(Tool.id), col(KeptOverride.tenant_id), *_columns(KeptOverride)).where(*same)
    into = upsert(Override).from_select(["tool_id", "tenant_id", *_FIELDS], found, include_defaults=False)
    await session.execute(into.on_conflict_do_nothing())
    await session.execute(delete(KeptOverride).where(same[0], exists().where(*same[1:])))


def _columns(table: type[Override] | type[KeptOverride]) -> list[Any]:
    return [getattr(table, name) for name in _FIELDS]
