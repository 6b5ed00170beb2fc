"""Storing searches, matching them with the calls that follow, and reading what was learned (PostgreSQL).

The calls come from the call log, which is written anyway: neither a search nor a call waits for this, and any
worker may have served either of them.
"""

import asyncio
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from uuid import UUID

from sqlalchemy import any_, delete, func, insert, literal, select, update
from sqlalchemy import text as sql
from sqlalchemy.ext.asyncio import AsyncSession
from sqlmodel import col

from app.search.usage.counts import MAX_WEIGHT, LabelCount
from app.search.usage.digests import UsageDigests
from app.search.usage.observed import MAX_STEMS
from app.storage.models import (
    Key,
    PendingSearch,
    SearchLabel,
    SearchQuery,
    SearchUsageState,
)

FOLLOW_MINUTES: Final = 10
"""For so long after a search a call makes a label."""
# The record of a call is stored at its end, so that a search is retained for longer than calls can follow.
_PENDING_MINUTES: Final = 15
_MAX_PENDING_OF_KEY: Final = 200
_BATCH: Final = 1_000
MAX_ADDED_OF_KEY: Final = 1_000
"""So many labels of a key are counted each time: a key with hundreds of long searches cannot fill the table
until it is maintained.
"""
FORGOTTEN: Final = "forgotten"
"""The object of the change that says that an operator has deleted what was learned."""
_LOCK: Final = sql(
    "SELECT matched_at, maintained_at, clock_timestamp() AS now FROM search_usage_state WHERE id = 1"
    " FOR UPDATE SKIP LOCKED"
)
_WAIT: Final = sql("SELECT 1 FROM search_usage_state WHERE id = 1 FOR UPDATE")
_STATE_ROW: Final = sql("INSERT INTO search_usage_state (id) VALUES (1) ON CONFLICT DO NOTHING")
# A record is visible when its transaction has ended, some seconds after its `stored_at` at most. A call that
# is matched twice is found in `called`.
_MATCH: Final = sql(
    "WITH recent AS MATERIALIZED ("  # noqa: S608 - constants.
    " SELECT tenant_id, key_id, tool, max(at) AS at FROM calls"
    " WHERE stored_at > CAST(:since AS timestamptz) - interval '35 seconds'"
    f" AND at > clock_timestamp() - interval '{_PENDING_MINUTES} minutes'"
    " AND outcome = 'ok' AND source = 'upstream' AND interface <> 'agent-test'"
    " GROUP BY tenant_id, key_id, tool)"
    " SELECT searches.id, searches.tenant_id, searches.stems, tools.id AS tool_id, recent.at,"
    " coalesce(keys.rate_limit_id, searches.key_id) AS owner, keys.id IS NULL AS of_token"
    " FROM pending_searches AS searches"
    " JOIN recent ON recent.tenant_id = searches.tenant_id AND recent.key_id = searches.key_id"
    f" AND recent.at >= searches.at AND recent.at < searches.at + interval '{FOLLOW_MINUTES} minutes'"
    " JOIN tools ON tools.tenant_id = searches.tenant_id AND tools.name = recent.tool"
    " AND tools.id = ANY(searches.tools) AND tools.id <> ALL(searches.called)"
    " LEFT JOIN keys ON keys.key_id = searches.key_id"
    " ORDER BY searches.id, tools.id"
)
_SET_CALLED: Final = sql(
    "WITH matched AS (SELECT id, array_agg(tool) AS tools FROM"
    " unnest(CAST(:searches AS uuid[]), CAST(:tools AS uuid[])) AS pairs(id, tool) GROUP BY id),"
    " queries AS (UPDATE search_queries SET called = called || matched.tools FROM matched"
    "  WHERE search_queries.id = matched.id)"
    " UPDATE pending_searches SET called = called || matched.tools FROM matched"
    " WHERE pending_searches.id = matched.id"
)
_ADD: Final = sql(
    "INSERT INTO search_labels AS old (tenant_id, stem, tool_id, key_digest, of_token, weight, labels,"  # noqa: S608 - a constant.
    " first_at, at, updated_at)"
    " SELECT tenant_id, stem, new.tool_id, key_digest, of_token, labels, labels, at, at, clock_timestamp()"
    " FROM unnest(CAST(:tenants AS uuid[]), CAST(:stems AS bytea[]), CAST(:tools AS uuid[]),"
    " CAST(:keys AS bytea[]), CAST(:of_tokens AS boolean[]), CAST(:labels AS int[]),"
    " CAST(:times AS timestamptz[]))"
    " AS new(tenant_id, stem, tool_id, key_digest, of_token, labels, at)"
    " ON CONFLICT (tenant_id, stem, tool_id, key_digest) DO UPDATE SET"
    # PostgreSQL raises an error where a power is too small for a number.
    f" weight = least({MAX_WEIGHT}, old.weight * power(2, -least(500, greatest(0, extract(epoch FROM"
    " excluded.at - old.at)) / (CAST(:half_life AS float8) * 86400))) + excluded.weight),"
    " labels = old.labels + excluded.labels, at = greatest(old.at, excluded.at),"
    " updated_at = excluded.updated_at"
)
_DELETE_PENDING: Final = sql(
    "DELETE FROM pending_searches WHERE at < clock_timestamp()"  # noqa: S608 - a constant.
    f" - interval '{_PENDING_MINUTES} minutes' OR id IN (SELECT id FROM (SELECT id, row_number()"
    " OVER (PARTITION BY tenant_id, key_id ORDER BY at DESC) AS place FROM pending_searches) AS placed"
    f" WHERE place > {_MAX_PENDING_OF_KEY})"
)
_DELETE_OLD: Final = sql(
    "DELETE FROM search_labels WHERE updated_at < clock_timestamp() - make_interval(days => :days)"
)
_DELETE_OLD_QUERIES: Final = sql(
    "DELETE FROM search_queries WHERE at < clock_timestamp() - make_interval(days => :days)"
)
_DELETE_QUERIES_OF_LOST_KEYS: Final = sql(
    "DELETE FROM search_queries USING keys WHERE keys.key_id = search_queries.key_id"
    " AND NOT EXISTS (SELECT FROM keys AS valid WHERE valid.revoked_at IS NULL"
    "  AND (valid.expires_at IS NULL OR valid.expires_at > now())"
    "  AND coalesce(valid.rate_limit_id, valid.key_id) = coalesce(keys.rate_limit_id, keys.key_id))"
)
_KEY_EXCEEDS: Final = sql(
    "SELECT EXISTS (SELECT FROM (SELECT DISTINCT tenant_id, key_digest FROM search_labels"
    " WHERE updated_at >= :since) AS recent WHERE (SELECT count(*) FROM search_labels AS labels"
    " WHERE labels.tenant_id = recent.tenant_id AND labels.key_digest = recent.key_digest) > :most)"
)
_DELETE_BEYOND: Final = sql(
    "DELETE FROM search_labels WHERE ctid = ANY(ARRAY(SELECT row FROM (SELECT ctid AS row,"
    " row_number() OVER (ORDER BY updated_at DESC) AS place,"
    " row_number() OVER (PARTITION BY tenant_id, key_digest ORDER BY updated_at DESC) AS place_of_key"
    " FROM search_labels) AS placed WHERE place > :most OR place_of_key > :most_of_key))"
)


@dataclass(frozen=True, slots=True)
class UsageStatistics:
    """Numbers of what is stored; `since` and `updated_at` are None where nothing is."""

    counts: int
    labels: int
    stems: int
    tools: int
    keys: int
    queries: int
    pending: int
    since: datetime | None
    updated_at: datetime | None


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """After how many days labels and texts are deleted, and how many rows of labels are retained: of all
    keys, and of one.
    """

    days: int
    most: int
    most_of_key: int


@dataclass(frozen=True, slots=True)
class UsageState:
    """What the row of the state has, and the time of the database."""

    matched_at: datetime | None
    maintained_at: datetime | None
    now: datetime


async def store_searches(
    session: AsyncSession, searches: Sequence[dict[str, Any]], queries: Sequence[dict[str, Any]]
) -> None:
    """Store rows of `PendingSearch` and of `SearchQuery`."""
    if searches:
        await session.execute(insert(PendingSearch), searches)
    if queries:
        await session.execute(insert(SearchQuery), queries)


async def lock_state(session: AsyncSession) -> UsageState | None:
    """Return the state, locked until the end of the transaction; None where another worker has it."""
    await session.execute(_STATE_ROW)
    row = (await session.execute(_LOCK)).one_or_none()
    return None if row is None else UsageState(row.matched_at, row.maintained_at, row.now)


async def match_calls(
    session: AsyncSession, state: UsageState, digests: UsageDigests, *, half_life_days: float
) -> int:
    """Match searches with the calls that were stored since the last time; return the number of labels.

    The state must be locked.
    """
    since = state.matched_at or state.now
    matches = (await session.execute(_MATCH, {"since": since})).all()
    if matches:
        pairs = {"searches": [one.id for one in matches], "tools": [one.tool_id for one in matches]}
        await session.execute(_SET_CALLED, pairs)
        # Thousands of labels take longer to count than the event loop may be held up.
        added = await asyncio.to_thread(_collect_labels, matches, digests)
        await session.execute(_ADD, added | {"half_life": half_life_days})
    await session.execute(_DELETE_PENDING)
    await _set_state(session, matched_at=state.now)
    return len(matches)


def _collect_labels(matches: Sequence[Any], digests: UsageDigests) -> dict[str, list[Any]]:
    """Return the columns of the labels of these matches: each stem, tool and key once, in their order; of a
    key at most `MAX_ADDED_OF_KEY`, those of its first searches.
    """
    added: dict[tuple[UUID, bytes, UUID, bytes], tuple[bool, int, datetime]] = {}
    of_key: Counter[bytes] = Counter()
    for match in matches:
        owner = digests.digest_key(match.owner, match.tenant_id)
        for stem in match.stems[:MAX_STEMS]:
            place = (match.tenant_id, bytes(stem), match.tool_id, owner)
            if place not in added:
                if of_key[owner] >= MAX_ADDED_OF_KEY:
                    continue
                of_key[owner] += 1
            _, labels, at = added.get(place, (False, 0, match.at))
            added[place] = (match.of_token, labels + 1, max(at, match.at))
    places = sorted(added)
    values = [added[place] for place in places]
    return {
        "tenants": [place[0] for place in places],
        "stems": [place[1] for place in places],
        "tools": [place[2] for place in places],
        "keys": [place[3] for place in places],
        "of_tokens": [value[0] for value in values],
        "labels": [value[1] for value in values],
        "times": [value[2] for value in values],
    }


async def has_key_beyond(session: AsyncSession, state: UsageState, *, most: int) -> bool:
    """Return whether a key that labels were just added to has more than `most` rows of them."""
    return bool(await session.scalar(_KEY_EXCEEDS, {"since": state.now, "most": most}))


async def delete_old(session: AsyncSession, limits: UsageLimits) -> int:
    """Delete what is beyond its retention or the limits; return the number of labels' rows. The state must be
    locked.
    """
    await session.execute(_DELETE_OLD_QUERIES, {"days": limits.days})
    deleted = await _delete_rows(session, _DELETE_OLD, {"days": limits.days})
    most = {"most": limits.most, "most_of_key": limits.most_of_key}
    deleted += await _delete_rows(session, _DELETE_BEYOND, most)
    await _set_state(session, maintained_at=func.clock_timestamp())
    return deleted


async def delete_of_lost_keys(session: AsyncSession, digests: UsageDigests) -> int:
    """Delete the labels, and the texts, of keys of which neither they nor a successor by rotation is valid;
    return the number of labels' rows.
    """
    await session.execute(_DELETE_QUERIES_OF_LOST_KEYS)
    owner = func.coalesce(col(Key.rate_limit_id), col(Key.key_id))
    statement = select(col(Key.tenant_id), owner).where(
        col(Key.revoked_at).is_(None),
        col(Key.expires_at).is_(None) | (col(Key.expires_at) > func.now()),
    )
    valid = {
        digests.digest_key(key_id, tenant) for tenant, key_id in (await session.execute(statement)).all()
    }
    stored = await session.scalars(
        select(col(SearchLabel.key_digest)).where(col(SearchLabel.of_token).is_(False)).distinct()
    )
    lost = [digest for digest in map(bytes, stored) if digest not in valid]
    if not lost:
        return 0
    return await _delete_rows(session, delete(SearchLabel).where(col(SearchLabel.key_digest).in_(lost)))


async def _delete_rows(session: AsyncSession, statement: Any, parameters: Any = None) -> int:
    """Execute a DELETE, and return the number of rows."""
    result: Any = await session.execute(statement, parameters)
    return int(result.rowcount)


async def _set_state(session: AsyncSession, **values: Any) -> None:
    table = SearchUsageState.__table__  # type: ignore[attr-defined]
    await session.execute(table.update().where(table.c.id == 1).values(**values))


async def read_labels(
    session: AsyncSession, *, since: datetime | None, most: int
) -> tuple[list[LabelCount], datetime | None]:
    """Return the labels that were written after `since` (None: all), the newest `most` of them, and when the
    newest one was written.
    """
    label = SearchLabel
    statement = select(
        col(label.stem),
        col(label.tool_id),
        col(label.key_digest),
        col(label.weight),
        col(label.labels),
        col(label.at),
        col(label.updated_at),
    )
    if since is not None:
        statement = statement.where(col(label.updated_at) > since)
    statement = statement.order_by(col(label.updated_at).desc()).limit(most)
    # Each stem, tool and key occurs in many rows: one object for all of them saves half of the memory.
    shared: dict[Any, Any] = {}
    counts: list[LabelCount] = []
    until = since
    # In batches, between which the event loop runs.
    stream = await session.stream(statement, execution_options={"yield_per": _BATCH})
    async for rows in stream.partitions(_BATCH):
        if not counts:
            until = rows[0][6]
        counts += [
            LabelCount(
                shared.setdefault(row[0], bytes(row[0])),
                shared.setdefault(row[1], row[1]),
                shared.setdefault(row[2], bytes(row[2])),
                row[3],
                row[4],
                row[5].timestamp(),
            )
            for row in rows
        ]
    return counts, until


async def read_rotated_keys(session: AsyncSession) -> dict[str, str]:
    """Return the first key of the chain of rotations by the id of each later one."""
    statement = select(col(Key.key_id), col(Key.rate_limit_id)).where(col(Key.rate_limit_id).is_not(None))
    return {row.key_id: row.rate_limit_id for row in (await session.execute(statement)).all()}


async def read_statistics(session: AsyncSession, tenant_id: UUID) -> UsageStatistics:
    """Return the numbers of what is stored of a tenant."""
    label = SearchLabel
    row = (
        await session.execute(
            select(
                func.count(),
                func.count(col(label.stem).distinct()),
                func.count(col(label.tool_id).distinct()),
                func.count(col(label.key_digest).distinct()),
                func.min(col(label.first_at)),
                func.max(col(label.at)),
                func.coalesce(func.sum(col(label.labels)), 0),
            ).where(col(label.tenant_id) == tenant_id)
        )
    ).one()
    others = [
        int(
            await session.scalar(
                select(func.count()).select_from(table).where(col(table.tenant_id) == tenant_id)
            )
            or 0
        )
        for table in (SearchQuery, PendingSearch)
    ]
    return UsageStatistics(row[0], int(row[6]), row[1], row[2], row[3], others[0], others[1], row[4], row[5])


async def list_key_line(session: AsyncSession, key_id: str) -> list[str]:
    """Return the ids of the keys of a chain of rotations, the first one first; an id alone that has none."""
    first = await session.scalar(select(col(Key.rate_limit_id)).where(col(Key.key_id) == key_id)) or key_id
    later = await session.scalars(select(col(Key.key_id)).where(col(Key.rate_limit_id) == first))
    return list(dict.fromkeys([first, *later, key_id]))


async def forget(
    session: AsyncSession,
    tenant_id: UUID,
    *,
    tool_id: UUID | None,
    key: tuple[bytes, Sequence[str]] | None,
) -> int:
    """Delete what was learned, with pending searches and texts; return the number of rows of labels.

    Only of a tool, where one is given, and only of a key: its digest, and the ids of its chain of rotations.
    """
    await session.execute(_STATE_ROW)
    # The worker that matches calls at the moment would add to what is deleted here.
    await session.execute(_WAIT)
    statement = delete(SearchLabel).where(col(SearchLabel.tenant_id) == tenant_id)
    if tool_id is not None:
        statement = statement.where(col(SearchLabel.tool_id) == tool_id)
    if key is not None:
        statement = statement.where(col(SearchLabel.key_digest) == key[0])
    deleted = await _delete_rows(session, statement)
    if tool_id is not None:
        # A call of the tool that is not matched yet, or follows, would be learned from these searches.
        shown = col(PendingSearch.tools)
        unlearned = update(PendingSearch).where(
            col(PendingSearch.tenant_id) == tenant_id, literal(tool_id) == any_(shown)
        )
        if key is not None:
            unlearned = unlearned.where(col(PendingSearch.key_id).in_(key[1]))
        await session.execute(unlearned.values(tools=func.array_remove(shown, tool_id)))
    for table in (PendingSearch, SearchQuery):
        others = delete(table).where(col(table.tenant_id) == tenant_id)
        if tool_id is not None:
            others = others.where(literal(tool_id) == any_(col(table.called)))
        if key is not None:
            others = others.where(col(table.key_id).in_(key[1]))
        await session.execute(others)
    return deleted
