"""Runs the encoding process of a gateway: one of its workers holds a lock, and starts and restarts it."""

import asyncio
import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

import orjson
import structlog

import app
from app.core.background import cancel_tasks
from app.core.processes import run_child_process
from app.search.vectors.folder import VectorFolder
from app.search.vectors.job import FAILED, Job
from app.search.vectors.status import VectorStatus, write_status

_log = structlog.get_logger(__name__)
_ROOT: Final = str(Path(app.__file__).parent.parent)
_PASSED: Final = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR", "TZ", "VIRTUAL_ENV")
# One thread each: the process is bounded, and its work is in one model with one thread.
_ONE_THREAD: Final = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"}
_LOCK_SECONDS: Final = 2.0
_BACKOFF_MAX: Final = 60.0


class EncodingSupervisor:
    """Runs the encoding process while this worker holds the lock of the data directory."""

    def __init__(self, folder: VectorFolder, job: Job) -> None:
        self._folder = folder
        self._job = job
        self._tasks: list[asyncio.Task[None]] = []
        self.pid: int | None = None
        """The process id; None where another worker runs it, or it does not run."""

    def start(self) -> None:
        """Begin to wait for the lock."""
        self._tasks.append(asyncio.create_task(self._run(), name="search-vectors-process"))

    async def aclose(self) -> None:
        """End the process and give up the lock."""
        await cancel_tasks(self._tasks)

    async def _run(self) -> None:
        descriptor = self._lock()
        while descriptor is None:
            await asyncio.sleep(_LOCK_SECONDS)
            descriptor = self._lock()
        try:
            await self._keep_running()
        finally:
            os.close(descriptor)

    def _lock(self) -> int | None:
        try:
            return self._folder.lock()
        except OSError as error:
            _log.warning("the folder of search vectors cannot be used", reason=error.strerror)
            return None

    async def _keep_running(self) -> None:
        backoff = 1.0
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                code = await self._run_once()
            except OSError as error:
                _log.warning("the encoding process cannot be started", error=type(error).__name__)
                code = 1
            if code == FAILED:
                await self._write_unavailable()
                return
            backoff = 1.0 if loop.time() - began > _BACKOFF_MAX else min(2 * backoff, _BACKOFF_MAX)
            _log.warning("the encoding process has ended and is restarted", code=code, seconds=backoff)
            await asyncio.sleep(backoff)

    async def _write_unavailable(self) -> None:
        """Tell all workers that the model cannot be used, whatever the process came to before."""
        status = VectorStatus("unavailable", self._folder.source.name)
        try:
            await asyncio.to_thread(write_status, self._folder.status, status)
        except OSError as error:
            _log.warning("the status of search vectors cannot be written", reason=error.strerror)

    async def _run_once(self) -> int:
        """Run the process to its end, and return its exit code; that of a signal is negative."""
        command = (sys.executable, "-m", "app.search.vectors.encoding_process")
        async with run_child_process(
            *command, env=_build_environment(os.environ), stdin=asyncio.subprocess.PIPE
        ) as child:
            assert child.stdin is not None  # noqa: S101 - a pipe, as asked for.
            assert child.stdout is not None  # noqa: S101
            self.pid = child.pid
            try:
                child.stdin.write(self._job.write_line())
                while line := await child.stdout.readline():
                    _log_message(line)
                return await child.wait()
            finally:
                self.pid = None


def _log_message(line: bytes) -> None:
    try:
        message = orjson.loads(line)
        level, event = str(message.pop("level")), str(message.pop("event"))
    except (orjson.JSONDecodeError, AttributeError, KeyError):
        return
    log = {"error": _log.error, "warning": _log.warning}.get(level, _log.info)
    log(event, **message)


def _build_environment(ours: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of the process: none of our settings, keys and proxies."""
    passed = {name: ours[name] for name in _PASSED if name in ours}
    paths = [_ROOT, *(path for path in sys.path if path and path != _ROOT)]
    return {**passed, **_ONE_THREAD, "PYTHONPATH": os.pathsep.join(paths)}
