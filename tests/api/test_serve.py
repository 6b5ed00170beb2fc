"""`utcp-gateway serve` as a newcomer and an operator meet it: first start, second start, crash, errors."""

import os
import re
import signal
import socket
import socketserver
import stat
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.harness.gateway import PROGRAM, environment_for, run_command
from tests.harness.gateway import serve as gateway
from tests.harness.servers import Pair


@dataclass(slots=True)
class Embedded:
    """A gateway on its embedded servers."""

    process: subprocess.Popen[bytes]
    url: str
    text: str


def clean_environment(folder: Path, **settings: str) -> dict[str, str]:
    """What a newcomer's shell has, and settings."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "SAMPLE_PORT": "0", **settings}


@contextmanager
def embedded(folder: Path, *arguments: str, **settings: str) -> Iterator[Embedded]:
    """Starts `serve` in the folder, waits for the greeting, and ends it with SIGTERM."""
    log = folder / f"log-{time.monotonic_ns()}"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(PROGRAM), "serve", "--port", "0", *arguments],
            cwd=folder, env=clean_environment(folder, **settings), stdout=output, stderr=output,
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
    deadline = time.monotonic() + 60
    found = None
    while not found and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        found = re.search(r"listens on (http://\S+)[\s\S]*providers add", log.read_text())
    assert found, log.read_text()
    try:
        yield Embedded(process, found[1], log.read_text())
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(45) in (0, -signal.SIGKILL), log.read_text()


def admin_key(folder: Path) -> str:
    return (folder / ".data" / "admin.key").read_text().strip()


def get(running: Embedded, path: str, key: str = "") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.get(f"{running.url}{path}", headers=headers, trust_env=False)


def ours(folder: Path) -> list[int]:
    """Processes whose command line names the folder."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if str(folder).encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def test_second_start_and_start_after_a_crash_keep_key_and_providers(tmp_path: Path) -> None:
    with embedded(tmp_path) as first:
        key = admin_key(tmp_path)
        assert first.text.count(key) == 1
        assert get(first, "/providers/library", key).json()["tool_count"] == 12
        for tool, body in (("searchBooks", {}), ("listMembers", {}), ("getStock", {"book_id": "bk-001"}),
                           ("getPopularBooks", {})):  # fmt: skip
            answer = httpx2.post(
                f"{first.url}/tools/library.{tool}/call",
                json=body, headers={"Authorization": f"Bearer {key}"}, trust_env=False,
            )  # fmt: skip
            assert answer.status_code == 200, (tool, answer.text)
    assert ours(tmp_path) == []
    with embedded(tmp_path) as second:
        assert admin_key(tmp_path) not in second.text
        assert get(second, "/providers/library", key).status_code == 200
        second.process.kill()
        second.process.wait()
    with embedded(tmp_path) as third:
        assert get(third, "/providers/library", key).status_code == 200
    assert ours(tmp_path) == []


def test_secret_files_are_readable_by_their_owner_only(tmp_path: Path) -> None:
    with embedded(tmp_path):
        modes = {
            name: stat.S_IMODE((tmp_path / ".data" / name).stat().st_mode)
            for name in ("sealing.key", "admin.key", "sample.json")
        }
        assert modes == dict.fromkeys(modes, 0o600)
        assert stat.S_IMODE((tmp_path / ".data").stat().st_mode) == 0o700


def test_serve_changes_no_folder_but_its_own(tmp_path: Path) -> None:
    closed = tmp_path / "closed"
    closed.mkdir(mode=0o700)
    (closed / "inner").mkdir(mode=0o711)
    home = closed / "inner"
    before = {
        path: (path.stat().st_mode, path.stat().st_uid, path.stat().st_gid) for path in (home, *home.parents)
    }
    with embedded(home) as running:
        assert get(running, "/health/ready").status_code == 200
    after = {path: (path.stat().st_mode, path.stat().st_uid, path.stat().st_gid) for path in before}
    assert after == before


@pytest.mark.parametrize("name", ["postgres", "valkey-server"])
def test_exit_of_an_embedded_server_ends_the_gateway_with_a_sentence(tmp_path: Path, name: str) -> None:
    log = tmp_path / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(PROGRAM), "serve", "--port", "0", "--no-sample"],
            cwd=tmp_path, env=clean_environment(tmp_path), stdout=output, stderr=output,
        )  # fmt: skip
    deadline = time.monotonic() + 60
    while "providers add" not in log.read_text() and time.monotonic() < deadline:
        time.sleep(0.05)
    children = psutil.Process(process.pid).children(recursive=True)
    next(one for one in children if one.name() == name).kill()
    assert process.wait(45) == 1
    output_text = log.read_text()
    assert "has exited" in output_text
    assert "Traceback" not in output_text
    with embedded(tmp_path) as again:
        assert get(again, "/health/ready").status_code == 200


def test_second_gateway_on_a_data_folder_is_rejected(tmp_path: Path) -> None:
    with embedded(tmp_path) as running:
        second = subprocess.run(
            [str(PROGRAM), "serve", "--port", "0"],
            cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
        assert second.returncode == 1
        assert "in use by process" in second.stderr
        assert "Traceback" not in second.stderr
        assert get(running, "/health/ready").status_code == 200


def test_busy_port_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [str(PROGRAM), "serve", "--port", str(port)],
            cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert not (tmp_path / ".data").exists()


def test_two_workers_see_each_others_changes(tmp_path: Path) -> None:
    with embedded(tmp_path, "--workers", "2") as running:
        key = admin_key(tmp_path)
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        for number in range(6):
            made = httpx2.post(
                f"{running.url}/tools", headers=headers, trust_env=False,
                json={"provider": "hand", "name": f"t{number}",
                      "call_template": {"call_template_type": "http", "url": "http://127.0.0.1:9/x"}},
            )  # fmt: skip
            assert made.status_code == 201, made.text
            # Whichever worker answers: a miss reads PostgreSQL, so it is there at once.
            found = [get(running, f"/tools/hand.t{number}", key).status_code for _ in range(6)]
            assert set(found) == {200}
        deadline = time.monotonic() + 5
        seen: set[int] = set()
        while time.monotonic() < deadline:
            seen = {len(get(running, "/utcp?provider=hand", key).json()["tools"]) for _ in range(6)}
            if seen == {6}:
                break
        assert seen == {6}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"DATABASE_URL": "postgresql://nobody@127.0.0.1:9/none"}, "PostgreSQL cannot be reached"),
        ({"SEALING_KEYS": ""}, "SEALING_KEYS"),
        ({"SEALING_KEYS": "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="}, "key ring"),
        ({"SEALING_KEYS": "k1:changeme"}, "key ring"),
        ({"REDIS_URL": ""}, "both --database-url and --redis-url"),
        ({"PORT": "notaport"}, "PORT"),
    ],
)
def test_missing_servers_and_settings_are_reported_in_a_sentence(
    settings: dict[str, str], words: str, servers: Pair, database_url: str, tmp_path: Path
) -> None:
    environment = environment_for(database_url, servers.redis_url) | {"PORT": "0"} | settings
    environment = {name: value for name, value in environment.items() if value}
    done = run_command("serve", environment=environment)
    assert done.returncode in (1, 2)
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "changeme" not in done.stderr


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_starts_while_redis_is_unavailable(servers: Pair, tmp_path: Path, workers: int) -> None:
    with gateway(servers, tmp_path, workers=workers, REDIS_URL="redis://127.0.0.1:9/0") as running:
        assert "Redis is unavailable" in running.log.read_text()
        with running.client() as client:
            assert client.get("/health/ready").json() == {
                "status": "ready",
                "database": "ok",
                "redis": "away",
            }
            assert client.get("/tools").status_code == 200


def test_wrong_redis_password_is_reported_in_a_sentence(
    servers: Pair, database_url: str, tmp_path: Path
) -> None:
    with refusing_redis() as url:
        environment = environment_for(database_url, url) | {"PORT": "0"}
        done = run_command("serve", environment=environment)
    assert done.returncode == 1
    assert "Redis cannot be used" in done.stderr
    assert "Traceback" not in done.stderr


@contextmanager
def refusing_redis() -> Iterator[str]:
    """A server that answers every command as Redis does to a wrong password."""

    class Refusing(socketserver.StreamRequestHandler):
        def handle(self) -> None:
            while self.rfile.readline():
                self.wfile.write(b"-WRONGPASS invalid username-password pair or user is disabled.\r\n")

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Refusing) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"redis://:wrong@127.0.0.1:{server.server_address[1]}/0"
        server.shutdown()


def test_schema_that_is_not_migrated_is_reported_with_the_command(servers: Pair, tmp_path: Path) -> None:
    empty = servers.create_database(migrated=False)
    try:
        environment = environment_for(empty, servers.redis_url) | {"PORT": "0"}
        done = run_command("serve", environment=environment)
        assert done.returncode == 1
        assert "utcp-gateway migrate" in done.stderr
        assert run_command("migrate", environment=environment).returncode == 0
        assert run_command("migrate", "--revision", "base", "--yes", environment=environment).returncode == 0
        assert run_command("migrate", environment=environment).returncode == 0
    finally:
        servers.drop_database(empty)


def test_sealing_keys_are_rotated_and_the_old_one_can_be_removed(servers: Pair, database_url: str) -> None:
    environment = environment_for(database_url, servers.redis_url)
    old = environment["SEALING_KEYS"]
    assert run_command("bootstrap", environment=environment).returncode == 0
    new = run_command("bootstrap", "--new-sealing-key", environment=environment).stdout.strip()
    both = environment | {"SEALING_KEYS": f"{new},{old}"}
    rotated = run_command("bootstrap", "--rotate", environment=both)
    assert rotated.returncode == 0, rotated.stderr
    assert "2 data keys rewrapped" in rotated.stderr
    assert run_command("bootstrap", environment=environment | {"SEALING_KEYS": new}).returncode == 0
    refused = run_command("bootstrap", environment=environment)
    assert refused.returncode == 1
    assert "Traceback" not in refused.stderr
