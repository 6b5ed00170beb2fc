"""The protocol `postgres` with a real server: what a query can do, and what it cannot."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import orjson
import pytest

from app.core import exact_json
from app.core.errors import (
    BlockedAddress,
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
    UpstreamUnreachable,
)
from app.core.settings import Settings
from app.outbound.credential_rendering import WireCredential
from app.outbound.guard import Guard
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.protocols.base import AdapterContext
from app.protocols.postgres.adapter import PostgresAdapter
from app.security.masking import Masker
from app.security.secret import Secret
from app.storage.database import asyncpg_dsn
from tests.harness.cases import for_each
from tests.harness.servers import Pair
from tests.protocols.calling import call_of
from tests.protocols.peers.postgres import postgres_port

SETUP = """
CREATE ROLE {role} LOGIN PASSWORD 'reader-password';
CREATE TABLE orders (id int PRIMARY KEY, status text, amount numeric, placed timestamptz);
INSERT INTO orders VALUES (123, 'Shipped', 12.3400000000000000000000001, '2026-01-02T03:04:05Z');
CREATE SEQUENCE numbers;
CREATE FUNCTION writes() RETURNS int LANGUAGE plpgsql SECURITY DEFINER AS
  $$ BEGIN INSERT INTO orders VALUES (7, 'by a function', 0, now()); RETURN 1; END $$;
CREATE FUNCTION unlocks() RETURNS int LANGUAGE plpgsql AS
  $$ BEGIN SET TRANSACTION READ WRITE; INSERT INTO orders VALUES (8, 'unlocked', 0, now()); RETURN 1; END $$;
CREATE PROCEDURE commits(INOUT a int) LANGUAGE plpgsql AS
  $$ BEGIN COMMIT; INSERT INTO orders VALUES (9, 'after a commit', 0, now()); a := 1; COMMIT; END $$;
GRANT ALL ON ALL TABLES IN SCHEMA public TO {role};
GRANT ALL ON ALL SEQUENCES IN SCHEMA public TO {role};
GRANT ALL ON SCHEMA public TO {role};
"""


@dataclass
class Server:
    dsn: str
    role: str
    port: int = 0

    def template(self, **more: Any) -> dict[str, Any]:
        parts = urlsplit(self.dsn)
        return {
            "call_template_type": "postgres", "host": "127.0.0.1", "port": self.port,
            "database": parts.path.lstrip("/"), "sslmode": "disable", **more,
        }  # fmt: skip

    def login(self, username: str = "", password: str = "reader-password") -> tuple[WireCredential, ...]:
        pairs = {"/username": username or self.role, "/password": password}
        return tuple(WireCredential("field", name, Secret(value), "default") for name, value in pairs.items())

    async def ask(self, statement: str) -> Any:
        connection = await asyncpg.connect(asyncpg_dsn(self.dsn))
        try:
            return await connection.fetchval(statement)
        finally:
            await connection.close()


@pytest.fixture
async def server(database: Server) -> AsyncIterator[Server]:
    async with postgres_port(database.dsn) as database.port:
        yield database


@pytest.fixture(scope="module")
def database(servers: Pair) -> Iterator[Server]:
    dsn = servers.create_database(migrated=False)
    name = urlsplit(dsn).path.lstrip("/")
    found = Server(dsn, f"reader_{name}")

    async def run(statement: str) -> None:
        connection = await asyncpg.connect(asyncpg_dsn(dsn))
        await connection.execute(statement)
        await connection.close()

    asyncio.run(run(SETUP.format(role=found.role)))
    yield found
    asyncio.run(run(f"DROP OWNED BY {found.role}; DROP ROLE {found.role}"))
    servers.drop_database(dsn)


@pytest.fixture
async def adapter(engine: Engine, masker: Masker) -> AsyncIterator[PostgresAdapter]:
    adapter = PostgresAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    yield adapter
    await adapter.aclose()


async def query(adapter: PostgresAdapter, server: Server, statement: str, **more: Any) -> Any:
    fields = {name: more.pop(name) for name in ("seconds", "limits", "credentials") if name in more}
    fields.setdefault("credentials", server.login())
    result = await adapter.call(call_of(adapter, server.template(**more), {"query": statement}, **fields))
    return exact_json.load_exactly(await result.read())


async def test_rows_as_json(adapter: PostgresAdapter, server: Server) -> None:
    found = await query(adapter, server, "SELECT status FROM orders WHERE id = 123")
    assert found == {
        "columns": [{"name": "status", "type": "text"}],
        "rows": [{"status": "Shipped"}],
        "row_count": 1,
        "truncated": False,
    }


@for_each(
    ("expression", "json"),
    [
        ("12.3400000000000000000000001::numeric", "12.3400000000000000000000001"),
        ("9007199254740993::int8", "9007199254740993"),
        ("1e40::numeric", "1e+40"),
        ("0.1::float4", "0.1"),
        ("0.1::float8 + 0.2::float8", "0.30000000000000004"),
        ("1e300::float8", "1e+300"),
        ("'NaN'::numeric", '"NaN"'),
        ("'-Infinity'::float8", '"-Infinity"'),
        ("true", "true"),
        ("NULL::int", "null"),
        ("'{\"a\": [1.1000000000000000000001, 123456789012345678901]}'::jsonb", '{"a":[1.1000000000000000000001,123456789012345678901]}'),
        ("ARRAY[[1,2],[3,NULL]]", "[[1,2],[3,null]]"),
        ("ARRAY['a','b c']::text[]", '["a","b c"]'),
        ("ARRAY[1.5, 2]::float8[]", "[1.5,2]"),
        ("'infinity'::timestamptz", '"infinity"'),
        ("'2026-01-02 03:04:05.678+00'::timestamp", '"2026-01-02 03:04:05.678"'),
        ("'0044-03-15 BC'::date", '"0044-03-15 BC"'),
        ("'1 year 2 days'::interval", '"P1Y2D"'),
        ("'\\x00ff'::bytea", '"\\\\x00ff"'),
        ("'6e0b0b4e-7a9b-4b0e-8f43-0a7d5f1b3c2d'::uuid", '"6e0b0b4e-7a9b-4b0e-8f43-0a7d5f1b3c2d"'),
        ("'10.0.0.0/8'::cidr", '"10.0.0.0/8"'),
        ("int4range(1, 5)", '{"lower":1,"upper":5,"lower_inc":true,"upper_inc":false}'),
        ("'Grüße 👋'", '"Grüße 👋"'),
    ],
)  # fmt: skip
async def test_values_keep_their_digits(
    adapter: PostgresAdapter, server: Server, expression: str, json: str
) -> None:
    call = call_of(
        adapter, server.template(), {"query": f"SELECT {expression} AS v"}, credentials=server.login()
    )
    body = (await (await adapter.call(call)).read()).decode()
    assert f'"rows":[{{"v":{json}}}]'.lower() in body.lower()


async def test_columns_of_one_name(adapter: PostgresAdapter, server: Server) -> None:
    found = await query(adapter, server, "SELECT 1 AS a, 2 AS a, 3 AS a_2")
    assert list(found["rows"][0].values()) == [1, 2, 3]
    assert len({one["name"] for one in found["columns"]}) == 3


@for_each("statement", ["SHOW server_version", "EXPLAIN SELECT 1", "TABLE orders", "VALUES (1)",
                                       "WITH a AS (SELECT 1) SELECT * FROM a", "SELECT 1;", "/* c */ SELECT 1 -- d"])  # fmt: skip
async def test_statements_that_return_rows(adapter: PostgresAdapter, server: Server, statement: str) -> None:
    assert (await query(adapter, server, statement))["row_count"] >= 1


async def test_at_most_so_many_rows(adapter: PostgresAdapter, server: Server) -> None:
    found = await query(adapter, server, "SELECT generate_series(1, 1000000000) AS n", max_rows=250)
    assert (found["row_count"], found["truncated"], found["rows"][-1]) == (250, True, {"n": 250})
    exact = await query(adapter, server, "SELECT generate_series(1, 250) AS n", max_rows=250)
    assert (exact["row_count"], exact["truncated"]) == (250, False)


@for_each(
    "statement",
    [
        "INSERT INTO orders VALUES (1, 'x', 0, now()) RETURNING id",
        "UPDATE orders SET status = 'x' RETURNING id",
        "DELETE FROM orders RETURNING id",
        "WITH gone AS (DELETE FROM orders RETURNING id) SELECT * FROM gone",
        "MERGE INTO orders USING (VALUES (123)) AS n(i) ON id = n.i WHEN MATCHED THEN DELETE RETURNING id",
        "SELECT nextval('numbers')",
        "SELECT setval('numbers', 100)",
        "SELECT writes()",
        "SELECT unlocks()",
        "SELECT set_config('transaction_read_only', 'off', false), writes()",
        "SELECT id FROM orders FOR UPDATE",
        "EXPLAIN ANALYZE DELETE FROM orders",
        "CALL commits(1)",
        "SELECT lo_creat(-1)",
        "SELECT lo_from_bytea(0, 'x')",
        "SELECT pg_read_file('/etc/passwd')",
        "SELECT pg_ls_dir('/')",
        "SELECT lo_import('/etc/passwd')",
        "SELECT lo_export(1, '/tmp/exported')",
        "SELECT pg_reload_conf()",
        "SELECT pg_switch_wal()",
        "SELECT * FROM pg_authid",
        "SELECT pg_create_logical_replication_slot('s', 'test_decoding')",
    ],
)  # fmt: skip
async def test_what_the_server_rejects(adapter: PostgresAdapter, server: Server, statement: str) -> None:
    with pytest.raises(UpstreamRejected) as raised:
        await query(adapter, server, statement)
    assert raised.value.response is not None
    assert raised.value.response.body["code"]
    await nothing_has_changed(server)


@for_each(
    "statement",
    [
        "DO $$ BEGIN PERFORM 1; END $$",
        "DO $$ BEGIN SET TRANSACTION READ WRITE; END $$",
        "COPY (SELECT 1) TO PROGRAM 'touch /tmp/x'",
        "COPY orders FROM '/etc/passwd'",
        "COPY orders TO STDOUT",
        "SET TRANSACTION READ WRITE",
        "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
        "BEGIN", "COMMIT", "ROLLBACK", "LISTEN x", "NOTIFY x", "LOCK TABLE orders", "LOAD 'x'", "DISCARD ALL",
        "CREATE TABLE x (a int)", "DROP TABLE orders", "TRUNCATE orders", "ALTER SYSTEM SET work_mem = '1MB'",
        "CREATE TEMP TABLE x (a int)", "SELECT 1 INTO TEMP x", "PREPARE p AS SELECT 1", "VACUUM", "", "  ", "-- nothing",
        "SELECT $1::int",
    ],
)  # fmt: skip
async def test_what_is_no_query_is_not_executed(
    adapter: PostgresAdapter, server: Server, statement: str
) -> None:
    with pytest.raises(InvalidArguments) as raised:
        await query(adapter, server, statement)
    reasons = (
        ("Only a statement that returns rows", "Write values in") if statement.strip() else "Give one SQL"
    )
    assert raised.value.detail.startswith(reasons)
    await nothing_has_changed(server)


@pytest.mark.parametrize(
    "statement",
    [
        "SELECT 1; SELECT 2",
        "SELECT 1; DELETE FROM orders",
        "COMMIT; DELETE FROM orders",
        "SELECT 1;;DELETE FROM orders --",
    ],
)
async def test_one_statement_only(adapter: PostgresAdapter, server: Server, statement: str) -> None:
    with pytest.raises(UpstreamRejected) as raised:
        await query(adapter, server, statement)
    assert raised.value.response is not None
    assert "multiple commands" in raised.value.response.body["error"]
    await nothing_has_changed(server)


async def nothing_has_changed(server: Server) -> None:
    assert await server.ask("SELECT string_agg(id || status, ',') FROM orders") == "123Shipped"
    assert await server.ask("SELECT is_called FROM numbers") is False
    assert await server.ask("SELECT count(*) FROM pg_largeobject_metadata") == 0


async def test_what_a_query_leaves_ends_with_its_connection(adapter: PostgresAdapter, server: Server) -> None:
    await query(
        adapter, server, "SELECT pg_advisory_lock(77), pg_advisory_xact_lock(78), pg_notify('c', 'm')"
    )
    await query(
        adapter,
        server,
        "SELECT set_config('statement_timeout', '0', false), set_config('work_mem', '1MB', false)",
    )
    async with asyncio.timeout(30):
        while await server.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'"):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    found = await query(
        adapter,
        server,
        "SELECT current_setting('statement_timeout') AS t, current_setting('transaction_read_only') AS r",
    )
    assert found["rows"] == [{"t": "15s", "r": "on"}]


async def test_the_time_is_limited_by_the_server(adapter: PostgresAdapter, server: Server) -> None:
    for statement in (
        "SELECT pg_sleep(60)",
        "SELECT set_config('statement_timeout', '0', false), pg_sleep(60)",
    ):
        with pytest.raises(UpstreamTimeout) as raised:
            await query(adapter, server, statement, timeout=300, seconds=60)
        assert not raised.value.counts_for_breaker
        assert "300 milliseconds" in raised.value.detail


async def test_a_query_is_cancelled_where_the_call_ends_first(
    adapter: PostgresAdapter, server: Server
) -> None:
    running = f"SELECT count(*) FROM pg_stat_activity WHERE usename = '{server.role}' AND state = 'active'"
    with pytest.raises(UpstreamTimeout):
        await query(adapter, server, "SELECT pg_sleep(60)", timeout=600_000, seconds=1)
    calling = asyncio.create_task(query(adapter, server, "SELECT pg_sleep(60)", timeout=600_000, seconds=60))
    async with asyncio.timeout(30):
        while not await server.ask(running):  # noqa: ASYNC110
            await asyncio.sleep(0.05)
    calling.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await calling
    async with asyncio.timeout(30):
        while await server.ask(running):  # noqa: ASYNC110
            await asyncio.sleep(0.05)


async def test_large_results_are_rejected_while_they_arrive(adapter: PostgresAdapter, server: Server) -> None:
    limits = Limits(response_bytes=10_000)
    for statement in (
        "SELECT repeat('x', 20000)",
        "SELECT repeat('x', 300000000)",
        "SELECT repeat('x', 1000) FROM generate_series(1, 90)",
    ):
        with pytest.raises(ResponseTooLarge) as raised:
            await query(adapter, server, statement, limits=limits)
        assert not raised.value.counts_for_breaker


async def test_a_role_that_could_do_more_is_rejected(adapter: PostgresAdapter, server: Server) -> None:
    owner = urlsplit(server.dsn).username or await server.ask("SELECT current_user")
    names = {"plain": "", "files": "GRANT pg_read_server_files TO {name}", "super": "GRANT {owner} TO {name}",
             "programs": "GRANT pg_execute_server_program TO {name}", "replicates": "ALTER ROLE {name} REPLICATION"}  # fmt: skip
    connection = await asyncpg.connect(asyncpg_dsn(server.dsn))
    try:
        for kind, grant in names.items():
            name = f"{server.role}_{kind}"
            await connection.execute(f"CREATE ROLE {name} LOGIN PASSWORD 'reader-password'")
            try:
                if grant:
                    await connection.execute(grant.format(name=name, owner=f'"{owner}"'))
                asked = query(adapter, server, "SELECT 1 AS a", credentials=server.login(name))
                if kind == "plain":
                    assert (await asked)["rows"] == [{"a": 1}]
                    continue
                with pytest.raises(
                    UpstreamRejected, match="rights that a read-only transaction does not limit"
                ) as raised:
                    await asked
                assert "CREATE ROLE" in raised.value.hint
            finally:
                await connection.execute(f"DROP ROLE {name}")
    finally:
        await connection.close()


async def test_a_wrong_password_and_a_wrong_database(adapter: PostgresAdapter, server: Server) -> None:
    with pytest.raises(UpstreamRejected):
        await query(adapter, server, "SELECT 1", database="there_is_none")
    # A server that trusts its own machine does not ask for the password; no server has this user.
    with pytest.raises((UpstreamUnauthorized, UpstreamRejected)) as raised:
        await query(adapter, server, "SELECT 1", credentials=server.login("nobody_at_all", "canary-password"))
    assert "canary-password" not in f"{raised.value!r} {raised.value.as_problem()}"


async def test_nothing_of_the_environment_is_used(
    adapter: PostgresAdapter, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    names = {"PGHOST": "203.0.113.9", "PGPORT": "1", "PGUSER": "x", "PGPASSWORD": "canary", "PGDATABASE": "x",
             "PGSSLMODE": "verify-full", "PGPASSFILE": "/dev/null", "PGTARGETSESSIONATTRS": "standby", "PGSERVICE": "x"}  # fmt: skip
    for name, value in names.items():
        monkeypatch.setenv(name, value)
    found = await query(adapter, server, "SELECT current_user AS u")
    assert found["rows"] == [{"u": server.role}]


async def test_a_server_without_tls_is_not_used_unasked(adapter: PostgresAdapter, server: Server) -> None:
    for sslmode in ("verify-full", "require"):
        with pytest.raises(UpstreamUnreachable) as raised:
            await query(adapter, server, "SELECT 1", sslmode=sslmode)
        assert not raised.value.request_sent
    with pytest.raises(InvalidInput):
        adapter.prepare(server.template(sslmode="prefer"))


async def test_the_address_guard_holds(server: Server, masker: Masker) -> None:
    engine = Engine(Guard())
    adapter = PostgresAdapter(AdapterContext(engine, engine.network, masker, Settings(_env_file=None)))
    for host in ("127.0.0.1", "localhost", "169.254.169.254", "[::1]"):
        with pytest.raises((BlockedAddress, InvalidInput)):
            await query(adapter, server, "SELECT 1", host=host)
    await adapter.aclose()
    await engine.aclose()


@pytest.mark.parametrize("host", ["/var/run/postgresql", "a,b", "a b", "u:p@h", "", "h/x", "h?x=1"])
async def test_a_host_is_one_host(adapter: PostgresAdapter, server: Server, host: str) -> None:
    with pytest.raises(InvalidInput):
        adapter.prepare(server.template(host=host))


async def test_a_dry_run_shows_no_secret(adapter: PostgresAdapter, server: Server) -> None:
    call = call_of(
        adapter, server.template(), {"query": "SELECT 1"}, credentials=server.login("reader", "canary-4711")
    )
    shown = adapter.describe(call)
    assert shown["body"] == "SELECT 1"
    assert shown["headers"] == {"username": "***", "password": "***", "sslmode": "disable"}
    assert "canary-4711" not in orjson.dumps(shown).decode() + repr(call)
