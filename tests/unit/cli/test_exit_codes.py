"""The exit codes and streams of the real command, as a shell sees them."""

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

Run = Callable[..., Any]
EMPTY = {"items": [], "next_cursor": None}


def test_success_exits_with_0(spawn: Run, stub: Any) -> None:
    stub.on("GET", "/tools", EMPTY)
    ran = spawn("tools", "list", "--json")
    assert (ran.code, ran.json(), ran.err) == (0, EMPTY, "")


def test_problem_response_exits_with_1(spawn: Run, stub: Any) -> None:
    stub.problem("GET", "/tools", status=403, title="Forbidden", detail="tools:read is missing.")
    ran = spawn("tools", "list")
    assert (ran.code, ran.out) == (1, "")
    assert ran.err == "Error: Forbidden. tools:read is missing.\n"


def test_wrong_command_line_exits_with_2(spawn: Run) -> None:
    for words in (("tools", "lists"), ("tools", "call"), ("tools", "list", "--limit", "0"), ("--nonsense",)):
        ran = spawn(*words)
        assert (ran.code, ran.out) == (2, ""), words


def test_unreachable_gateway_exits_with_3(spawn: Run) -> None:
    ran = spawn("tools", "list", url="http://127.0.0.1:9")
    assert (ran.code, ran.out) == (3, "")
    assert "Traceback" not in ran.err
    ran = spawn("tools", "list", "--json", url="http://127.0.0.1:9")
    assert ran.code == 3
    assert "127.0.0.1:9" in orjson.loads(ran.out)["detail"]


def test_partly_failed_import_exits_with_4(spawn: Run, stub: Any) -> None:
    entries = [
        {"name": "a", "outcome": "registered"},
        {"name": "b", "outcome": "failed", "problem": {"title": "No", "detail": "No such host."}},
    ]
    stub.on("POST", "/providers", {"entries": entries})
    assert spawn("providers", "import", "-", stdin=b"[{},{}]").code == 4


def test_help_documents_the_exit_codes(spawn: Run) -> None:
    ran = spawn("--help")
    assert ran.code == 0
    for word in ("Exit codes", "0 done", "3 the gateway cannot be reached", "4 done in part"):
        assert word in " ".join(ran.out.split())


def test_closed_pipe_causes_no_traceback(stub: Any, clean_environment: None) -> None:
    tool = {"name": "p.t", "description": "x" * 70}
    stub.on("GET", "/tools", {"items": [tool] * 2_000, "next_cursor": None})
    code = "from app.cli.main import main; main()"
    command = [sys.executable, "-c", code, "tools", "list", "--limit", "2000", "--url", stub.url]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert b"Traceback" not in process.stderr.read()


def test_client_commands_do_not_import_the_gateway(clean_environment: None) -> None:
    """A command in a script's loop must start fast: the server's libraries cost a second."""
    code = "import sys; from app.cli.root import app; print({'sqlalchemy', 'uvicorn', 'aiohttp'} & {*sys.modules})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout.decode().strip() == "set()"


def test_operator_commands_are_imported_on_use(spawn: Run) -> None:
    assert {"serve", "bootstrap", "migrate"} < set(spawn("--help").out.split())
    for command in ("serve", "bootstrap", "migrate"):
        ran = spawn(command, "--help")
        assert ran.code == 0
        assert "--database-url" in ran.out
    assert spawn("serve", "--port", "no-port").code == 2


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_full_disk_is_reported_in_a_sentence() -> None:
    program = Path(sys.executable).with_name("utcp-gateway")
    with Path("/dev/full").open("wb") as full:
        ran = subprocess.run([str(program), "--version"], stdout=full, stderr=subprocess.PIPE, check=False)
    assert ran.returncode == 1
    assert ran.stderr.decode() == "Error: standard output cannot be written: No space left on device.\n"
