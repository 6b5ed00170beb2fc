"""Errors of an operator are reported in one line: a key ring that lacks a key, a schema, a DSN, a file."""

import asyncio
import os
import pty
import socketserver
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import asyncpg
import pytest

from app.core.settings import Settings
from app.main import create_app
from app.security.vault import KeyRing
from app.storage.database import asyncpg_dsn
from tests.harness.cases import for_each
from tests.harness.gateway import PROGRAM, environment_for, run_in_process
from tests.harness.servers import Pair


@pytest.fixture(scope="module")
def migrated(servers: Pair) -> Iterator[dict[str, str]]:
    """The environment of a database of its own."""
    dsn = servers.create_database()
    yield environment_for(dsn, servers.redis_url) | {"PORT": "0"}
    servers.drop_database(dsn)


@pytest.fixture(scope="module")
def sealed(migrated: dict[str, str]) -> dict[str, str]:
    """The environment of a database with data keys, whose key ring has the id `test`."""
    assert run_in_process("bootstrap", environment=migrated).code == 0
    return migrated


@for_each(
    "words",
    [("serve",), ("bootstrap",), ("bootstrap", "--rotate")],
    ids=["serve", "bootstrap", "rotate"],
)
@for_each("ring_id", ["other", "test"])
def test_a_dump_with_another_key_ring_is_reported_in_one_line_with_the_missing_id(
    sealed: dict[str, str], words: tuple[str, ...], ring_id: str
) -> None:
    done = run_in_process(*words, environment=sealed | {"SEALING_KEYS": KeyRing.generate(ring_id)})
    assert done.code == 1
    assert done.out == ""
    assert len(done.err.splitlines()) == 1
    assert "'test'" in done.err
    assert "key ring" in done.err


async def test_a_worker_that_lacks_a_key_logs_one_line(servers: Pair, sealed: dict[str, str]) -> None:
    settings = Settings(
        _env_file=None,
        database_url=sealed["DATABASE_URL"],
        redis_url=sealed["REDIS_URL"],
        sealing_keys=KeyRing.generate("other"),
    )
    messages: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        messages.append(message)

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    with pytest.raises(Exception, match="'test'"):
        await create_app(settings)(scope, receive, send)
    assert [message["type"] for message in messages] == ["lifespan.startup.failed"]
    assert "'test'" in messages[0]["message"]
    assert "\n" not in messages[0]["message"]


async def _tables(dsn: str) -> set[str]:
    connection = await asyncpg.connect(asyncpg_dsn(dsn))
    try:
        rows = await connection.fetch(
            "SELECT table_name || '.' || column_name FROM information_schema.columns WHERE table_schema = 'public'"
        )
    finally:
        await connection.close()
    return {row[0] for row in rows}


def test_migrate_goes_down_by_the_chain_and_only_when_it_is_confirmed(servers: Pair) -> None:
    dsn = servers.create_database()
    try:
        environment = environment_for(dsn, servers.redis_url)
        whole = asyncio.run(_tables(dsn))
        unconfirmed = run_in_process("migrate", "--revision", "0006", environment=environment)
        assert unconfirmed.code == 2
        assert "0007" in unconfirmed.err
        assert "--yes" in unconfirmed.err
        assert asyncio.run(_tables(dsn)) == whole

        down = run_in_process("migrate", "--revision", "0006", "--yes", environment=environment)
        assert (down.code, down.out) == (0, "")
        assert "0006" in down.err
        fewer = asyncio.run(_tables(dsn))
        assert "idempotency_keys.digest" in whole
        assert not any(column.startswith("idempotency_keys.") for column in fewer)

        same = run_in_process("migrate", "--revision", "0006", environment=environment)
        assert (same.code, same.err) == (0, "The schema is at 0006, as it was before.\n")
        one_up = run_in_process("migrate", "--revision", "+1", environment=environment)
        assert one_up.err == "The schema is at 0007: 1 migrations were applied.\n"
        assert run_in_process("migrate", environment=environment).code == 0
        assert asyncio.run(_tables(dsn)) == whole
    finally:
        servers.drop_database(dsn)


@pytest.mark.parametrize(("response", "code"), [("y", 0), ("n", 1)])
def test_migrate_down_is_confirmed_on_a_terminal(servers: Pair, response: str, code: int) -> None:
    dsn = servers.create_database()
    ours, theirs = pty.openpty()
    try:
        with subprocess.Popen(
            [str(PROGRAM), "migrate", "--revision", "-1"],
            env=environment_for(dsn, servers.redis_url), stdin=theirs, stderr=subprocess.PIPE, text=True,
        ) as process:  # fmt: skip
            os.write(ours, f"{response}\n".encode())
            _, stderr = process.communicate(timeout=60)
        assert process.returncode == code, stderr
        # Either the schema is one revision older, or nothing was changed.
        again = run_in_process("migrate", environment=environment_for(dsn, servers.redis_url))
        assert ("as it was before" in again.err) is (code == 1)
    finally:
        os.close(ours)
        os.close(theirs)
        servers.drop_database(dsn)


def test_an_error_of_the_database_is_shown_in_one_line(servers: Pair) -> None:
    dsn = servers.create_database(migrated=False)
    try:

        async def create_conflicting_table() -> None:
            connection = await asyncpg.connect(asyncpg_dsn(dsn))
            await connection.execute("CREATE TABLE providers (id integer)")
            await connection.close()

        asyncio.run(create_conflicting_table())
        done = run_in_process("migrate", environment=environment_for(dsn, servers.redis_url))
        assert done.code == 1
        assert len(done.err.splitlines()) == 1
        assert 'relation "providers" already exists' in done.err
    finally:
        servers.drop_database(dsn)


def test_a_schema_of_another_version_is_named(servers: Pair) -> None:
    dsn = servers.create_database()
    try:

        async def newer() -> None:
            connection = await asyncpg.connect(asyncpg_dsn(dsn))
            await connection.execute("UPDATE alembic_version SET version_num = '9999'")
            await connection.close()

        asyncio.run(newer())
        done = run_in_process("migrate", environment=environment_for(dsn, servers.redis_url))
        assert done.code == 1
        assert "9999" in done.err
        assert len(done.err.splitlines()) == 1
    finally:
        servers.drop_database(dsn)


WRONG: list[tuple[str, dict[str, str], str]] = [
    ("migrate", {"DATABASE_URL": "postgresql://u:geheim@h:port/x"}, "cannot be read"),
    ("migrate", {"DATABASE_URL": "postgresql://u:geh/eim@h:1/x"}, "PostgreSQL"),
    ("migrate", {"DATABASE_URL": "mysql://u:geheim@h/x"}, "not a PostgreSQL URL"),
    ("migrate", {"DATABASE_URL": "postgresql://u:geheim@127.0.0.1:9/x?colour=red"}, "'colour'"),
    ("migrate", {"DATABASE_URL": "postgresql://u:geheim@127.0.0.1:9/x?sslmode=perhaps"}, "sslmode"),
    ("migrate", {"DATABASE_URL": "postgresql://u:geheim@127.0.0.1:9/x"}, "cannot be reached"),
    ("migrate --revision nope", {}, "'nope'"),
    ("migrate --revision -99", {}, "-99"),
    ("serve", {"SEALING_KEYS_FILE": "/nowhere/ring"}, "/nowhere/ring"),
    ("serve", {"REDIS_URL": "nonsense"}, "Redis URL"),
]


@for_each(("words", "settings", "expected"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_unusable_settings_are_reported_in_one_line_without_secrets(
    words: str, settings: dict[str, str], expected: str, migrated: dict[str, str]
) -> None:
    environment = migrated | settings
    if "SEALING_KEYS_FILE" in settings:
        del environment["SEALING_KEYS"]
    done = run_in_process(*words.split(), environment=environment)
    assert done.code in (1, 2)
    assert len(done.err.splitlines()) == 1, done.stderr
    assert expected in done.err
    assert "geh" not in done.err


@for_each(
    ("settings", "expected"),
    [
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}, "PostgreSQL cannot be reached"),
        ({"SEALING_KEYS": ""}, "SEALING_KEYS"),
        ({"SEALING_KEYS": "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, "key ring"),
        ({"SEALING_KEYS": "k1:changeme"}, "key ring"),
        ({"REDIS_URL": ""}, "both --database-url and --redis-url"),
        ({"PORT": "notaport"}, "PORT"),
    ],
)
def test_serve_reports_missing_servers_and_settings_in_a_sentence(
    settings: dict[str, str], expected: str, servers: Pair, database_url: str
) -> None:
    environment = environment_for(database_url, servers.redis_url) | {"PORT": "0"} | settings
    environment = {name: value for name, value in environment.items() if value}
    done = run_in_process("serve", environment=environment)
    assert done.code in (1, 2)
    assert expected in done.err
    assert "changeme" not in done.err


@contextmanager
def rejecting_redis() -> Iterator[str]:
    """A server that responds to every command as Redis does to a wrong password."""

    class Rejecting(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline():
                self.wfile.write(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Rejecting) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://:wrong@127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()


def test_a_wrong_redis_password_is_reported_in_a_sentence(database_url: str) -> None:
    with rejecting_redis() as url:
        environment = environment_for(database_url, url) | {"PORT": "0"}
        done = run_in_process("serve", environment=environment)
    assert done.code == 1
    assert "Redis cannot be used" in done.err


def test_a_schema_that_is_not_migrated_is_reported_with_the_command(servers: Pair) -> None:
    empty = servers.create_database(migrated=False)
    try:
        environment = environment_for(empty, servers.redis_url) | {"PORT": "0"}
        done = run_in_process("serve", environment=environment)
        assert done.code == 1
        assert "utcp-gateway migrate" in done.err
        for arguments in ((), ("--revision", "base", "--yes"), ()):
            assert run_in_process("migrate", *arguments, environment=environment).code == 0
    finally:
        servers.drop_database(empty)


def test_sealing_keys_are_rotated_and_the_old_one_can_be_removed(servers: Pair, database_url: str) -> None:
    environment = environment_for(database_url, servers.redis_url)
    old = environment["SEALING_KEYS"]
    assert run_in_process("bootstrap", environment=environment).code == 0
    new = run_in_process("bootstrap", "--new-sealing-key", environment=environment).out.strip()
    rotated = run_in_process(
        "bootstrap", "--rotate", environment=environment | {"SEALING_KEYS": f"{new},{old}"}
    )
    assert rotated.code == 0, rotated.err
    assert "2 data keys rewrapped" in rotated.err
    assert run_in_process("bootstrap", environment=environment | {"SEALING_KEYS": new}).code == 0
    assert run_in_process("bootstrap", environment=environment).code == 1
