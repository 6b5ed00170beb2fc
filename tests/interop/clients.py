"""The released UTCP clients, and other programs of environments of their own."""

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.harness.gateway import RunningGateway
from tests.interop.environments import TYPESCRIPT, install_typescript, interpreter, required

HERE = Path(__file__).parent
CLIENTS = ("1", "0", "typescript")
"""utcp 1.x, utcp 0.2.3, and @utcp/sdk with @utcp/http."""
_PYTHON = {"1": ("utcp1", "client_v1.py"), "0": ("utcp0", "client_v0.py")}


def run(
    client: str,
    gateway: RunningGateway,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    query: str = "?provider=interop",
    variables: dict[str, str] | None = None,
    mode: str = "call",
) -> dict[str, Any]:
    """Return what a client has registered, found and got (client_v1.py); `mode` is `call` or `stream`."""
    query += "&version=0" if client == "0" else ""
    return run_at(client, f"{gateway.url}/utcp{query}", gateway.key, calls, variables=variables, mode=mode)


def run_at(
    client: str,
    url: str,
    token: str,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    variables: dict[str, str] | None = None,
    mode: str = "call",
) -> dict[str, Any]:
    """Return the same of a client that reads the manual at any URL; `token` is sent to read it."""
    if client in _PYTHON:
        environment, script = _PYTHON[client]
        program = [str(interpreter(environment)), str(HERE / script)]
    else:
        program = ["node", str(place_program(TYPESCRIPT / "client.js", required(install_typescript)))]
    return ask_program(program, url, token, calls, variables or {}, mode)


def run_typescript(script: str, arguments: list[str]) -> dict[str, Any]:
    """Return the JSON that a program of `typescript/` prints, run beside the installed packages."""
    placed = place_program(TYPESCRIPT / script, required(install_typescript))
    return run_program(["node", str(placed), *arguments])


@cache
def place_program(script: Path, installed: Path) -> Path:
    """Return the path of a copy of `script` beside the packages of the folder `installed`, where Node.js looks for them."""
    folder = Path(tempfile.mkdtemp(prefix="interop-"))
    for name in (script.name, "package.json"):
        shutil.copy(script.parent / name, folder)
    (folder / "node_modules").symlink_to(installed / "node_modules")
    return folder / script.name


class ResidentProgram:
    """A program that reads the arguments of each run as a line of JSON, and prints its result as one.

    A client is imported once for all tests that use it, which is most of what a run costs.
    """

    def __init__(self, command: Sequence[str]) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed with the program
        self._process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env={"PATH": os.environ["PATH"]},
        )  # fmt: skip

    def ask(self, *arguments: Any) -> dict[str, Any]:
        """Return the result of a run; a program that ends fails the test, with what it has written to standard error."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(json.dumps(arguments) + "\n")
            self._process.stdin.flush()
        for line in self._process.stdout:
            # Some clients print lines of their own.
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found
        self._process.wait()
        self._errors.seek(0)
        pytest.fail(f"the program has ended: {self._errors.read().decode()[-3000:]}")

    @property
    def is_running(self) -> bool:
        """Whether the program has not ended."""
        return self._process.poll() is None

    def close(self) -> None:
        """End the program."""
        self._process.kill()
        self._process.communicate()
        self._errors.close()


_programs: dict[tuple[str, ...], ResidentProgram] = {}


def ask_program(command: Sequence[str], *arguments: Any) -> dict[str, Any]:
    """Return the result of a run of the resident program with this command, which is started where it does not run."""
    program = _programs.get(tuple(command))
    if program is None or not program.is_running:
        program = _programs[tuple(command)] = ResidentProgram(command)
    return program.ask(*arguments)


def close_programs() -> None:
    """End all resident programs, and remove the copies of those of Node.js."""
    for command, program in _programs.items():
        program.close()
        if (folder := Path(command[-1]).parent).name.startswith("interop-"):
            shutil.rmtree(folder)
    _programs.clear()
    place_program.cache_clear()


def run_program(command: list[str]) -> dict[str, Any]:
    """Return the JSON in the last line that a program prints."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
