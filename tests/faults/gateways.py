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

_START_SECONDS = 60.0


def free_port() -> int:
    """A port of 127.0.0.1 that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


class Replica:
    """One process at a time, always at the same port."""

    def __init__(self, folder: Path, *, name: str) -> None:
        self.port = free_port()
        self.name = name
        self.log = folder / f"{name}.log"
        self.starts = 0
        self.wanted = False
        """Whether somebody should start it again when it has ended."""
        self._folder = folder
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Without nginx."""
        return f"http://127.0.0.1:{self.port}"

    @property
    def pid(self) -> int:
        """Its process."""
        assert self._process is not None
        return self._process.pid

    @property
    def runs(self) -> bool:
        """Whether there is a process."""
        return self._process is not None and self._process.poll() is None

    def spawn(self, environment: dict[str, str]) -> None:
        """Starts a process, without waiting for it."""
        self.starts += 1
        self.wanted = True
        with self.log.open("ab") as output:
            self._process = subprocess.Popen(
                [str(PROGRAM), "serve", "--host", "127.0.0.1", "--port", str(self.port)],
                env=environment, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self._folder,
            )  # fmt: skip

    def kill(self) -> None:
        """SIGKILL by process id."""
        if self.runs:
            os.kill(self.pid, signal.SIGKILL)

    def ask_to_stop(self) -> None:
        """SIGTERM by process id; nobody starts it again."""
        self.wanted = False
        if self.runs:
            os.kill(self.pid, signal.SIGTERM)

    async def ended(self, seconds: float = 45.0) -> float:
        """The seconds until the process has ended; killed when that takes too long."""
        began = time.monotonic()
        while self.runs:
            if time.monotonic() - began > seconds:
                self.kill()
            await asyncio.sleep(0.02)
        return time.monotonic() - began

    def descriptors(self) -> int:
        """Open file descriptors."""
        return psutil.Process(self.pid).num_fds()

    def resident(self) -> int:
        """Bytes of resident memory."""
        return int(psutil.Process(self.pid).memory_info().rss)


class Replicas:
    """Three of them, on shared servers, with one key ring."""

    def __init__(self, folder: Path, *, database_url: str, redis_url: str, number: int = 3) -> None:
        self.all = [Replica(folder, name=f"gateway-{index}") for index in range(number)]
        self._database_url, self._redis_url = database_url, redis_url
        self.environment: dict[str, str] = {}
        self._settings: dict[str, str] | None = None
        self._ring = ""
        self.key = ""

    def prepare(self, **settings: str) -> None:
        """The environment of the next starts: settings beside what all of them need."""
        self.environment = environment_for(self._database_url, self._redis_url, **settings)
        if self._ring:
            self.environment["SEALING_KEYS"] = self._ring
        self._ring = self.environment["SEALING_KEYS"]

    def use_ring(self, ring: str) -> None:
        """Another key ring from the next start on."""
        self._ring = self.environment["SEALING_KEYS"] = ring

    def bootstrap(self) -> None:
        """Migrates, and makes the admin key."""
        migrated = run_command("migrate", environment=self.environment)
        assert migrated.returncode == 0, migrated.stderr
        made = run_command("bootstrap", environment=self.environment)
        assert made.returncode == 0, made.stderr
        self.key = made.stdout.strip()

    async def run_with(self, **settings: str) -> None:
        """All of them run and are ready, with exactly these settings."""
        if settings != self._settings:
            await self.stop()
            self.prepare(**settings)
            self._settings = dict(settings)
        for replica in self.all:
            if not replica.runs:
                replica.spawn(self.environment)
        await self.ready()

    async def ready(self, seconds: float = _START_SECONDS) -> None:
        """All of them answer at /health/ready."""
        await asyncio.gather(*(self.one_ready(replica, seconds=seconds) for replica in self.all))

    async def one_ready(self, replica: Replica, *, seconds: float = _START_SECONDS) -> float:
        """The seconds until this one is ready."""
        began = time.monotonic()
        async with aiohttp.ClientSession(trust_env=False) as session:
            while time.monotonic() - began < seconds:
                try:
                    async with session.get(f"{replica.url}/health/ready") as answer:
                        if answer.status == 200:
                            return time.monotonic() - began
                except aiohttp.ClientError:
                    pass
                if not replica.runs:
                    if not replica.wanted:
                        break
                    # Started while a server was away, as it may be at any time: an orchestrator would try again.
                    replica.spawn(self.environment)
                    await asyncio.sleep(0.5)
                await asyncio.sleep(0.05)
        raise RuntimeError(f"{replica.name} is not ready:\n{replica.log.read_text(errors='replace')[-3000:]}")

    async def supervise(self) -> None:
        """Starts again what has ended and is wanted, as any orchestrator does; runs until it is cancelled."""
        while True:
            for replica in self.all:
                if replica.wanted and not replica.runs:
                    replica.spawn(self.environment)
            await asyncio.sleep(0.1)

    async def stop(self) -> None:
        """SIGTERM for all, SIGKILL for who does not listen."""
        for replica in self.all:
            replica.ask_to_stop()
        for replica in self.all:
            await replica.ended()
        self._settings = None

    def tracebacks(self) -> list[str]:
        """Each unhandled fault in the logs: where it happened and what it was."""
        found = []
        for replica in self.all:
            text = replica.log.read_text(errors="replace") if replica.log.exists() else ""
            told = [
                _told(line)
                for line in text.splitlines()
                if ("Traceback" in line or "unexpected error" in line) and not _ended_at_its_start(line)
            ]
            found += [f"{replica.name}: {one}" for one in told]
        return found


def _ended_at_its_start(line: str) -> bool:
    """A replica that starts just when PostgreSQL is killed ends, as it should; uvicorn says so by a traceback."""
    return "merged_lifespan" in line and "The database cannot be reached." in line


def _told(line: str) -> str:
    try:
        said = json.loads(line)
    except ValueError:
        return line[-2_000:]
    if "frames" in said:
        return f"{said['frames']}\n{said.get('error')}"[-2_000:]
    return str(said.get("exception") or line)[-2_000:]
