"""No traceback, whatever happens to the process: Ctrl-C, closed streams, no home, an error nobody expected."""

import os
import pty
import signal
import subprocess
import sys
import termios
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from starlette.responses import StreamingResponse

from app.cli import main as entry

CODE = "from app.cli.main import main; main()"


def environment(url: str = "http://127.0.0.1:9", **more: str) -> dict[str, str]:
    return {**os.environ, "UTCP_GATEWAY_URL": url, "UTCP_GATEWAY_KEY": "k", **more}


@pytest.mark.parametrize("module", ["app.cli.root", "typer", "app.cli.tools", "httpx2"])
def test_interrupt_during_imports_ends_the_process_by_its_signal(
    module: str, clean_environment: None
) -> None:
    code = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            os.kill(os.getpid(), signal.SIGINT)

import app.cli.main
sys.meta_path.insert(0, Interrupt())
app.cli.main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "tools", "list"],
        capture_output=True,
        env=environment(),
        check=False,
        timeout=60,
    )
    assert done.returncode in (-signal.SIGINT, entry.INTERRUPTED)
    assert b"Traceback" not in done.stderr


def test_interrupt_while_a_class_is_created_is_no_internal_error(clean_environment: None) -> None:
    # Python 3.11 raises RuntimeError from what __set_name__ raises.
    code = """
import os, signal, sys

class Attribute:
    def __set_name__(self, owner, name):
        os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1_000_000):
            pass

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "app.cli.client":
            type("Created", (), {"attribute": Attribute()})

import app.cli.main
sys.meta_path.insert(0, Interrupt())
app.cli.main.main()
"""
    done = subprocess.run(
        [sys.executable, "-c", code, "tools", "list"],
        capture_output=True,
        env=environment(UTCP_GATEWAY_TRACEBACK="1"),
        check=False,
        timeout=60,
    )
    assert (done.returncode, done.stderr) == (entry.INTERRUPTED, b"Interrupted.\n")


@pytest.mark.parametrize(
    ("command", "module"),
    [("serve", "app.cli.serve"), ("bootstrap", "app.cli.bootstrap"), ("migrate", "app.cli.migrate")],
)
def test_interrupt_while_the_gateway_is_imported_ends_the_process_by_its_signal(
    command: str, module: str, clean_environment: None
) -> None:
    # An extension module may discard a KeyboardInterrupt, and the command would go on.
    code = f"""
import os, signal, sys

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == {module!r}:
            try:
                os.kill(os.getpid(), signal.SIGINT)
                for _ in range(1_000_000):
                    pass
            except KeyboardInterrupt:
                os._exit(99)

import app.cli.main
sys.meta_path.insert(0, Interrupt())
app.cli.main.main()
"""
    done = subprocess.run([sys.executable, "-c", code, command], capture_output=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, b"")


def test_interrupt_of_a_running_command_exits_with_130(stub: Any, clean_environment: None) -> None:
    async def endless() -> Any:
        yield b"first\n"
        await __import__("asyncio").sleep(60)

    stub.on("POST", "/tools/a.b/call", StreamingResponse(endless(), media_type="text/plain"))
    command = [sys.executable, "-c", CODE, "tools", "call", "a.b"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment(stub.url)
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"first\n"
        # A signal that comes between Python's look for signals and the wait for bytes is seen after the wait.
        for _ in range(12):
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                _, err = process.communicate(timeout=5)
                break
    assert process.returncode == entry.INTERRUPTED
    assert b"Traceback" not in err


def test_interrupt_at_a_hidden_prompt_restores_the_terminal(stub: Any, clean_environment: None) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-c", CODE, "variables", "set", "TOKEN", "--secret", "-"]
    before = termios.tcgetattr(ours)
    with subprocess.Popen(
        command, stdin=theirs, stdout=theirs, stderr=theirs, env=environment(stub.url), start_new_session=True
    ) as process:
        # Reading fails once the process has ended.
        os.close(theirs)
        shown = b""
        while b"Value of TOKEN" not in shown:
            shown += os.read(ours, 4096)
        time.sleep(0.3)
        process.send_signal(signal.SIGINT)
        process.wait(60)
    after = termios.tcgetattr(ours)
    os.close(ours)
    assert process.returncode in (1, entry.INTERRUPTED)
    assert after == before
    assert stub.seen == []


@pytest.mark.parametrize(
    ("closed", "code"), [("<&-", 0), (">&-", 1), ("2>&-", 0), ("<&- 2>&-", 0), ("<&- >&- 2>&-", 1)]
)
def test_closed_streams(stub: Any, clean_environment: None, tmp_path: Path, closed: str, code: int) -> None:
    stub.on("GET", "/tools", {"items": [{"name": "a.b"}], "next_cursor": None})
    script = f'"{sys.executable}" -c "{CODE}" tools list -o name {closed}'
    done = subprocess.run(
        ["sh", "-c", script], capture_output=True, env=environment(stub.url), check=False, timeout=60
    )
    assert done.returncode == code, done.stderr
    assert done.stdout == (b"a.b\n" if ">&-" not in closed.replace("2>&-", "") else b"")
    expected = (
        b""
        if code == 0 or "2>&-" in closed
        else b"Error: standard output cannot be written: Bad file descriptor.\n"
    )
    assert done.stderr == expected
    assert len(stub.seen) == 1


def test_no_terminal_at_a_prompt_names_the_option(stub: Any, clean_environment: None) -> None:
    for stdin in (subprocess.DEVNULL, subprocess.PIPE):
        done = subprocess.run(
            [sys.executable, "-c", CODE, "providers", "remove", "pets"],
            stdin=stdin, capture_output=True, env=environment(stub.url), check=False, timeout=60,
        )  # fmt: skip
        assert (done.returncode, stub.seen) == (2, [])
        assert b"Confirm with --yes" in done.stderr


def test_no_home_and_no_working_directory(stub: Any, clean_environment: None, tmp_path: Path) -> None:
    stub.on("GET", "/tools", {"items": [], "next_cursor": None})
    folder = tmp_path / "gone"
    folder.mkdir()
    root = Path(__file__).parents[3]
    script = f'cd "{folder}" && rmdir "{folder}" && exec "{sys.executable}" -c "{CODE}" tools list -o name'
    bare = {"PATH": os.environ["PATH"], "PYTHONPATH": str(root), "UTCP_GATEWAY_URL": stub.url}
    done = subprocess.run(["sh", "-c", script], capture_output=True, env=bare, check=False, timeout=60)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


@pytest.mark.parametrize("content", [b"DATA_DIR=\xff\xfe", b"\x00", b"=\n'"])
def test_unreadable_env_file_is_no_key(
    stub: Any, clean_environment: None, tmp_path: Path, content: bytes
) -> None:
    stub.on("GET", "/tools", {"items": [], "next_cursor": None})
    (tmp_path / ".env").write_bytes(content)
    bare = {**os.environ, "UTCP_GATEWAY_URL": stub.url}
    done = subprocess.run(
        [sys.executable, "-c", CODE, "tools", "list", "-o", "name"],
        capture_output=True, env=bare, cwd=tmp_path, check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (0, b"")
    assert b"Traceback" not in done.stderr


def test_other_encodings_get_question_marks(stub: Any, clean_environment: None) -> None:
    stub.on("GET", "/tools", {"items": [{"name": "a.b", "description": "x" * 100}], "next_cursor": None})
    done = subprocess.run(
        [sys.executable, "-c", CODE, "tools", "list"],
        capture_output=True, env=environment(stub.url, PYTHONIOENCODING="ascii:strict"), check=False, timeout=60,
    )  # fmt: skip
    assert done.returncode == 0
    assert b"xxx?" in done.stdout


def test_arguments_that_are_no_text_are_a_usage_error(clean_environment: None) -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE, "tools", "call", b"a.b", b"q=\xff"],
        capture_output=True, env=environment(), check=False, timeout=60,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (2, b"Error: the command line has bytes that are not UTF-8.\n")


def test_unexpected_error_is_a_sentence_without_its_message(stub: Any, clean_environment: None) -> None:
    """An items member that is no list breaks every command that lists; the text of the error stays private."""
    stub.on("GET", "/tools", {"items": [{"nome": "canary-s3cr3t"}], "next_cursor": None})
    command = [sys.executable, "-c", CODE, "tools", "list"]
    done = subprocess.run(command, capture_output=True, env=environment(stub.url), check=False, timeout=60)
    assert (done.returncode, done.stdout) == (entry.INTERNAL_ERROR, b"")
    assert done.stderr.startswith(b"Error: utcp-gateway failed unexpectedly (KeyError).")
    assert b"canary" not in done.stderr
    traced = environment(stub.url, UTCP_GATEWAY_TRACEBACK="1")
    done = subprocess.run(command, capture_output=True, env=traced, check=False, timeout=60)
    assert b"Traceback (most recent call last)" in done.stderr


def test_interrupt_while_workers_start_shows_no_traceback(clean_environment: None, tmp_path: Path) -> None:
    """Ctrl-C reaches every process of the terminal's group, also the fork server that imports for the workers."""
    environment = {**os.environ, "DATABASE_URL": "", "REDIS_URL": "", "SEALING_KEYS": "", "PORT": "0"}
    command = [
        sys.executable,
        "-c",
        CODE,
        "serve",
        "--workers",
        "2",
        "--no-sample",
        "--data-dir",
        str(tmp_path / "d"),
    ]
    with subprocess.Popen(
        command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, env=environment, start_new_session=True
    ) as process:
        deadline = time.monotonic() + 120
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        while time.monotonic() < deadline and process.poll() is None:
            commands = [Path(f"/proc/{pid}/cmdline").read_bytes() for pid in children.read_text().split()]
            if any(b"forkserver" in one for one in commands):
                break
            time.sleep(0.01)
        os.killpg(process.pid, signal.SIGINT)
        _, err = process.communicate(timeout=120)
    assert process.returncode in (0, entry.INTERRUPTED, -signal.SIGINT)
    assert b"Traceback" not in err
