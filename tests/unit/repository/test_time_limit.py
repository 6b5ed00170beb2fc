"""No run of the tests hangs: a test that takes too long is ended, and what it waits for is printed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

HANGING = {
    "coroutine": """
        import asyncio
        async def deep():
            await asyncio.Event().wait()
        async def test_hangs():
            await asyncio.gather(deep())
        """,
    "thread": """
        import threading
        def test_hangs():
            threading.Event().wait()
        """,
    "session fixture": """
        import pytest, threading
        @pytest.fixture(scope="session")
        def server():
            yield
            threading.Event().wait()
        def test_hangs(server):
            pass
        """,
    "exit": """
        import threading
        def test_hangs():
            threading.Thread(target=threading.Event().wait).start()
        """,
    "marked": """
        import pytest, threading
        @pytest.mark.time_limit(2)
        def test_hangs():
            threading.Event().wait()
        """,
}
WORDS = {"coroutine": "in deep", "exit": "_shutdown"}
WORKERS = {"coroutine": "1", "thread": "0", "session fixture": "1", "exit": "0", "marked": "0"}


@pytest.mark.parametrize("name", HANGING)
def test_run_that_hangs_is_ended_with_all_stacks(name: str, tmp_path: Path, repository_root: Path) -> None:
    (tmp_path / "test_hangs.py").write_text("if True:" + HANGING[name])
    command = [
        sys.executable, "-m", "pytest", str(tmp_path), "-c", str(repository_root / "pyproject.toml"),
        "-p", "tests.harness.time_limit", "-p", "xdist.plugin", "-p", "pytest_asyncio.plugin", "-p", "no:cacheprovider",
        "-n", WORKERS[name], "--max-worker-restart", "0",
        "-o", f"faulthandler_timeout={600 if name == 'marked' else 2}",
    ]  # fmt: skip
    # Others' plugins take seconds to load.
    environment = {**os.environ, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(
        command,
        cwd=repository_root,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    said = done.stdout + done.stderr
    assert "Timeout (0:00:02)!" in said
    assert WORDS.get(name, "wait") in said
    if name == "coroutine":
        assert "1 failed" in said
    if name != "exit":
        # The tests themselves have passed before a process does not exit.
        assert done.returncode != 0
