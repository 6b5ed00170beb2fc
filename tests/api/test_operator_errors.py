"""Errors of an operator are reported in one line: a key ring that lacks a key, a schema, a DSN, a file."""

import asyncio
import os
import pty
import subprocess
from collections.abc import Iterator
from typing import Any, NamedTuple

import asyncpg
import pytest
from typer.testing import CliRunner

from app.cli.main import app
from app.database import asyncpg_dsn
from app.main import create_app
from app.security.vault import KeyRing
from app.settings import Settings
from tests.harness.gateway import PROGRAM, environment_for
from tests.harness.servers import Pair


class Ran(NamedTuple):
    code: int
    out: str
    err: str


def ran(*words: str, environment: dict[str, str]) -> Ran:
    """A command in this process, which no other variables of the environment reach, nor a terminal."""
    others = dict.fromkeys(set(os.environ) - set(environment))
    done = CliRunner().invoke(app, list(words), env={**others, **environment})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return Ran(done.exit_code, done.stdout, done.stderr)


@pytest.fixture(scope="module")
def migrated(servers: Pair) -> Iterator[dict[str, str]]:
    """The environment of a database of its own."""
    dsn = servers.create_database()
    yield environment_for(dsn, servers.redis_url) | {"PORT": "0"}
    servers.drop_database(dsn)


@pytest.fixture(scope="module")
def sealed(migrated: dict[str, str]) -> dict[str, str]:
    """It has data keys, whose ring has the id `test`."""
    assert ran("bootstrap", environment=migrated).code == 0
    return migrated


@pytest.mark.parametrize(
    "words",
    [("serve",), ("bootstrap",), ("bootstrap", "--rotate")],
    ids=["serve", "bootstrap", "rotate"],
)
@pytest.mark.parametrize("ring_id", ["other", "test"])
def test_a_dump_with_another_key_ring_is_told_in_one_line_with_the_missing_id(
    sealed: dict[str, str], words: tuple[str, ...], ring_id: str
) -> None:
    done = ran(*words, environment=sealed | {"SEALING_KEYS": KeyRing.generate(ring_id)})
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
    told: list[Any] = []

    async def receive() -> Any:
        return {"type": "lifespan.startup"}

    async def send(message: Any) -> None:
        told.append(message)

    scope = {"type": "lifespan", "asgi": {"version": "3.0"}, "state": {}}
    with pytest.raises(Exception, match="'test'"):
        await create_app(settings)(scope, receive, send)
    assert [message["type"] for message in told] == ["lifespan.startup.failed"]
    assert "'test'" in told[0]["message"]
    assert "\n" not in told[0]["message"]


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
        asked = ran("migrate", "--revision", "0006", environment=environment)
        assert asked.code == 2
        assert "0007" in asked.err
        assert "--yes" in asked.err
        assert asyncio.run(_tables(dsn)) == whole

        down = ran("migrate", "--revision", "0006", "--yes", environment=environment)
        assert (down.code, down.out) == (0, "")
        assert "0006" in down.err
        fewer = asyncio.run(_tables(dsn))
        assert "idempotency_keys.key" not in fewer
        assert fewer < whole

        same = ran("migrate", "--revision", "0006", environment=environment)
        assert (same.code, same.err) == (0, "The schema is at 0006, as it was before.\n")
        one_up = ran("migrate", "--revision", "+1", environment=environment)
        assert one_up.err == "The schema is at 0007: 1 migrations were applied.\n"
        assert ran("migrate", environment=environment).code == 0
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
            _, said = process.communicate(timeout=60)
        assert process.returncode == code, said
        # Either the schema is one revision older, or nothing was changed.
        again = ran("migrate", environment=environment_for(dsn, servers.redis_url))
        assert ("as it was before" in again.err) is (code == 1)
    finally:
        os.close(ours)
        os.close(theirs)
        servers.drop_database(dsn)


def test_what_the_database_says_is_shown_in_one_line(servers: Pair) -> None:
    dsn = servers.create_database(migrated=False)
    try:

        async def in_the_way() -> None:
            connection = await asyncpg.connect(asyncpg_dsn(dsn))
            await connection.execute("CREATE TABLE providers (id integer)")
            await connection.close()

        asyncio.run(in_the_way())
        done = ran("migrate", environment=environment_for(dsn, servers.redis_url))
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
        done = ran("migrate", environment=environment_for(dsn, servers.redis_url))
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


@pytest.mark.parametrize(("words", "settings", "said"), WRONG, ids=[str(n) for n in range(len(WRONG))])
def test_what_cannot_be_used_is_told_in_one_line_without_secrets(
    words: str, settings: dict[str, str], said: str, migrated: dict[str, str]
) -> None:
    environment = migrated | settings
    if "SEALING_KEYS_FILE" in settings:
        del environment["SEALING_KEYS"]
    done = ran(*words.split(), environment=environment)
    assert done.code in (1, 2)
    assert len(done.err.splitlines()) == 1, done.stderr
    assert said in done.err
    assert "geh" not in done.err
