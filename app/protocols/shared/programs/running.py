"""One running program: its process group, its output and its exit."""

import asyncio
import contextlib
import errno
import json
import os
import sys
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.core.errors import InvalidArguments, UpstreamUnreachable
from app.core.processes import close_pipes, kill_group
from app.protocols.shared.programs.rules import ProgramRules, is_path

TAIL: Final = 16 * 1024
"""Bytes of the end of standard error that are retained."""

_LAUNCHER: Final = str(Path(__file__).with_name("launch.py"))
_READ_AHEAD: Final = 64 * 1024
# The longest word that Linux accepts (MAX_ARG_STRLEN), its final NUL included.
_MAX_WORD_LENGTH: Final = 128 * 1024 - 1
_LAST_READ_SECONDS: Final = 0.5


@dataclass(frozen=True, slots=True)
class ProgramCommand:
    """A program to start.

    `argv` begins with the program's absolute path; `folder` is an absolute path without links. With
    `reads_input` its standard input is what `RunningProgram.write` is given, otherwise /dev/null.
    `cpu_seconds` is its limit of processor time; None means no limit.
    """

    argv: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    folder: str = "/"
    cpu_seconds: int | None = None
    reads_input: bool = False


class RunningProgram(asyncio.SubprocessProtocol):
    """A program and its process group, which is killed with it. Read its output to the end, or `kill` it."""

    def __init__(self, report_reader: int) -> None:
        self._report = report_reader
        self._failure: str | None = None
        self._transport: Any = None
        self._pieces: deque[bytes] = deque()
        self._buffered = 0
        self._paused = False
        self._at_end = False
        self._killed = False
        self._silent = True
        self._writable = asyncio.Event()
        self._writable.set()
        self._changed = asyncio.Event()
        self._stderr_ended = asyncio.Event()
        self.ended = asyncio.Event()
        """Set when the program has ended."""
        self.tail = b""
        """The end of what it wrote to standard error."""

    @property
    def exit_code(self) -> int | None:
        """The exit code; None while the program runs, minus the number of the signal that ended it."""
        code: int | None = self._transport.get_returncode()
        return code

    @property
    def failure(self) -> str | None:
        """The reason why the program could not be started, None if it was; known once it has ended."""
        return self._failure

    async def read(self) -> bytes:
        """Return the next piece of standard output; b"" at its end."""
        while not self._pieces and not self._at_end:
            self._changed.clear()
            await self._changed.wait()
        if not self._pieces:
            return b""
        piece = self._pieces.popleft()
        self._buffered -= len(piece)
        if self._paused and self._buffered < _READ_AHEAD:
            self._paused = False
            output = self._transport.get_pipe_transport(1)
            if output is not None:
                output.resume_reading()
        return piece

    async def final_tail(self) -> bytes:
        """Return the end of standard error; of a program that has ended, once all of it has arrived.

        That takes at most half a second: a process that has left its group may hold the pipe open.
        """
        if self.ended.is_set():
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LAST_READ_SECONDS):
                    await self._stderr_ended.wait()
        return self.tail

    async def write(self, data: bytes) -> None:
        """Write to standard input, and wait until the pipe accepts more.

        Raise BrokenPipeError where the program has ended or does not read.
        """
        source = self._transport.get_pipe_transport(0)
        if source is None or self.ended.is_set() or source.is_closing():
            raise BrokenPipeError
        source.write(data)
        await self._writable.wait()

    def kill(self) -> None:
        """Kill the program and its process group. Idempotent."""
        self._killed = True
        self._end_output()
        if self.ended.is_set():
            self._close()
        else:
            kill_group(self._transport.get_pid())

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        if fd == 2:
            self.tail = (self.tail + data)[-TAIL:]
            return
        if self._at_end:
            return
        self._silent = False
        self._pieces.append(data)
        self._buffered += len(data)
        if self._buffered >= _READ_AHEAD and not self._paused:
            self._paused = True
            self._transport.get_pipe_transport(1).pause_reading()
        self._changed.set()

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's.
        if fd == 1:
            self._at_end = True
            self._changed.set()
        elif fd == 0:
            self._writable.set()
        else:
            self._stderr_ended.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def process_exited(self) -> None:
        # Other processes of its group end with it. The group has its process id as long as there are any.
        kill_group(self._transport.get_pid())
        with contextlib.suppress(OSError):
            self._failure = os.read(self._report, 1024).decode("utf-8", "replace") or None
        os.close(self._report)
        self._writable.set()
        self.ended.set()
        if self._killed:
            self._close()
        else:
            self._schedule_last_read()

    def _schedule_last_read(self) -> None:
        self._silent = True
        asyncio.get_running_loop().call_later(_LAST_READ_SECONDS, self._end_last_read)

    def _end_last_read(self) -> None:
        """Stop reading once the pipe is silent: a process that has left the group may hold it open."""
        if self._at_end or (self._silent and not self._paused):
            self._end_output()
            self._close()
        else:
            self._schedule_last_read()

    def _end_output(self) -> None:
        self._at_end = True
        if self._killed:
            self._pieces.clear()
        self._changed.set()

    def _close(self) -> None:
        # A process that has left the group may hold the other ends, and neither read nor write.
        close_pipes(self._transport)
        self._transport.close()


async def start_program(command: ProgramCommand, rules: ProgramRules) -> RunningProgram:
    """Start a program and return it; it must be read to its end or killed.

    Raise InvalidArguments for words that are too long or hold NUL, InvalidInput for PROGRAM_USER, and
    UpstreamUnreachable where it is known at once that it cannot be started.
    """
    _check(command)
    account = rules.account()
    settings = rules.settings
    limits = {
        "AS": settings.program_memory_bytes,
        "FSIZE": settings.program_file_bytes,
        "NOFILE": settings.program_open_files,
        "CORE": 0,
    }
    if command.cpu_seconds is not None:
        limits["CPU"] = command.cpu_seconds
    report_reader, report_writer = os.pipe()
    os.set_blocking(report_reader, False)
    launch_options = {
        "limits": limits,
        "processes": settings.program_processes,
        "user": None if account is None else account.user,
        "group": None if account is None else account.group,
        "folder": command.folder,
        "report": report_writer,
    }
    return await _spawn(command, json.dumps(launch_options), report_reader, report_writer)


async def _spawn(
    command: ProgramCommand, launch_options: str, report_reader: int, report_writer: int
) -> RunningProgram:
    loop = asyncio.get_running_loop()
    starting = asyncio.ensure_future(
        loop.subprocess_exec(
            lambda: RunningProgram(report_reader),
            *(sys.executable, "-I", "-S", _LAUNCHER, launch_options, *command.argv),
            stdin=asyncio.subprocess.PIPE if command.reads_input else asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=dict(command.environment),
            cwd="/",
            start_new_session=True,
            pass_fds=(report_writer,),
        )
    )

    def started(_: object) -> None:
        os.close(report_writer)
        if starting.cancelled() or starting.exception() is not None:
            os.close(report_reader)

    starting.add_done_callback(started)
    try:
        # A cancelled start would leave it to the loop, which knows nothing of groups.
        _, running = await asyncio.shield(starting)
    except asyncio.CancelledError:
        starting.add_done_callback(_kill_started)
        raise
    except OSError as error:
        if error.errno == errno.E2BIG:
            raise InvalidArguments("The arguments are too long for a command line.") from None
        raise UpstreamUnreachable("The program could not be started.", request_sent=False) from None
    return running


def _kill_started(starting: "asyncio.Task[tuple[Any, RunningProgram]]") -> None:
    if not starting.cancelled() and starting.exception() is None:
        starting.result()[1].kill()


def _check(command: ProgramCommand) -> None:
    for word in (*command.argv, *command.environment.values()):
        if not is_path(word):
            raise InvalidArguments("A program's arguments and environment cannot hold U+0000.")
        if len(word.encode("utf-8", "surrogateescape")) > _MAX_WORD_LENGTH:
            raise InvalidArguments(f"A word of a command has at most {_MAX_WORD_LENGTH} bytes.")
