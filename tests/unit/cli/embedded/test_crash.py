"""Whatever is killed, the next start works and finds the data."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil
import pytest

from app.cli.embedded import EmbeddedBusy, EmbeddedServers, launch
from tests.harness.cases import for_each
from tests.harness.gateway import is_alive

pytestmark = pytest.mark.process

_OWNER = """
import sys, threading, time
from pathlib import Path
from app.cli.embedded import EmbeddedServers
servers = EmbeddedServers()
start = lambda: print(servers.start(Path(sys.argv[1])).redis_url, flush=True)
if sys.argv[2] == "thread":
    worker = threading.Thread(target=start); worker.start(); worker.join()
else:
    start()
time.sleep(60)
"""


class Owner:
    """A process of its own that has started the pair in a folder."""

    def __init__(self, folder: Path, how: str = "main") -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", _OWNER, str(folder), how],
            stdout=subprocess.PIPE,
            cwd=Path(__file__).parents[4],
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline().startswith(b"unix://")
        self.children = psutil.Process(self.process.pid).children(recursive=True)

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def alive(self) -> list[psutil.Process]:
        return [child for child in self.children if is_alive(child)]

    def named(self, name: str) -> psutil.Process:
        return next(c for c in self.children if c.name() == name)


def _kill_all(processes: Iterable[psutil.Process]) -> None:
    for process in processes:
        # Those of PostgreSQL end with their parent, maybe before they are killed.
        with contextlib.suppress(psutil.NoSuchProcess):
            process.kill()


def _gone(owner: Owner, seconds: float) -> bool:
    until = time.monotonic() + seconds
    while owner.alive() and time.monotonic() < until:
        time.sleep(0.02)
    return not owner.alive()


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child of its parent's death")
def test_the_servers_end_when_their_owner_is_killed(used_place):
    owner = Owner(used_place)
    owner.kill()
    assert _gone(owner, 10), owner.alive()


async def test_a_start_right_after_the_owner_was_killed_works(used_place, sql):
    with EmbeddedServers(used_place) as running:
        await sql(running, "CREATE TABLE kept AS SELECT 42 AS n")
    owner = Owner(used_place)
    owner.kill()
    with EmbeddedServers(used_place) as running:
        assert await sql(running, "SELECT n FROM kept") == 42


def test_orphans_that_live_on_are_ended_by_the_next_start(used_place):
    # Started in a thread, the servers cannot be bound to the owner's life.
    owner = Owner(used_place, "thread")
    owner.kill()
    time.sleep(0.2)
    orphans = owner.alive()
    assert {"postgres", "valkey-server"} <= {p.name() for p in orphans}
    with EmbeddedServers(used_place):
        assert _gone(owner, 1)


@pytest.mark.parametrize("victims", [("postgres",), ("valkey-server",), ("postgres", "valkey-server")])
async def test_a_start_after_a_server_was_killed_under_its_owner_works(used_place, sql, victims):
    with EmbeddedServers(used_place) as running:
        await sql(running, "CREATE TABLE kept AS SELECT 42 AS n")
    owner = Owner(used_place, "thread")
    for name in victims:
        owner.named(name).kill()
    owner.kill()
    with EmbeddedServers(used_place) as running:
        assert await sql(running, "SELECT n FROM kept") == 42


async def test_everything_killed_at_once_does_not_hinder_the_next_start(used_place, sql):
    owner = Owner(used_place, "thread")
    _kill_all([psutil.Process(owner.process.pid), *owner.children])
    owner.kill()
    assert (used_place / "postgres" / "postmaster.pid").exists()
    with EmbeddedServers(used_place) as running:
        assert await sql(running, "SELECT 1") == 1


async def test_a_committed_row_survives_a_kill_of_everything(used_place, sql, children):
    servers = EmbeddedServers(used_place)
    running = servers.start()
    await sql(running, "CREATE TABLE kept AS SELECT 42 AS n")
    _kill_all(children())
    servers.stop()
    with EmbeddedServers(used_place) as running:
        assert await sql(running, "SELECT n FROM kept") == 42


def test_while_the_owner_lives_its_folder_stays_busy(used_place):
    owner = Owner(used_place)
    try:
        with pytest.raises(EmbeddedBusy, match=f"process {owner.process.pid}"):
            EmbeddedServers(used_place).start()
        assert {"postgres", "valkey-server"} <= {p.name() for p in owner.alive()}
    finally:
        owner.kill()
    assert _gone(owner, 10)


def test_a_stale_pid_file_that_names_a_process_of_another_program_harms_neither(used_place):
    # In containers process numbers repeat: the old server's number may be somebody else's by now.
    with EmbeddedServers(used_place):
        pass
    with subprocess.Popen(["sleep", "60"]) as stranger:
        try:
            lines = [
                str(stranger.pid),
                str(used_place / "postgres"),
                "1",
                "5432",
                str(used_place / "run"),
                "",
                "1 1",
                "ready",
            ]
            (used_place / "postgres" / "postmaster.pid").write_text("\n".join(lines) + "\n")
            (used_place / "run" / ".s.PGSQL.5432.lock").write_text("\n".join(lines[:6]) + "\n")
            (used_place / "run" / "valkey.pid").write_text(f"{stranger.pid}\n")
            with EmbeddedServers(used_place):
                assert stranger.poll() is None
        finally:
            stranger.kill()


@for_each("text", ["", "garbage", "-1\n", "0\n", "99999999\n"])
def test_a_damaged_pid_file_ends_nothing(place, text):
    (place / "x.pid").write_text(text)
    launch.stop_orphan(place / "x.pid", words=(), shutdown=((signal.SIGKILL, 0.1),))
    assert os.getpid()


def test_a_fast_stop_follows_when_clients_are_connected(used_place):
    code = (
        "import asyncio, asyncpg, sys\n"
        "async def main():\n"
        "    await asyncpg.connect(sys.argv[1]); print('in', flush=True); await asyncio.sleep(60)\n"
        "asyncio.run(main())\n"
    )
    servers = EmbeddedServers(used_place)
    running = servers.start()
    client = subprocess.Popen([sys.executable, "-c", code, running.database_url], stdout=subprocess.PIPE)
    try:
        assert client.stdout.readline() == b"in\n"
        servers.stop()
        # A smart shutdown would have waited for the end of the client.
        assert client.poll() is None
    finally:
        client.kill()
        client.wait()
        client.stdout.close()
