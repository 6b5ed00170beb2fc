"""The released UTCP clients, each run as a process of its own environment."""

import json
import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Any

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
    arguments = [url, token, json.dumps(calls), json.dumps(variables or {}), mode]
    if client in _PYTHON:
        environment, script = _PYTHON[client]
        return run_program([str(interpreter(environment)), str(HERE / script), *arguments])
    return run_typescript("client.js", arguments)


def run_typescript(script: str, arguments: list[str]) -> dict[str, Any]:
    """Return the JSON that a program of `typescript/` prints, run beside the installed packages."""
    installed = required(install_typescript)
    with tempfile.TemporaryDirectory() as folder:
        # Node.js looks for packages in the folder of the program.
        for name in (script, "package.json"):
            shutil.copy(TYPESCRIPT / name, folder)
        (Path(folder) / "node_modules").symlink_to(installed / "node_modules")
        return run_program(["node", str(Path(folder) / script), *arguments])


def run_program(command: list[str]) -> dict[str, Any]:
    """Return the JSON in the last line that a program prints."""
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=240, check=False, env={"PATH": os.environ["PATH"]}
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return found
