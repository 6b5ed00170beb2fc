"""`utcp-gateway serve` in a process of its own, as an operator would run it."""

import asyncio
import contextlib
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import httpx2
import psutil
from typer.testing import CliRunner

from app.cli.bootstrap import create_admin_key
from app.cli.root import app
from app.security.vault import KeyRing
from tests.harness.gateway_forks import ForkedProcess, get_forks
from tests.harness.plain_http import WITHOUT_CERTIFICATES
from tests.harness.servers import Pair

PROGRAM = Path(sys.executable).with_name("utcp-gateway")
_START_SECONDS = 120


@dataclass(frozen=True, slots=True)
class RunningGateway:
    """A running gateway. `log` is the file with everything that it has printed."""

    url: str
    key: str
    log: Path
    database_url: str
    redis_url: str
    process: subprocess.Popen[bytes] | ForkedProcess
    environment: Mapping[str, str] = field(repr=False)

    def client(self, key: str | None = None, **options: Any) -> httpx2.Client:
        """Return a client with the admin key, another key, or (empty string) none."""
        key = self.key if key is None else key
        headers = {"Authorization": f"Bearer {key}"} if key else {}
        options = {"trust_env": False, "verify": WITHOUT_CERTIFICATES, "timeout": 60, **options}
        return httpx2.Client(base_url=self.url, headers=headers, **options)

    def workers(self) -> set[int]:
        """Return the process ids of the workers, where there are several."""
        return {worker.pid for worker in list_workers(psutil.Process(self.process.pid))}


def list_workers(gateway: psutil.Process) -> list[psutil.Process]:
    """Return the workers of a gateway that has several: those that its fork server has forked."""
    found: list[psutil.Process] = []
    # Python's resource tracker has no child.
    for child in gateway.children():
        with contextlib.suppress(psutil.Error):
            if child.name() not in ("postgres", "valkey-server"):
                found += filter(is_alive, child.children())
    return found


def is_alive(process: psutil.Process) -> bool:
    """Return whether a process runs: a killed one is a zombie until its parent has noticed."""
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def run_command(*arguments: str, environment: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run `utcp-gateway ...` to its end."""
    return subprocess.run(
        [str(PROGRAM), *arguments],
        env=dict(environment),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


class CommandResult(NamedTuple):
    """The exit code of a command, and what it wrote to standard output and standard error."""

    code: int
    out: str
    err: str


def run_in_process(*arguments: str, environment: Mapping[str, str]) -> CommandResult:
    """Run a `utcp-gateway` command that ends by itself in this process, with these environment variables only.

    That saves the start of an interpreter. An exception that the command does not handle fails the test.
    """
    others = dict.fromkeys(set(os.environ) - set(environment))
    done = CliRunner().invoke(app, list(arguments), env={**others, **environment})
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return CommandResult(done.exit_code, done.stdout, done.stderr)


def environment_for(database_url: str, redis_url: str, **settings: str) -> dict[str, str]:
    """Return a clean environment with the servers, a new sealing key and the given settings."""
    base = {name: os.environ[name] for name in ("PATH", "HOME", "LANG", "TMPDIR") if name in os.environ}
    return base | {
        "DATABASE_URL": database_url,
        "REDIS_URL": redis_url,
        "SEALING_KEYS": KeyRing.generate("test"),
        "ALLOW_NETWORKS": "127.0.0.0/8,::1/128",
        "LOG_FORMAT": "json",
        "SHUTDOWN_GRACE_SECONDS": "0",
        **settings,
    }


@contextmanager
def serve(
    servers: Pair,
    folder: Path,
    *,
    database_url: str | None = None,
    workers: int = 1,
    execute: bool = False,
    **settings: str,
) -> Iterator[RunningGateway]:
    """Run a gateway on a new database of `servers`; stop it with SIGTERM by its exact process id.

    It is forked from a process that has imported the application, unless `execute` says that the start itself matters.
    """
    dsn = database_url or servers.create_database()
    environment = environment_for(dsn, servers.redis_url, **settings)
    ring = KeyRing.parse(environment["SEALING_KEYS"])
    with ThreadPoolExecutor(1) as thread:
        # Some tests have an event loop of their own in this thread.
        key = thread.submit(asyncio.run, create_admin_key(dsn, ring, name="admin")).result()
    log = folder / f"gateway-{time.monotonic_ns()}.log"
    arguments = ["serve", "--port", "0", "--workers", str(workers)]
    log.touch()
    process: subprocess.Popen[bytes] | ForkedProcess
    if execute or "PYTHONPATH" in settings:
        with log.open("wb") as output:
            process = subprocess.Popen(
                [str(PROGRAM), *arguments],
                env=environment, stdout=output, stderr=output, stdin=subprocess.DEVNULL, cwd=folder,
            )  # fmt: skip
    else:
        process = get_forks().fork(arguments, environment=environment, log=log, folder=folder)
    try:
        url = _wait(process, log)
        yield RunningGateway(url, key, log, dsn, servers.redis_url, process, environment=environment)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(45)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise
        if database_url is None:
            servers.drop_database(dsn)


def _wait(process: subprocess.Popen[bytes] | ForkedProcess, log: Path) -> str:
    deadline = time.monotonic() + _START_SECONDS
    while time.monotonic() < deadline:
        text = log.read_text(errors="replace")
        found = re.search(r"listens on (http://\S+)", text)
        if found:
            return found[1]
        if process.poll() is not None:
            break
        time.sleep(0.05)
    message = f"The gateway did not start:\n{log.read_text(errors='replace')[-4000:]}"
    raise RuntimeError(message)
