"""Storing records as rows of `calls`: one statement for many; storing a record again is idempotent.

The statement also counts them in the statistics (`app.calls.stats.rollup`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, Final
from uuid import UUID

import structlog
from sqlalchemy.exc import DBAPIError

from app.calls.log.entries import RUNNING, CallLogEntry
from app.calls.log.retention import maintain_partitions
from app.calls.stats.rollup import RETURNED_COLUMNS, count_statement
from app.core import exact_json
from app.core.errors import Unavailable
from app.storage.database import Database, is_unavailable

_log = structlog.get_logger(__name__)

_MAX_INT = 2**31 - 1
_MAX_TEXT_LENGTH = 300
# Storing so many rows takes one or two milliseconds, for which calls in progress wait.
_ROWS_PER_STATEMENT = 100
# check_violation: the row does not belong, or no longer belongs, to the partition.
_NO_PARTITION = "23514"

_COLUMNS: Final = {
    "id": "uuid", "at": "timestamptz", "tenant_id": "uuid", "key_id": "text", "interface": "text",
    "toolset": "text", "source": "text", "provider": "text",
    "tool": "text", "outcome": "text", "status": "int", "upstream_status": "int", "duration_ms": "float8",
    "request_bytes": "int", "response_bytes": "int", "attempts": "int", "safe": "bool",
    "deadline": "timestamptz", "arguments": "bytea", "result": "bytea", "evidence": "bytea",
}  # fmt: skip
# The same in the record of the beginning and that of the end.
_IMMUTABLE_COLUMNS: Final = frozenset({"id", "at", "tenant_id"})


def insert_statement(*, first: int = 1, condition: str = "") -> str:
    """Return the INSERT statement for records; its parameter `$first` is the text of `records_json`.

    `condition` restricts it to some rows of `r`, which has the columns of the table. Alone it is for records
    of calls that begin; `build_recording_statement` counts the ends in the statistics, too.
    """
    names = ", ".join(_COLUMNS)
    typed = ", ".join(f"{name} {kind}" for name, kind in _COLUMNS.items())
    changes = ", ".join(f"{name} = excluded.{name}" for name in _COLUMNS if name not in _IMMUTABLE_COLUMNS)
    # A batch whose commit was interrupted is stored again: the end of a call replaces its beginning,
    # whichever is stored first, and nothing replaces an end.
    return (
        f"INSERT INTO calls ({names}) SELECT {names}"  # noqa: S608 - constants.
        f" FROM json_to_recordset(CAST(${first} AS json)) AS r({typed})"
        f"{condition and f' WHERE {condition}'}"
        f" ON CONFLICT (id, at) DO UPDATE SET {changes},"
        " replaced_outcome = calls.outcome, stored_at = clock_timestamp()"
        " WHERE calls.outcome IN ('running', 'unknown') AND excluded.outcome <> 'running'"
    )


def build_recording_statement(*, first: int = 1, after: str = "WITH") -> str:
    """Return the statement that stores records and counts them in the statistics.

    Its parameter `$first` is the text of `records_json`. `after` is the text before its first CTE: `WITH`, or
    further CTEs that end with a comma. A record that is stored again is counted once.
    """
    recorded = f"recorded AS ({insert_statement(first=first)} RETURNING {RETURNED_COLUMNS})"
    return f"{after} {recorded} {count_statement('recorded')}"


STATEMENT: Final = build_recording_statement()
"""The statement for records of any kind; its parameter is the text of `records_json`."""


def records_json(entries: Iterable[CallLogEntry]) -> str:
    """Return the parameter of the statement: a JSON array of objects by column name; each call once.

    They are ordered by call id, so that two statements cannot deadlock. (A list for each column takes asyncpg
    twice the time: decision 78.)
    """
    calls: dict[Any, CallLogEntry] = {}
    for entry in entries:
        if entry.outcome != RUNNING or entry.id not in calls:
            calls[entry.id] = entry
    chosen = sorted(calls.values(), key=lambda entry: entry.id.int)
    return exact_json.dumps([_make_storable(entry) for entry in chosen], default=_as_text).decode()


class CallStore:
    """Stores batches of records; rows that PostgreSQL rejects do not affect the others."""

    def __init__(self, database: Database, *, retention_days: int = 30) -> None:
        self.database = database
        self.retention_days = retention_days
        self.dropped = 0
        """Records that were dropped, since the start."""

    async def store(self, batch: Sequence[CallLogEntry], *, partitions_ready: bool = False) -> bool:
        """Store a batch; return False when PostgreSQL is unavailable, else True: each row is stored or
        rejected.

        After False, some rows may be stored; the whole batch can be passed again. `partitions_ready` says
        that the partitions have just been maintained.
        """
        chunks = [
            batch[start : start + _ROWS_PER_STATEMENT] for start in range(0, len(batch), _ROWS_PER_STATEMENT)
        ]
        chunks.reverse()
        while chunks:
            try:
                async with self.database.autocommit_session() as session:
                    connection = await session.connection()
                    while chunks:
                        await connection.exec_driver_sql(STATEMENT, (records_json(chunks[-1]),))
                        chunks.pop()
            except (Unavailable, OSError, TimeoutError):
                return False
            except DBAPIError as error:
                if is_unavailable(error):
                    return False
                if not _is_row_error(error):
                    raise
                if not await self._store_valid_rows(chunks.pop(), error, partitions_ready=partitions_ready):
                    return False
        return True

    async def _store_valid_rows(
        self, chunk: Sequence[CallLogEntry], error: DBAPIError, *, partitions_ready: bool
    ) -> bool:
        if not partitions_ready and getattr(error.orig, "sqlstate", None) == _NO_PARTITION:
            # The day's partition was created while the row was being inserted into the default one.
            try:
                await maintain_partitions(self.database, retention_days=self.retention_days)
            except Unavailable:
                return False
            return await self.store(chunk, partitions_ready=True)
        if len(chunk) == 1:
            _log.error("a call record was rejected by the database")
            self.count_dropped(1)
            return True
        # One row that PostgreSQL rejects must not prevent the others from being stored.
        return all([await self.store([entry], partitions_ready=partitions_ready) for entry in chunk])

    def count_dropped(self, number: int) -> None:
        """Add a number of dropped records to `dropped`."""
        self.dropped += number


def _is_row_error(error: DBAPIError) -> bool:
    """Return whether a value was rejected: SQLSTATE classes 22 and 23, or asyncpg could not encode it."""
    state = getattr(error.orig, "sqlstate", None)
    return state is None or str(state).startswith(("22", "23"))


def _make_storable(entry: CallLogEntry) -> CallLogEntry:
    """Return a storable record: texts cut, without NUL and lone surrogates; sizes within their column."""
    names = f"{entry.tool}{entry.provider}{entry.key_id}{entry.toolset}{entry.outcome}"
    if (
        len(names) <= _MAX_TEXT_LENGTH
        and names.isascii()
        and "\x00" not in names
        and entry.request_bytes <= _MAX_INT
        and entry.response_bytes <= _MAX_INT
    ):
        return entry
    return replace(
        entry,
        key_id=_clean_text(entry.key_id),
        toolset=_clean_text(entry.toolset),
        provider=_clean_text(entry.provider),
        tool=_clean_text(entry.tool),
        outcome=_clean_text(entry.outcome),
        request_bytes=min(entry.request_bytes, _MAX_INT),
        response_bytes=min(entry.response_bytes, _MAX_INT),
    )


def _clean_text(value: str) -> str:
    return value[:_MAX_TEXT_LENGTH].replace("\x00", "").encode("utf-8", "replace").decode()


def _as_text(value: Any) -> str:
    """Return a UUID of asyncpg, or bytes, as PostgreSQL reads them; raise TypeError for another type."""
    if isinstance(value, UUID):
        return str(value)
    if isinstance(value, bytes):
        return f"\\x{value.hex()}"
    raise TypeError(type(value).__name__)
