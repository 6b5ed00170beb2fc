"""Replicas of the gateway: processes of `utcp-gateway serve`, supervised, killed and drained by exact process id."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import time
from pathlib import Path

import aiohttp
import psutil

from tests.harness.gateway import PROGRAM, environment_for, run_command

_START_SECONDS = 120.0


def free_port() -> int:
    """Return a free port of 127.0.0.1."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Replica:
    """One process at a time, always on the same port."""

    def __init__(self, folder: Path, *, name: str) -> None:
        self.port = free_port()
        self.name = name
        self.log = folder / f"{name}.log"
        self.starts = 0
        self.should_run = False
        """Whether the supervisor restarts it when its process has ended."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Its base URL, without nginx."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """The id of its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether its process is running."""
        return self._process is not None and self._process.poll() is None

    def spawn(self, environment: dict[str, str]) -> None:
        """Start a process without waiting until it is ready."""
        self.starts += 1
        self.should_run = True
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(PROGRAM), "serve", "--host", "127.0.0.1", "--port", str(self.port)],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder,
            )  # fmt: skip

    def kill(self) -> None:
        """Send SIGKILL."""
        if self.runs:
            os.kill(self.pid, signal.SIGKILL)

    def terminate(self) -> None:
        """Send SIGTERM; the supervisor does not restart it."""
        self.should_run = False
        if self.runs:
            os.kill(self.pid, signal.SIGTERM)

    async def wait_ended(self, seconds: float = 45.0) -> float:
        """Wait until the process has ended, kill it after `seconds`, and return the seconds that took."""
        began = time.monotonic()
        while self.runs:
            if time.monotonic() - began > seconds:
                self.kill()
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    def descriptors(self) -> int:
        """Return the number of open file descriptors."""
        return int(psutil.Process(self.pid).num_fds())

    def resident(self) -> int:
        """Return the resident memory in bytes."""
        return int(psutil.Process(self.pid).memory_info().rss)


class Replicas:
    """Three replicas on shared servers, with one key ring."""

    def __init__(self, folder: Path, *, database_url: str, redis_url: str, number: int = 3) -> None:
        self.all = [Replica(folder, name=f"gateway-{index}") for index in range(number)]
        self._database_url, self._redis_url = database_url, redis_url
        self.environment: dict[str, str] = {}
        self._settings: dict[str, str] | None = None
        self._ring = ""
        self.key = ""

    def prepare(self, **settings: str) -> None:
        """Set the environment of processes that are started from now on: these settings and those that all need."""
        self.environment = environment_for(self._database_url, self._redis_url, **settings)
        if self._ring:
            self.environment["SEALING_KEYS"] = self._ring
        self._ring = self.environment["SEALING_KEYS"]

    def use_ring(self, ring: str) -> None:
        """Set the key ring of processes that are started from now on."""
        self._ring = self.environment["SEALING_KEYS"] = ring

    def bootstrap(self) -> None:
        """Migrate the database and create the admin key."""
        migrated = run_command("migrate", environment=self.environment)
        assert migrated.returncode == 0, migrated.stderr
        made = run_command("bootstrap", environment=self.environment)
        assert made.returncode == 0, made.stderr
        self.key = made.stdout.strip()

    async def run_with(self, **settings: str) -> None:
        """Run all of them with exactly these settings, and wait until they are ready."""
        if settings != self._settings:
            await self.stop()
            self.prepare(**settings)
            self._settings = dict(settings)
        for replica in self.all:
            if not replica.runs:
                replica.spawn(self.environment)
        await self.ready()

    async def ready(self, seconds: float = _START_SECONDS) -> None:
        """Wait until /health/ready of all of them is 200."""
        await asyncio.gather(*(self.one_ready(replica, seconds=seconds) for replica in self.all))

    async def one_ready(self, replica: Replica, *, seconds: float = _START_SECONDS) -> float:
        """Wait until a replica is ready and return the seconds that took; raise RuntimeError after `seconds`."""
        began = time.monotonic()
        async with aiohttp.ClientSession(trust_env=False) as session:
            while time.monotonic() - began < seconds:
                try:
                    async with session.get(f"{replica.url}/health/ready") as response:
                        if response.status == 200:
                            return time.monotonic() - began
                except aiohttp.ClientError:
                    pass
                if not replica.runs:
                    if not replica.should_run:
                        break
                    # It exits if a server is unavailable when it starts; an orchestrator would restart it.
                    replica.spawn(self.environment)
                    await asyncio.sleep(0.5)
                await asyncio.sleep(0.05)
        raise RuntimeError(f"{replica.name} is not ready:\n{replica.log.read_text(errors='replace')[-3000:]}")

    async def supervise(self) -> None:
        """Restart replicas that have ended, as an orchestrator does, until it is cancelled."""
        while True:
            for replica in self.all:
                if replica.should_run and not replica.runs:
                    replica.spawn(self.environment)
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """Send SIGTERM to all, and SIGKILL to those that do not end."""
        for replica in self.all:
            replica.terminate()
        for replica in self.all:
            await replica.wait_ended()
        self._settings = None

    def tracebacks(self) -> list[str]:
        """Return each unhandled error in the logs: its location and its text."""
        found = []
        for replica in self.all:
            text = replica.log.read_text(errors="replace") if replica.log.exists() else ""
            errors = [
                _error_in(line)
                for line in text.splitlines()
                if ("Traceback" in line or "unexpected error" in line) and not _exited_at_start(line)
            ]
            found += [f"{replica.name}: {error}" for error in errors]
        return found


def _exited_at_start(line: str) -> bool:
    """A replica that starts while PostgreSQL is down exits, as specified; uvicorn logs a traceback."""
    return "merged_lifespan" in line and "The database cannot be reached." in line


def _error_in(line: str) -> str:
    try:
        record = json.loads(line)
    except ValueError:
        return line[-2_000:]
    if "frames" in record:
        return f"{record['frames']}\n{record.get('error')}"[-2_000:]
    return str(record.get("exception") or line)[-2_000:]
