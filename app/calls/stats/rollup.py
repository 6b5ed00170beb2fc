"""Writing of the statistics: SQL that counts call records in the statement that stores them.

A call is counted once, in the minute and the hour in which it began, when its end is stored. A call whose end
was never recorded is counted with the outcome `unknown` when that is noticed; a late record of its end then
replaces this outcome, here too. `calls.replaced_outcome` says which outcome a record has replaced.

A row has the counts of one tool, key, interface, toolset, source, outcome and bin of the
histogram (`histogram`).
Rows are further divided by connection (`shard`), so that concurrent statements of several workers do not wait
for each other's commit; `MERGE_SHARDS` adds them up later.
"""

from typing import Final

from app.calls.stats.histogram import BIN_SQL, UNTIMED

RETURNED_COLUMNS: Final = (
    "at, tenant_id, provider, tool, key_id, interface, toolset, source, outcome, duration_ms, request_bytes,"
    " response_bytes, replaced_outcome"
)
"""The columns that the statement which stores call records must return for `count_statement`."""

_SHARDS: Final = 8
_TOOL: Final = "CASE WHEN provider = '' THEN '' ELSE tool END"
_KEY: Final = (
    "resolution, at, tenant_id, provider, tool, key_id, interface, toolset, source, outcome, bin, shard"
)
_GROUPED: Final = ", ".join(str(number) for number in range(1, 12))
"""The columns of the key but for the shard, by their numbers."""
_ADDED: Final = ("calls", "duration_ms", "request_bytes", "response_bytes")
_UPSERT: Final = (
    f" ON CONFLICT ({_KEY}) DO UPDATE SET "
    + ", ".join(f"{name} = call_stats.{name} + excluded.{name}" for name in _ADDED)
    + ", max_duration_ms = greatest(call_stats.max_duration_ms, excluded.max_duration_ms)"
)
_VALUES: Final = "calls, duration_ms, max_duration_ms, request_bytes, response_bytes"


def count_statement(records: str) -> str:
    """Return the INSERT statement that counts the rows of `records`, a CTE with `RETURNED_COLUMNS`.

    Rows are written in the order of their key, after all rows of `records` were stored, so that concurrent
    statements cannot deadlock. The name of a tool that does not exist is not stored: it is a client's text.
    """
    ended = (
        f"SELECT at, tenant_id, provider, {_TOOL} AS tool, key_id, interface, toolset, source, outcome,"  # noqa: S608 - constants.
        f" CASE WHEN outcome = 'unknown' THEN {UNTIMED} ELSE {BIN_SQL.format(ms='duration_ms')} END AS bin,"
        " 1 AS calls, CASE WHEN outcome = 'unknown' THEN 0 ELSE duration_ms END AS duration_ms,"
        " CASE WHEN outcome = 'unknown' THEN 0 ELSE request_bytes END AS request_bytes,"
        " CASE WHEN outcome = 'unknown' THEN 0 ELSE response_bytes END AS response_bytes"
        f" FROM {records} WHERE outcome <> 'running'"
    )
    no_longer_unknown = (
        f"SELECT at, tenant_id, provider, {_TOOL}, key_id, interface, toolset, source, 'unknown',"  # noqa: S608 - constants.
        f" {UNTIMED}, -1, 0, 0, 0 FROM {records} WHERE replaced_outcome = 'unknown'"
    )
    return (
        f"INSERT INTO call_stats ({_KEY}, {_VALUES})"  # noqa: S608 - constants.
        " SELECT resolution, date_trunc(resolution, at, 'UTC') AS bucket, tenant_id, provider, tool, key_id,"
        f" interface, toolset, source, outcome, bin, pg_backend_pid() % {_SHARDS}, sum(calls),"
        " sum(duration_ms), max(duration_ms), sum(request_bytes), sum(response_bytes)"
        f" FROM ({ended} UNION ALL {no_longer_unknown}) AS counted,"
        " (VALUES ('minute'), ('hour')) AS resolutions(resolution)"
        f" GROUP BY {_GROUPED} ORDER BY {_GROUPED}" + _UPSERT
    )


# Rows that another statement is changing are merged the next time: waiting for them could deadlock.
MERGE_SHARDS: Final = (
    "WITH old AS (DELETE FROM call_stats"  # noqa: S608 - constants.
    " WHERE ctid = ANY(ARRAY(SELECT ctid FROM call_stats"
    " WHERE shard <> 0 AND at < :before LIMIT 10000 FOR UPDATE SKIP LOCKED)) RETURNING *)"
    f" INSERT INTO call_stats ({_KEY}, {_VALUES})"
    " SELECT resolution, at, tenant_id, provider, tool, key_id, interface, toolset, source, outcome, bin, 0,"
    " sum(calls), sum(duration_ms), max(max_duration_ms), sum(request_bytes), sum(response_bytes) FROM old"
    f" GROUP BY {_GROUPED} ORDER BY {_GROUPED}" + _UPSERT
)
"""Adds up to 10,000 rows of buckets that began before `:before` to those of shard 0."""

DELETE_OLD: Final = (
    "DELETE FROM call_stats WHERE ctid = ANY(ARRAY("
    "SELECT ctid FROM call_stats WHERE resolution = :resolution AND at < :before LIMIT 10000))"
)
"""Deletes up to 10,000 rows of a resolution that began before `:before`."""
