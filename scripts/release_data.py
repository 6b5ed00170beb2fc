"""Write the data of a release: the rows that its gateway stores, as SQL that no later model can change.

A gateway of this checkout is given data through its API (scripts/release_seed.py), and is stopped. The rows
of its tables become `tests/releases/VERSION/data.sql`; what a test must know of them (keys, names, expected
responses) becomes `expected.json` beside it. tests/api/test_releases.py loads them at the revision of the
release, upgrades, and calls the tools.
"""

import asyncio
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import asyncpg
from sqlmodel import SQLModel

from app.storage.database import asyncpg_dsn
from scripts.release_seed import Seed
from tests.harness.gateway import RunningGateway, serve
from tests.harness.release_upstream import release_upstream
from tests.harness.servers import pair

Json = dict[str, Any]

SETTINGS: Final = {"CALL_LOG_MODE": "strict", "CALL_LOG_BODIES": "all"}
_EXPIRES: Final = "expires_at"
_LOAD_EXPIRY: Final = "now() + interval '30 days'"


def write_release_data(folder: Path, *, version: str, revision: str) -> None:
    """Write `data.sql` and `expected.json` of a release into `folder`, from a new gateway."""
    folder.mkdir(parents=True, exist_ok=True)
    with (
        pair() as servers,
        release_upstream() as upstream,
    ):
        dsn = servers.create_database()
        logs = folder / ".logs"
        logs.mkdir(exist_ok=True)
        try:
            with (
                serve(servers, logs, database_url=dsn, workers=1, execute=True, **SETTINGS) as gateway,
                gateway.client() as client,
            ):
                expected = _expected(gateway, Seed(client, upstream).store())
            sql = asyncio.run(_dump(dsn))
        finally:
            servers.drop_database(dsn)
            for log in logs.iterdir():
                log.unlink()
            logs.rmdir()
    header = f"-- Rows of release {version} at revision {revision}, written by `make release-data`.\n"
    (folder / "data.sql").write_text(header + sql, encoding="utf-8")
    (folder / "expected.json").write_text(json.dumps(expected, indent=2) + "\n", encoding="utf-8")


def _expected(gateway: RunningGateway, stored: Json) -> Json:
    return {"admin_key": gateway.key, "sealing_keys": gateway.environment["SEALING_KEYS"], **stored}


async def _dump(dsn: str) -> str:
    """Return statements that empty all tables of a database and insert its rows."""
    tables = [table.name for table in SQLModel.metadata.sorted_tables]
    connection = await asyncpg.connect(asyncpg_dsn(dsn))  # type: ignore[no-untyped-call]
    try:
        lines = [f"TRUNCATE {', '.join(tables)};"]
        for table in tables:
            lines += await _inserts(connection, table)
    finally:
        await connection.close()
    return "\n".join(lines) + "\n"


async def _inserts(connection: Any, table: str) -> list[str]:
    columns = [
        row["column_name"]
        for row in await connection.fetch(
            "SELECT column_name FROM information_schema.columns"
            " WHERE table_schema = 'public' AND table_name = $1 AND is_generated = 'NEVER'"
            " ORDER BY ordinal_position",
            table,
        )
    ]
    casts = ", ".join(f'"{name}"::text' for name in columns)
    rows = await connection.fetch(f'SELECT {casts} FROM "{table}" ORDER BY 1')  # noqa: S608 - names of tables
    names = ", ".join(f'"{name}"' for name in columns)
    return [
        f'INSERT INTO "{table}" ({names}) VALUES ({", ".join(_literals(columns, row))});'  # noqa: S608
        for row in rows
    ]


def _literals(columns: list[str], row: Any) -> Iterator[str]:
    for name, value in zip(columns, row, strict=True):
        if value is None:
            yield "NULL"
        elif name == _EXPIRES:
            # A row that had a time to live when it was stored has one when it is loaded.
            yield _LOAD_EXPIRY
        else:
            yield "'" + value.replace("'", "''") + "'"
