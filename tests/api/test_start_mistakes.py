"""The mistakes of newcomers at the start and on the command line, with the exact text that they get
(`mistakes.md`).
"""

import asyncio
import http.server
import os
import socket
import subprocess
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from app.access.data_keys import open_vault
from app.cli.embedded.folder import FolderLock
from app.security.vault import KeyRing
from app.storage.database import Database
from tests.api.mistakes import expected_texts, with_placeholders
from tests.api.test_mistakes import MISTAKES
from tests.harness.cases import for_each
from tests.harness.gateway import CommandResult, environment_for, run_in_process
from tests.harness.servers import Pair

VENV_SCRIPT = Path(__file__).parents[2] / "requirements" / "venv.sh"


@dataclass
class Shell:
    """The environment of a newcomer: a folder, a database that is migrated, and one that is not."""

    folder: Path
    environment: dict[str, str]
    empty_database: str

    def run(self, *words: str, without: str = "", **environment: str) -> CommandResult:
        changed = self.environment | environment
        return run_in_process(*words, environment={k: v for k, v in changed.items() if k != without})

    def client(self, *words: str, url: str = "http://127.0.0.1:9") -> CommandResult:
        return run_in_process(
            *words,
            environment={"UTCP_GATEWAY_URL": url, "UTCP_GATEWAY_KEY": "ugw_x", "PATH": os.environ["PATH"]},
        )


@pytest.fixture(scope="module")
def shell(servers: Pair, database_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    environment = environment_for(database_url, servers.redis_url) | {"PORT": "0"}

    async def use_sealing_keys() -> None:
        database = Database(database_url, pool_size=1)
        await open_vault(database, KeyRing.parse(environment["SEALING_KEYS"]))
        await database.aclose()

    asyncio.run(use_sealing_keys())
    empty = servers.create_database(migrated=False)
    yield Shell(tmp_path_factory.mktemp("newcomer"), environment, empty)
    servers.drop_database(empty)


@contextmanager
def website() -> Iterator[str]:
    """An HTTP server that is no gateway."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            body = b"<html>It works!</html>"
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"127.0.0.1:{server.server_address[1]}"
        server.shutdown()


Mistake = Callable[[Shell], tuple[CommandResult, dict[str, str]]]
START_MISTAKES: dict[str, Mistake] = {}


def mistake(name: str) -> Callable[[Callable[[Shell], CommandResult]], None]:
    def add(made: Callable[[Shell], CommandResult]) -> None:
        START_MISTAKES[name] = lambda shell: (made(shell), {})

    return add


# --- the command line ---


@mistake("a gateway that is not running")
def _(shell: Shell) -> CommandResult:
    return shell.client("tools", "list")


@mistake("an address without http")
def _(shell: Shell) -> CommandResult:
    return shell.client("tools", "list", url="localhost:8000")


@mistake("an unknown command")
def _(shell: Shell) -> CommandResult:
    return shell.client("tool", "list")


@mistake("an unknown option")
def _(shell: Shell) -> CommandResult:
    return shell.client("tools", "list", "--limits", "5")


@mistake("an argument without a value")
def _(shell: Shell) -> CommandResult:
    return shell.client("tools", "call", "library.searchBooks", "sea")


@mistake("arguments that are not JSON")
def _(shell: Shell) -> CommandResult:
    return shell.client("tools", "call", "library.searchBooks", "--arguments", "{q: sea}")


@mistake("a secret on the command line")
def _(shell: Shell) -> CommandResult:
    return shell.client("variables", "set", "API_TOKEN", "--secret", "hunter2")


@mistake("a file that does not exist")
def _(shell: Shell) -> CommandResult:
    return shell.client("openapi", "check", "nowhere.yaml")


def _website(scheme: str) -> Mistake:
    def run(shell: Shell) -> tuple[CommandResult, dict[str, str]]:
        with website() as address:
            return shell.client("tools", "list", url=f"{scheme}://{address}"), {address: "address"}

    return run


START_MISTAKES["the address of another web server"] = _website("http")
START_MISTAKES["https in place of http"] = _website("https")


# --- the start ---


def _busy_port(shell: Shell) -> tuple[CommandResult, dict[str, str]]:
    with socket.create_server(("127.0.0.1", 0)) as held:
        port = str(held.getsockname()[1])
        return shell.run("serve", PORT=port), {port: "port"}


START_MISTAKES["a busy port"] = _busy_port


@mistake("a port that is no number")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", PORT="http")


@mistake("a database that is not running")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", DATABASE_URL="postgresql://gateway:secret@127.0.0.1:9/gateway")


@mistake("a database that is not PostgreSQL")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", DATABASE_URL="mysql://gateway:secret@127.0.0.1/gateway")


@mistake("a database that is not migrated")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", DATABASE_URL=shell.empty_database)


@mistake("a Redis URL that is none")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", REDIS_URL="localhost:6379")


@mistake("a database URL without a Redis URL")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", without="REDIS_URL")


@mistake("no sealing keys")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", without="SEALING_KEYS")


@mistake("sealing keys that are no keys")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", SEALING_KEYS="changeme")


@mistake("other sealing keys than before")
def _(shell: Shell) -> CommandResult:
    return shell.run("serve", SEALING_KEYS=KeyRing.generate("other"))


def _embedded(shell: Shell, folder: Path) -> CommandResult:
    environment = {k: v for k, v in shell.environment.items() if k not in ("DATABASE_URL", "REDIS_URL")}
    return run_in_process("serve", environment=environment | {"DATA_DIR": str(folder), "SAMPLE": "false"})


def _folder_that_is_a_file(shell: Shell) -> tuple[CommandResult, dict[str, str]]:
    path = shell.folder / "file"
    path.write_text("")
    return _embedded(shell, path / "data"), {str(shell.folder): "folder"}


def _folder_in_use(shell: Shell) -> tuple[CommandResult, dict[str, str]]:
    folder = shell.folder / "shared"
    folder.mkdir(mode=0o700)
    lock = FolderLock(folder)
    try:
        return _embedded(shell, folder), {str(folder): "folder", str(os.getpid()): "process"}
    finally:
        lock.release()


START_MISTAKES["a data folder that cannot be created"] = _folder_that_is_a_file
START_MISTAKES["a second gateway on one data folder"] = _folder_in_use


@for_each("name", list(START_MISTAKES))
def test_a_mistake_at_the_start_gets_exactly_this_text(shell, name):
    result, places = START_MISTAKES[name](shell)
    assert result.code != 0
    assert "Traceback" not in result.err
    shown = "\n".join(line.rstrip() for line in result.err.rstrip().splitlines())
    assert with_placeholders(shown, places) == expected_texts()[name]


def test_a_python_that_is_too_old_gets_exactly_this_text(tmp_path):
    for name in ("python3", *(f"python3.{minor}" for minor in range(11, 15))):
        program = tmp_path / name
        program.write_text("#!/bin/sh\nexit 1\n")
        program.chmod(0o755)
    done = subprocess.run(
        ["/bin/bash", str(VENV_SCRIPT), str(tmp_path / "venv")],
        env={"PATH": str(tmp_path)}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.rstrip() == expected_texts()["a Python that is too old"]


def test_the_list_has_these_mistakes_and_at_least_45():
    names = set(expected_texts())
    assert names == {*MISTAKES, *START_MISTAKES, "a Python that is too old"}
    assert len(names) >= 45
