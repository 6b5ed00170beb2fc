"""The memory of processes that hold secrets reaches neither the disk nor other processes of the user."""

import contextlib
import os
import re
import resource
import shlex
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import httpx2
import psutil
import pytest

from app.cli.sample import serve_sample_api
from tests.harness.gateway import list_workers, serve
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.servers import Pair

NOBODY = 65534
ROOT = Path(__file__).parents[2]
SITE = Path(psutil.__file__).parents[1]
PYTHON = os.path.realpath("/usr/bin/python3")

linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
root_only = pytest.mark.skipif(os.geteuid() != 0, reason="needs root")


@pytest.fixture
def cores_allowed() -> Iterator[None]:
    """What is started from here may leave core files as large as the system allows at all."""
    soft, hard = resource.getrlimit(resource.RLIMIT_CORE)
    if hard == 0:
        pytest.skip("core files are off for all processes here")
    resource.setrlimit(resource.RLIMIT_CORE, (hard, hard))
    yield
    resource.setrlimit(resource.RLIMIT_CORE, (soft, hard))


@pytest.fixture
def home() -> Iterator[Path]:
    """A folder of user 65534; not in pytest's, which each further run of pytest closes to other users."""
    with tempfile.TemporaryDirectory(prefix="ugw-home-") as folder:
        os.chown(folder, NOBODY, NOBODY)
        yield Path(folder)


def core_limit(pid: int) -> list[str]:
    line = re.search(
        r"^Max core file size +(\S+) +(\S+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE
    )
    assert line is not None
    return [line[1], line[2]]


@linux
@pytest.mark.long
def test_the_parent_and_each_worker_write_no_core_file(
    servers: Pair, tmp_path: Path, cores_allowed: None
) -> None:
    with serve(servers, tmp_path, workers=2) as running:
        pids = running.workers()
        assert len(pids) == 2
        for pid in (running.process.pid, *pids):
            assert core_limit(pid) == ["0", "0"]
        for number in (signal.SIGSEGV, signal.SIGABRT):
            victim = running.workers().pop()
            os.kill(victim, number)
            deadline = time.monotonic() + 60
            while victim in running.workers() or len(running.workers()) < 2:
                assert time.monotonic() < deadline
                time.sleep(0.1)
        with running.client() as client:
            assert client.get("/health/live").status_code == 200
    # The same signal in the same folder, but a process without the limit: otherwise the test would prove nothing.
    abort = [sys.executable, "-c", "import os; os.abort()"]
    left = subprocess.run(abort, cwd=tmp_path, check=False, capture_output=True)
    cores = [path.name for path in tmp_path.iterdir() if path.name.startswith("core")]
    assert left.returncode == -signal.SIGABRT
    pattern = Path("/proc/sys/kernel/core_pattern").read_text().strip()
    assert len(cores) == (1 if pattern.startswith("core") else 0)


def interpreter_for_others(home: Path) -> str:
    """A Python of our version that user 65534 can run with our packages."""
    # Before 3.11.3 redis-py wants this package, which the version that runs these tests may have no need of.
    (home / "async_timeout.py").write_text("from asyncio import timeout\n__all__ = ['timeout']\n")
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    for candidate in (sys.executable, f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        with contextlib.suppress(OSError):
            ran = subprocess.run(
                [candidate, "-c", "import app.cli.serve"], env=environment(home), user=NOBODY, group=NOBODY,
                extra_groups=[], capture_output=True, check=False, cwd="/",
            )  # fmt: skip
            if ran.returncode == 0:
                return candidate
    pytest.skip("no interpreter and packages that user 65534 may read")


def environment(home: Path, **more: str) -> dict[str, str]:
    return {
        "PYTHONPATH": f"{ROOT}:{SITE}:{home}",
        "PATH": "/usr/bin:/bin",
        "PYTHONDONTWRITEBYTECODE": "1",
        **more,
    }


@contextlib.contextmanager
def embedded_as_nobody(home: Path, **settings: str) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """`serve` with its embedded servers and two workers, as a user without rights; gives its URL."""
    command = [interpreter_for_others(home), "-c", "from app.cli.main import main; main()"]
    log = home / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [*command, "serve", "--port", "0", "--workers", "2"],
            env=environment(home, HOME=str(home), DATA_DIR=str(home / "d"), SAMPLE="false", **settings),
            user=NOBODY, group=NOBODY, extra_groups=[], cwd=home, stdin=subprocess.DEVNULL,
            stdout=output, stderr=output,
        )  # fmt: skip
    try:
        deadline, found = time.monotonic() + 120, None
        while not found and process.poll() is None and time.monotonic() < deadline:
            time.sleep(0.1)
            found = re.search(r"listens on (http://\S+)", log.read_text())
        assert found, log.read_text()
        yield process, found[1]
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0, log.read_text()


@linux
@root_only
@pytest.mark.long
def test_another_user_runs_all_of_it_and_its_processes_are_not_dumpable(
    home: Path, cores_allowed: None
) -> None:
    with embedded_as_nobody(home, PROGRAMS=PYTHON, PROGRAM_PROCESSES="2") as (process, url):
        for holder in holders_of_secrets(process.pid):
            # What is not dumpable belongs to root in /proc, whichever user runs it (proc(5)).
            assert Path(f"/proc/{holder.pid}/environ").stat().st_uid == 0, holder.cmdline()
            assert core_limit(holder.pid) == ["0", "0"]
            reading = [PYTHON, "-I", "-S", "-c", f"open('/proc/{holder.pid}/environ', 'rb').read()"]
            read = subprocess.run(reading, user=NOBODY, group=NOBODY, check=False, capture_output=True)
            assert b"PermissionError" in read.stderr
        key = (home / "d" / "admin.key").read_text().strip()
        with httpx2.Client(
            base_url=url, headers={"X-API-Key": key}, trust_env=False, verify=WITHOUT_CERTIFICATES, timeout=60
        ) as client:
            assert client.get("/health/ready").json()["status"] == "ready"
            assert client.get("/metrics").status_code == 200
            # A program that starts another one: PROGRAM_PROCESSES come on top of the gateway's own threads.
            code = (
                "import subprocess; print(subprocess.run(['/bin/echo', 'two'], capture_output=True).stdout)"
            )
            command = f"{PYTHON} -I -S -c {shlex.quote(code)}"
            template = {"call_template_type": "cli", "commands": [{"command": command}]}
            tool = {"provider": "programs", "name": "two", "inputs": {}, "call_template": template}
            made = client.post("/tools", json=tool)
            assert made.status_code == 201, made.text
            called = client.post("/tools/programs.two/call", json={})
            assert (called.status_code, called.text.strip()) == (200, "b'two\\n'")


def holders_of_secrets(parent: int) -> list[psutil.Process]:
    """The parent, its fork server and its workers; the embedded servers hold what is sealed."""
    process = psutil.Process(parent)
    workers = list_workers(process)
    assert len(workers) == 2
    return [process, *{worker.parent() for worker in workers}, *workers]


@linux
def test_the_sample_writes_no_core_file_either(tmp_path: Path, cores_allowed: None) -> None:
    # A fixture of other tests may run one, too.
    before = {child.pid for child in psutil.Process().children()}
    with serve_sample_api(tmp_path, port=0):
        (sample,) = (
            child
            for child in psutil.Process().children()
            if child.pid not in before and "examples.library_api" in " ".join(child.cmdline())
        )
        assert core_limit(sample.pid) == ["0", "0"]
