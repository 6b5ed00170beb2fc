"""The vectors in PostgreSQL, by the digest of model and text; and the tools whose texts are encoded."""

import hashlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Any, Final
from uuid import UUID

from sqlalchemy import ColumnElement, Text, and_, cast, delete, func, literal_column, select, true
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.catalog.tools import tool_select, version_stamp
from app.search.vectors.texts import DescribedTool
from app.storage.models import (
    TENANT,
    Override,
    Provider,
    SearchVectorRow,
    Tool,
)

_BATCH: Final = 250
_STAMP_BATCH: Final = 2_000
_DIGEST_BATCH: Final = 5_000


def digest_text(model: str, text: str) -> bytes:
    """Return the digest (32 bytes) by which the vector of a text is stored, for the model of this digest."""
    return hashlib.sha256(f"{model}\0{text}".encode("utf-8", "replace")).digest()


def select_encoded_tools(providers: Collection[UUID] | None) -> ColumnElement[bool]:
    """Return the condition of the tools that are encoded: the enabled ones, as in the index of words; with
    `providers`, of these only.
    """
    enabled = func.coalesce(col(Override.enabled), true())
    return enabled if providers is None else and_(enabled, col(Tool.provider_id).in_(providers))


async def read_stamps(
    session: AsyncSession, providers: Collection[UUID] | None
) -> dict[UUID, dict[UUID, str]]:
    """Return a text for each tool, by provider and tool, that changes whenever the tool or its override is
    written, or its provider has another name or title.
    """
    statement = (
        select(col(Tool.provider_id), col(Tool.id), _build_stamp())
        .join(Provider, col(Provider.id) == col(Tool.provider_id))
        .outerjoin(Override, col(Override.tool_id) == col(Tool.id))
        .where(col(Tool.tenant_id) == TENANT, select_encoded_tools(providers))
        .execution_options(yield_per=_STAMP_BATCH)
    )
    stamps: dict[UUID, dict[UUID, str]] = {}
    stream = await session.stream(statement)
    async for rows in stream.partitions(_STAMP_BATCH):
        for provider, tool, stamp in rows:
            stamps.setdefault(provider, {})[tool] = stamp
    return stamps


async def read_tools(
    session: AsyncSession, condition: ColumnElement[bool]
) -> AsyncIterator[Sequence[tuple[UUID, UUID, str, DescribedTool]]]:
    """Yield the tools that meet the condition in batches: provider, id, stamp, and what is encoded of it."""
    found = tool_select()
    names = ("id", "provider_id", "provider", "name", "description")
    columns = [found.selected_columns[name] for name in names]
    statement = (
        found.with_only_columns(*columns, col(Provider.title), _build_stamp())
        .where(condition)
        .execution_options(yield_per=_BATCH)
    )
    stream = await session.stream(statement)
    async for rows in stream.partitions(_BATCH):
        yield [_describe_row(row) for row in rows]


def is_one_of(tools: Collection[UUID]) -> ColumnElement[bool]:
    """Return the condition that a tool is one of these, and enabled."""
    return and_(select_encoded_tools(None), col(Tool.id).in_(tools))


async def read_vectors(session: AsyncSession, digests: Sequence[bytes]) -> dict[bytes, bytes]:
    """Return the stored vectors (float16) of those digests that have one."""
    vectors: dict[bytes, bytes] = {}
    for begin in range(0, len(digests), _DIGEST_BATCH):
        statement = select(col(SearchVectorRow.digest), col(SearchVectorRow.vector)).where(
            col(SearchVectorRow.tenant_id) == TENANT,
            col(SearchVectorRow.digest).in_(digests[begin : begin + _DIGEST_BATCH]),
        )
        vectors.update((row[0], row[1]) for row in (await session.execute(statement)).all())
    return vectors


async def store_vectors(session: AsyncSession, model: str, vectors: Mapping[bytes, bytes]) -> None:
    """Store vectors by their digests."""
    if vectors:
        rows = [
            {"tenant_id": TENANT, "digest": digest, "model": model, "vector": vector}
            for digest, vector in vectors.items()
        ]
        statement = insert(SearchVectorRow)
        await session.execute(
            statement.on_conflict_do_update(
                index_elements=["tenant_id", "digest"], set_={"vector": statement.excluded.vector}
            ),
            rows,
        )


async def stream_digests(session: AsyncSession, model: str) -> AsyncIterator[Sequence[bytes]]:
    """Yield the digests of all vectors of a model, in batches."""
    statement = (
        select(col(SearchVectorRow.digest))
        .where(col(SearchVectorRow.tenant_id) == TENANT, col(SearchVectorRow.model) == model)
        .execution_options(yield_per=_DIGEST_BATCH)
    )
    stream = await session.stream(statement)
    async for rows in stream.partitions(_DIGEST_BATCH):
        yield [row[0] for row in rows]


async def delete_vectors(session: AsyncSession, digests: Sequence[bytes]) -> None:
    """Delete the vectors of these digests."""
    for begin in range(0, len(digests), _DIGEST_BATCH):
        await session.execute(
            delete(SearchVectorRow).where(
                col(SearchVectorRow.tenant_id) == TENANT,
                col(SearchVectorRow.digest).in_(digests[begin : begin + _DIGEST_BATCH]),
            )
        )


async def delete_other_models(session: AsyncSession, model: str, *, days: int) -> None:
    """Delete the vectors of other models that were stored more than `days` ago."""
    await session.execute(
        delete(SearchVectorRow).where(
            col(SearchVectorRow.tenant_id) == TENANT,
            col(SearchVectorRow.model) != model,
            col(SearchVectorRow.created_at) < func.now() - func.make_interval(0, 0, 0, days),
        )
    )


def _build_stamp() -> ColumnElement[Any]:
    # `xmin` changes whenever a row is written (PostgreSQL, "System Columns"); that of a provider also with
    # each refresh, so that its texts are compared.
    of_provider = func.md5(func.concat_ws("|", col(Provider.name), col(Provider.title)))
    return version_stamp(cast(literal_column("tools.xmin"), Text), func.left(of_provider, 8))


def _describe_row(row: Any) -> tuple[UUID, UUID, str, DescribedTool]:
    tool = DescribedTool(
        provider=row.provider,
        name=row.name,
        description=row.description,
        title=row.title,
    )
    return row.provider_id, row.id, row.stamp, tool
