"""Child processes: starting them, and ending each of them whatever it is doing.

asyncio wakes `Process.wait()` only when the process has exited *and* every pipe is disconnected (CPython
gh-119710). A `StreamReader` that holds more than its limit pauses its pipe, which then never sees the end of
the output: waiting for such a process after killing it would never end. Here, the pipes are closed first.
"""

import asyncio
import contextlib
import os
import signal
from asyncio.subprocess import DEVNULL, PIPE, Process, SubprocessStreamProtocol
from collections.abc import AsyncIterator, Mapping
from typing import Any, Final

import structlog

from app.core.background import await_uncancelled

_log = structlog.get_logger(__name__)

_STREAM_LIMIT: Final = 64 * 1024
# A killed process ends within milliseconds, unless it is stuck in the kernel, e.g. on a lost disk.
_REAP_SECONDS: Final = 10.0


@contextlib.asynccontextmanager
async def run_child_process(
    *command: str, env: Mapping[str, str], cwd: str = "/", stdin: int = DEVNULL, stderr: int = DEVNULL
) -> AsyncIterator[Process]:
    """Run `command` in a process group of its own, which is killed when the block ends, however it ends.

    Standard output is a pipe; `stdin` and `stderr` as for `asyncio.create_subprocess_exec`. When the block
    has been left, the process has been reaped and its pipes are closed, also where the task was cancelled,
    and whatever was left unread or unwritten. Raises OSError if it cannot be started.
    """
    starting = asyncio.create_task(_start(command, env=env, cwd=cwd, stdin=stdin, stderr=stderr))
    try:
        _, process = await await_uncancelled(starting)
        yield process
    finally:
        if starting.done() and not starting.cancelled() and starting.exception() is None:
            transport, process = starting.result()
            if process.returncode is None:
                kill_group(process.pid)
            close_pipes(transport)
            await await_uncancelled(asyncio.create_task(_reap(transport, process)))


def close_pipes(transport: asyncio.SubprocessTransport) -> None:
    """Close our ends of a process's pipes at once; discard what is not yet read or written.

    `transport.close()` waits for unwritten input to be read, possibly by a process that is still running.
    """
    for number in (0, 1, 2):
        pipe: Any = transport.get_pipe_transport(number)
        if pipe is None:
            continue
        if number > 0:
            pipe.close()
        elif not pipe.is_closing() or pipe.get_write_buffer_size() > 0:
            # One that is already closed cannot be aborted.
            pipe.abort()


def kill_group(pid: int) -> None:
    """Send SIGKILL to the process group that `pid` leads; do nothing if it has ended.

    `Process.kill()` is not used: it polls first, and so takes the exit code from asyncio's child watcher.
    """
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)


async def _start(
    command: tuple[str, ...], *, env: Mapping[str, str], cwd: str, stdin: int, stderr: int
) -> tuple[asyncio.SubprocessTransport, Process]:
    """Start a process as `asyncio.create_subprocess_exec` does, which does not return the transport."""
    loop = asyncio.get_running_loop()
    transport, protocol = await loop.subprocess_exec(
        lambda: SubprocessStreamProtocol(limit=_STREAM_LIMIT, loop=loop),
        *command,
        stdin=stdin,
        stdout=PIPE,
        stderr=stderr,
        env=dict(env),
        cwd=cwd,
        start_new_session=True,
    )
    return transport, Process(transport, protocol, loop)


async def _reap(transport: asyncio.SubprocessTransport, process: Process) -> None:
    try:
        async with asyncio.timeout(_REAP_SECONDS):
            await process.wait()
    except TimeoutError:
        _log.error("a killed child process has not ended", process=process.pid)
    transport.close()
