"""`utcp-gateway serve` as a new user and an operator run it: first start, second start, crash, errors."""

import os
import re
import signal
import socket
import stat
import subprocess
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx2
import psutil
import pytest

from tests.harness.gateway import PROGRAM, run_in_process
from tests.harness.gateway import serve as gateway
from tests.harness.gateway_forks import ForkedProcess, get_forks
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.servers import Pair


@dataclass(slots=True)
class Embedded:
    """A gateway on its embedded servers."""

    process: subprocess.Popen[bytes] | ForkedProcess
    url: str
    text: str
    log: Path


def clean_environment(folder: Path) -> dict[str, str]:
    """The environment of a new user's shell; and a free port for the sample API."""
    return {"PATH": os.environ["PATH"], "HOME": str(folder), "SAMPLE_PORT": "0"}


@contextmanager
def embedded(folder: Path, *arguments: str, code: int = 0, execute: bool = False) -> Iterator[Embedded]:
    """Start `serve` in the folder, wait for the welcome text, and end it with SIGTERM; it exits with `code`.

    It is forked from a process that has imported the gateway, or with `execute` the program itself.
    """
    log = folder / f"log-{time.monotonic_ns()}"
    words, environment = ["serve", "--port", "0", *arguments], clean_environment(folder)
    process: subprocess.Popen[bytes] | ForkedProcess
    with log.open("wb") as output:
        if execute:
            process = subprocess.Popen(
                [str(PROGRAM), *words],
                cwd=folder, env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL,
            )  # fmt: skip
        else:
            process = get_forks().fork(words, environment=environment, log=log, folder=folder)
    deadline = time.monotonic() + 120
    found = None
    while not found and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)
        found = re.search(r"listens on (http://\S+)[\s\S]*providers add", log.read_text())
    assert found, log.read_text()
    try:
        yield Embedded(process, found[1], log.read_text(), log)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(45) in (code, -signal.SIGKILL), log.read_text()


def admin_key(folder: Path) -> str:
    return (folder / ".data" / "admin.key").read_text().strip()


def get(running: Embedded, path: str, key: str = "") -> httpx2.Response:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    return httpx2.get(f"{running.url}{path}", headers=headers, trust_env=False, verify=WITHOUT_CERTIFICATES)


def processes_of(folder: Path) -> list[int]:
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


def test_second_start_and_start_after_a_crash_retain_key_and_providers(tmp_path: Path) -> None:
    with embedded(tmp_path, execute=True) as first:
        key = admin_key(tmp_path)
        assert first.text.count(key) == 1
        assert get(first, "/providers/library", key).json()["tool_count"] == 12
        for tool, body in (("searchBooks", {}), ("listMembers", {}), ("getStock", {"book_id": "bk-001"}),
                           ("getPopularBooks", {})):  # fmt: skip
            response = httpx2.post(
                f"{first.url}/tools/library.{tool}/call",
                json=body, headers={"Authorization": f"Bearer {key}"}, trust_env=False, verify=WITHOUT_CERTIFICATES,
            )  # fmt: skip
            assert response.status_code == 200, (tool, response.text)
    assert processes_of(tmp_path) == []
    with embedded(tmp_path) as second:
        assert admin_key(tmp_path) not in second.text
        assert get(second, "/providers/library", key).status_code == 200
        second.process.kill()
        second.process.wait()
    with embedded(tmp_path) as third:
        assert get(third, "/providers/library", key).status_code == 200
    assert processes_of(tmp_path) == []


@dataclass(slots=True)
class Shared:
    """A gateway for several tests, and the owner and mode of each folder above its data before it was started."""

    home: Path
    running: Embedded
    before: dict[Path, tuple[int, int, int]]


def modes(folders: Iterable[Path]) -> dict[Path, tuple[int, int, int]]:
    found = {folder: folder.stat() for folder in folders}
    return {folder: (status.st_mode, status.st_uid, status.st_gid) for folder, status in found.items()}


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shared]:
    """A gateway in a folder below one that is closed to other users; the tests do not change it."""
    closed = tmp_path_factory.mktemp("shared") / "closed"
    closed.mkdir(mode=0o700)
    home = closed / "inner"
    home.mkdir(mode=0o711)
    before = modes((home, *home.parents))
    with embedded(home) as running:
        yield Shared(home, running, before)


def test_secret_files_are_readable_by_their_owner_only(shared: Shared) -> None:
    data = shared.home / ".data"
    for name in ("sealing.key", "admin.key", "sample.json"):
        assert stat.S_IMODE((data / name).stat().st_mode) == 0o600, name
    assert stat.S_IMODE(data.stat().st_mode) == 0o700


def test_serve_changes_no_folder_outside_its_data_folder(shared: Shared) -> None:
    assert get(shared.running, "/health/ready").status_code == 200
    assert modes(shared.before) == shared.before


def test_the_first_line_is_a_link_that_signs_in_to_the_console(shared: Shared) -> None:
    lines = [line.split() for line in shared.running.text.splitlines()]
    greeting = next(number for number, line in enumerate(lines) if line[:1] == ["Console"])
    url, _, token = lines[greeting][1].partition("#")
    assert url == f"{shared.running.url}/console/sign-in"
    assert "sign-in-link" in lines[greeting + 1][-1] or "sign-in-link" in " ".join(lines[greeting + 1])
    assert lines[greeting + 2][:3] == ["utcp-gateway", "listens", "on"]

    response = httpx2.post(
        url, data={"sign_in_token": token}, headers={"Origin": shared.running.url},
        trust_env=False, verify=WITHOUT_CERTIFICATES,
    )  # fmt: skip

    # The first start waits for the sample API, and this test perhaps for others: the link may have expired.
    assert (response.status_code, "Set-Cookie" in response.headers) in {(303, True), (401, False)}


def test_second_gateway_on_a_data_folder_is_rejected(shared: Shared, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(shared.home)
    second = run_in_process("serve", "--port", "0", environment=clean_environment(shared.home))
    assert second.code == 1
    assert "in use by process" in second.err
    assert "Traceback" not in second.err
    assert get(shared.running, "/health/ready").status_code == 200


@pytest.mark.long
def test_exit_of_an_embedded_server_ends_the_gateway_with_a_sentence(tmp_path: Path) -> None:
    for name in ("postgres", "valkey-server"):
        with embedded(tmp_path, "--no-sample", code=1) as running:
            children = psutil.Process(running.process.pid).children(recursive=True)
            next(one for one in children if one.name() == name).kill()
            assert running.process.wait(45) == 1
        output = running.log.read_text()
        assert "has exited" in output
        assert "Traceback" not in output
    with embedded(tmp_path, "--no-sample") as again:
        assert get(again, "/health/ready").status_code == 200


def test_occupied_port_is_reported_in_a_sentence(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = subprocess.run(
            [str(PROGRAM), "serve", "--port", str(port)],
            cwd=tmp_path, env=clean_environment(tmp_path), capture_output=True, text=True, timeout=30, check=False,
        )  # fmt: skip
    assert done.returncode == 1
    assert f"Cannot listen on 127.0.0.1 port {port}" in done.stderr
    assert not (tmp_path / ".data").exists()


@pytest.mark.long
def test_two_workers_see_each_others_changes(tmp_path: Path) -> None:
    with embedded(tmp_path, "--no-sample", "--workers", "2") as running:
        key = admin_key(tmp_path)
        headers = {"Authorization": f"Bearer {key}", "Connection": "close"}
        for number in range(6):
            made = httpx2.post(
                f"{running.url}/tools", headers=headers, trust_env=False, verify=WITHOUT_CERTIFICATES,
                json={"provider": "custom", "name": f"t{number}",
                      "call_template": {"call_template_type": "http", "url": "http://127.0.0.1:9/x"}},
            )  # fmt: skip
            assert made.status_code == 201, made.text
            # Whichever worker responds: a miss reads PostgreSQL, so it is there at once.
            statuses = [get(running, f"/tools/custom.t{number}", key).status_code for _ in range(6)]
            assert set(statuses) == {200}
        deadline = time.monotonic() + 5
        seen: set[int] = set()
        while time.monotonic() < deadline:
            seen = {len(get(running, "/utcp?provider=custom", key).json()["tools"]) for _ in range(6)}
            if seen == {6}:
                break
        assert seen == {6}


@pytest.mark.parametrize("workers", [1, 2])
def test_serve_starts_while_redis_is_unavailable(servers: Pair, tmp_path: Path, workers: int) -> None:
    with gateway(servers, tmp_path, workers=workers, REDIS_URL="redis://127.0.0.1:9/0") as running:
        assert "Redis is unavailable" in running.log.read_text()
        with running.client() as client:
            assert client.get("/health/ready").json() == {
                "status": "ready",
                "database": "ok",
                "redis": "unavailable",
            }
            assert client.get("/tools").status_code == 200
