"""No run of the tests hangs: what takes too long fails, or ends its process and the run, and nothing stays behind."""

import os
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

HEAD = """
import asyncio, os, re, subprocess, sys, threading, time
import pytest

PROGRAMS = []

def start_program():
    # In a session of its own, as servers are.
    PROGRAMS.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True))
"""
COROUTINES = """
@pytest.fixture
async def never_ready():
    yield await asyncio.Event().wait()

@pytest.fixture
async def never_closed():
    yield
    await asyncio.Event().wait()

async def deep():
    await asyncio.Event().wait()

async def test_hangs():
    await asyncio.gather(deep())

@pytest.mark.time_limit(3)
async def test_is_marked():
    await asyncio.Event().wait()

async def test_has_no_fixture(never_ready):
    pass

async def test_leaves_a_fixture(never_closed):
    pass

async def test_raises_something_else():
    try:
        await asyncio.Event().wait()
    finally:
        raise ValueError("this")

async def test_has_a_timeout_of_its_own():
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await asyncio.Event().wait()
"""
# The name of a case, its tests, the number of workers, what the output says.
ENDED = {
    "a coroutine that is never cancelled": (
        """
async def test_hangs():
    while True:
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            pass
""",
        1,
        [
            "test_hangs takes too long; asyncio tasks",
            "in test_hangs",
            "crashed while running",
            "::test_hangs",
        ],
    ),
    "a thread that holds the interpreter's lock": (
        """
def test_fails():
    assert False

def test_hangs():
    start_program()
    re.match("(a+)+$", "a" * 60 + "b")

@pytest.mark.time_limit(300)
def test_of_another_worker():
    start_program()
    time.sleep(300)
""",
        2,
        ["Timeout (0:00:0", "crashed while running", "::test_hangs"],
    ),
    "the end of a fixture of the session": (
        """
@pytest.fixture(scope="session")
def server():
    start_program()
    yield
    threading.Event().wait()

def test_leaves_it(server):
    pass
""",
        1,
        ["Timeout (0:00:0", "in server", "crashed while running", "::test_leaves_it"],
    ),
    "a worker that dies": (
        """
def test_exits():
    start_program()
    os._exit(0)

@pytest.mark.time_limit(300)
def test_of_another_worker():
    start_program()
    time.sleep(300)
""",
        2,
        ["crashed while running", "::test_exits"],
    ),
}


def run(folder: Path, root: Path, workers: int, *, watchdog: float) -> tuple[int, str]:
    """Run the tests in a folder for at most a minute. No process of theirs is left."""
    command = [
        sys.executable, "-m", "pytest", str(folder), "-c", str(root / "pyproject.toml"), "-p", "no:cacheprovider",
        "-p", "tests.harness.supervisor", "-p", "tests.harness.time_limit", "-p", "xdist.plugin", "-p", "pytest_asyncio.plugin",
        "-n", str(workers), "--dist", "load", "-o", f"watchdog_seconds={watchdog}",
    ]  # fmt: skip
    # Others' plugins take seconds to load.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "RUN_OF_TESTS": str(folder)}
    done = subprocess.run(
        command,
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert list_processes(str(folder)) == []
    return done.returncode, done.stdout + done.stderr


def list_processes(name: str) -> list[str]:
    processes = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("RUN_OF_TESTS") == name:
                processes.append(" ".join(process.cmdline()))
        except psutil.Error:
            continue
    return processes


def test_coroutines_that_take_too_long_fail_with_all_stacks(tmp_path: Path, repository_root: Path) -> None:
    (tmp_path / "test_hangs.py").write_text(HEAD + COROUTINES)
    status, output = run(tmp_path, repository_root, 0, watchdog=8)
    assert status == 1
    assert "3 failed, 2 passed, 2 errors" in output
    assert "::test_hangs takes longer than 4 s; asyncio tasks" in output
    assert "in deep" in output
    assert "::test_is_marked takes longer than 3 s" in output
    assert "in never_ready" in output
    assert "in never_closed" in output
    assert "ValueError('this')" in output


@pytest.mark.parametrize("name", ENDED)
def test_run_is_ended_with_the_name_of_its_test(name: str, tmp_path: Path, repository_root: Path) -> None:
    source, workers, words = ENDED[name]
    (tmp_path / "test_ends.py").write_text(HEAD + source)
    status, output = run(tmp_path, repository_root, workers, watchdog=4)
    assert status == 1
    for word in words:
        assert word in output


def test_process_that_does_not_exit_is_ended(tmp_path: Path, repository_root: Path) -> None:
    source = "def test_leaves_a_thread():\n    start_program()\n    threading.Thread(target=threading.Event().wait).start()\n"
    (tmp_path / "test_exit.py").write_text(HEAD + source)
    _, output = run(tmp_path, repository_root, 0, watchdog=8)
    assert "1 passed" in output
    assert "Timeout (0:00:08)!" in output
    assert "_shutdown" in output


def test_worker_that_waits_for_the_others_is_not_ended(tmp_path: Path, repository_root: Path) -> None:
    source = """
def test_is_short():
    pass

@pytest.mark.time_limit(60)
def test_is_long():
    time.sleep(10)
"""
    (tmp_path / "test_waits.py").write_text(HEAD + source)
    status, output = run(tmp_path, repository_root, 2, watchdog=8)
    assert status == 0, output
    assert "2 passed" in output
