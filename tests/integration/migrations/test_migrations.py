"""Every migration leads up and down again, and the newest tables are those of the models."""

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy import text
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

import app.storage.models
from app.storage.database import sqlalchemy_url
from tests.harness.servers import Pair

FOLDER = Path(app.storage.models.__file__).parents[3] / "migrations"


async def migrated(dsn: str, step: Any) -> Any:
    engine = create_async_engine(sqlalchemy_url(dsn))

    def run(connection: Any) -> Any:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = connection
        return step(config, connection)

    async with engine.connect() as connection:
        found = await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()
    return found


def differences(_config: Config, connection: Any) -> list[Any]:
    def ours(_object: Any, name: str | None, kind: str, *_rest: Any) -> bool:
        return not (
            kind == "table" and name is not None and (name.startswith("calls_") or name == "alembic_version")
        )

    context = MigrationContext.configure(connection, opts={"include_object": ours, "compare_type": True})
    return list(compare_metadata(context, SQLModel.metadata))


@pytest.mark.parametrize("target", ["0001", "0002", "0003"])
async def test_down_to_each_and_up_again(servers: Pair, target: str) -> None:
    dsn = await asyncio.to_thread(servers.create_database)
    try:
        await migrated(dsn, lambda config, _: command.downgrade(config, target))
        await migrated(dsn, lambda config, _: command.upgrade(config, "head"))
        assert await migrated(dsn, differences) == []
    finally:
        await asyncio.to_thread(servers.drop_database, dsn)


async def test_members_of_stored_reports_are_renamed_and_back(servers: Pair) -> None:
    active = {
        "operations": [{"name": "b", "verdict": "renamed"}, {"name": "a", "verdict": "accepted"}],
        "tokens": 3,
    }
    pending = {"operations": [{"verdict": "breaking", "held": True}]}
    definitions = {"tools": [{"name": "a", "shown": None}], "slots": []}

    def insert(_config: Config, connection: Any) -> None:
        provider = connection.execute(
            text(
                "INSERT INTO providers (id, tenant_id, name, title, description, protocol, kind, call_template,"
                " options, limits, slots, origins, tags, enabled, version, created_at, updated_at)"
                " VALUES (gen_random_uuid(), gen_random_uuid(), 'p', '', '', 'http', 'openapi', '{}', '{}', '{}',"
                " '[]', '{}', '{}', true, 1, now(), now()) RETURNING id"
            )
        ).scalar_one()
        statement = text(
            "INSERT INTO revisions (id, tenant_id, provider_id, state, report, held, created_at)"
            " VALUES (gen_random_uuid(), gen_random_uuid(), :provider, :state, cast(:report as jsonb),"
            " cast(:held as jsonb), now())"
        )
        for state, report, held in (
            ("active", active, None), ("pending", pending, definitions), ("superseded", {}, None),
        ):  # fmt: skip
            stored = None if held is None else json.dumps(held)
            row = {"provider": provider, "state": state, "report": json.dumps(report), "held": stored}
            connection.execute(statement, row)

    def stored(column: str) -> Any:
        query = text(f"SELECT report, {column} FROM revisions ORDER BY state")
        return lambda _config, connection: [tuple(row) for row in connection.execute(query)]

    dsn = await asyncio.to_thread(servers.create_database)
    try:
        await migrated(dsn, lambda config, _: command.downgrade(config, "0009"))
        await migrated(dsn, insert)
        await migrated(dsn, lambda config, _: command.upgrade(config, "0010"))
        assert await migrated(dsn, stored("pending_definitions")) == [
            (
                {"operations": [{"name": "b", "outcome": "renamed"}, {"name": "a", "outcome": "accepted"}], "tokens": 3},
                None,
            ),
            (
                {"operations": [{"compatibility": "breaking", "pending_approval": True}]},
                {"tools": [{"name": "a", "slimmed": None}], "slots": []},
            ),
            ({}, None),
        ]  # fmt: skip
        await migrated(dsn, lambda config, _: command.downgrade(config, "0009"))
        assert await migrated(dsn, stored("held")) == [(active, None), (pending, definitions), ({}, None)]
    finally:
        await asyncio.to_thread(servers.drop_database, dsn)


async def test_statistics_of_interfaces_are_added_up_on_the_way_down(servers: Pair) -> None:
    def insert(_config: Config, connection: Any) -> None:
        statement = text(
            "INSERT INTO call_stats (resolution, at, tenant_id, provider, tool, key_id, interface, toolset,"
            " outcome, bin, shard, calls, duration_ms, max_duration_ms, request_bytes, response_bytes)"
            " VALUES ('hour', '2026-11-22T09:00:00Z', '00000000-0000-0000-0000-000000000001', 'p', 'p.a', 'k',"
            " :interface, :toolset, 'ok', 1, 0, :calls, 2.5, :most, 10, 20)"
        )
        for interface, toolset, calls, most in (("rest", "", 3, 4.5), ("mcp", "support", 4, 6.5)):
            row = {"interface": interface, "toolset": toolset, "calls": calls, "most": most}
            connection.execute(statement, row)

    def stored(columns: str) -> Any:
        query = text(f"SELECT {columns} FROM call_stats")
        return lambda _config, connection: [tuple(row) for row in connection.execute(query)]

    dsn = await asyncio.to_thread(servers.create_database)
    try:
        await migrated(dsn, insert)
        await migrated(dsn, lambda config, _: command.downgrade(config, "0016"))
        counts = "calls, duration_ms, max_duration_ms, request_bytes, response_bytes"
        assert await migrated(dsn, stored(counts)) == [(7, 5.0, 6.5, 20, 40)]
        await migrated(dsn, lambda config, _: command.upgrade(config, "head"))
        assert await migrated(dsn, stored("interface, toolset, calls")) == [("rest", "", 7)]
    finally:
        await asyncio.to_thread(servers.drop_database, dsn)


@pytest.mark.parametrize(
    ("kind", "old", "new", "difference"),
    [
        ("origin", {}, {}, {"aspect": "server", "breaking": True}),
        ("origin", {}, {"token_url": "https://t.example"}, {"aspect": "auth", "breaking": True}),
        ("credential", {"name": "X-A"}, {"name": "X-B"}, {"aspect": "auth", "breaking": True}),
        ("definition", {}, {}, {"aspect": "auth", "breaking": True}),
    ],
)
async def test_pending_revisions_become_approvals(
    servers: Pair, kind: str, old: dict[str, str], new: dict[str, str], difference: dict[str, Any]
) -> None:
    slot = {"slot": "key", "kind": "api_key"}
    operation = {"source_key": "GET /a", "change": "changed", "differences": [difference]}
    definitions = {"tools": [], "slots": [{**slot, **new}]}

    def insert(_config: Config, connection: Any) -> None:
        provider = connection.execute(
            text(
                "INSERT INTO providers (id, tenant_id, name, title, description, protocol, kind, call_template,"
                " options, limits, slots, origins, tags, enabled, version, created_at, updated_at)"
                " VALUES (gen_random_uuid(), gen_random_uuid(), 'p', '', '', 'http', 'openapi', '{}', '{}', '{}',"
                " cast(:slots as jsonb), '{}', '{}', true, 1, now(), now()) RETURNING id"
            ),
            {"slots": json.dumps([{**slot, **old}])},
        ).scalar_one()
        values = {
            "provider": provider,
            "report": json.dumps({"operations": [operation]}),
            "definitions": json.dumps(definitions),
        }
        statement = text(
            "INSERT INTO revisions (id, tenant_id, provider_id, state, report, pending_definitions, created_at)"
            " VALUES (gen_random_uuid(), gen_random_uuid(), :provider, 'pending', cast(:report as jsonb),"
            " cast(:definitions as jsonb), now())"
        )
        connection.execute(statement, values)
        event = text(
            "INSERT INTO events (id, tenant_id, at, actor, action, object_type, object_name, detail)"
            " VALUES (gen_random_uuid(), gen_random_uuid(), now(), 'asker', 'refreshed', 'provider', 'p', '{}')"
        )
        connection.execute(event)

    def stored(_config: Config, connection: Any) -> Any:
        query = text(
            "SELECT kind, approvals.state, subject_name, requested_by, detail, approvals.id = revisions.id,"
            " expires_at > now() FROM approvals JOIN revisions USING (provider_id)"
        )
        return [tuple(row) for row in connection.execute(query)]

    dsn = await asyncio.to_thread(servers.create_database)
    try:
        await migrated(dsn, lambda config, _: command.downgrade(config, "0012"))
        await migrated(dsn, insert)
        await migrated(dsn, lambda config, _: command.upgrade(config, "head"))
        detail = {"operations": [operation], "count": 1}
        assert await migrated(dsn, stored) == [(kind, "pending", "p", "asker", detail, True, True)]
        await migrated(dsn, lambda config, _: command.downgrade(config, "0012"))
        pending = text("SELECT state, pending_definitions FROM revisions")
        left = await migrated(dsn, lambda _, connection: [tuple(row) for row in connection.execute(pending)])
        assert left == [("pending", definitions)]
    finally:
        await asyncio.to_thread(servers.drop_database, dsn)
