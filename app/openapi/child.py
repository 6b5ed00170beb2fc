"""Converts documents in a child process, so that no document can block, crash or exhaust the gateway."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import orjson

import app
from app.errors import FieldError, InvalidDocument, TooLarge
from app.openapi.model import Conversion, ConvertedTool, ConvertOptions, Json
from app.processes import child_process

_CHUNK = 256 * 2**10
_ROOT = str(Path(app.__file__).parent.parent)
# The child gets no settings, keys or proxies, so it cannot leak any.
_PASSED_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "SYSTEMROOT", "TZ", "VIRTUAL_ENV")


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of the child process: address space and output in bytes, CPU and wall-clock time in seconds."""

    memory: int = 4 * 2**30
    cpu_seconds: int = 120
    wall_seconds: float = 120.0
    output_bytes: int = 1 * 2**30


@dataclass(slots=True)
class _ChildOutput:
    """The child's output so far."""

    head: Json = field(default_factory=dict)
    shared: list[Json] = field(default_factory=list)
    tools: list[ConvertedTool] = field(default_factory=list)
    operations: list[Json] = field(default_factory=list)

    def add_line(self, line: bytes) -> None:
        """Parse one line of output and add its contents; raise the error that it reports."""
        form: Json = orjson.loads(line)
        if "error" in form:
            raise _error_from(form["error"])
        self.head = form.get("head", self.head)
        self.shared.extend(form.get("shared", ()))
        for tool in form.get("tools", ()):
            for schema in (tool["inputs"], tool["outputs"]):
                if "$defs" in schema:
                    # As in the child, tools hold the same object, not copies.
                    schema["$defs"] = {name: self.shared[number] for name, number in schema["$defs"].items()}
            self.tools.append(ConvertedTool.from_json(tool))
        self.operations.extend(form.get("operations", ()))

    def conversion(self) -> Conversion:
        """Return the conversion that the lines describe together."""
        report = {**self.head["report"], "operations": self.operations}
        empty = Conversion.from_json({**self.head, "tools": [], "report": report})
        return replace(empty, tools=tuple(self.tools))


async def convert_in_child(
    document: bytes, *, options: ConvertOptions | None = None, limits: ChildLimits | None = None
) -> Conversion:
    """Return `convert(document)`, run in a child process that ends with this call, however the call ends.

    Raises InvalidDocument (also if the child crashes), or TooLarge at any limit of time, memory or size.
    """
    options, limits = options or ConvertOptions(), limits or ChildLimits()
    if len(document) > options.limits.size:
        # Spares the start of a process.
        raise TooLarge(f"The document has {len(document)} bytes; at most {options.limits.size} are read")
    request = {"options": options.to_json(), "memory": limits.memory, "seconds": limits.cpu_seconds}
    command = (sys.executable, "-m", "app.openapi.worker")
    async with child_process(*command, env=_environment(os.environ), stdin=asyncio.subprocess.PIPE) as child:
        writing = asyncio.create_task(_write_input(child, orjson.dumps(request) + b"\n", document))
        try:
            async with asyncio.timeout(limits.wall_seconds):
                collected = await _collect(child, limits)
                status = await child.wait()
        except TimeoutError:
            raise TooLarge(
                f"Converting the document takes more than {limits.wall_seconds:g} seconds"
            ) from None
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
    if status != 0 or not collected.head:
        raise _exit_error(status)
    return collected.conversion()


async def _collect(child: asyncio.subprocess.Process, limits: ChildLimits) -> _ChildOutput:
    collected = _ChildOutput()
    async for line in _lines(child, limits.output_bytes):
        collected.add_line(line)
        # A line takes at most some milliseconds; other tasks run in between.
        await asyncio.sleep(0)
    return collected


async def _lines(child: asyncio.subprocess.Process, max_bytes: int) -> AsyncIterator[bytes]:
    if child.stdout is None:
        return
    pending: list[bytes] = []
    total = 0
    while chunk := await child.stdout.read(_CHUNK):
        total += len(chunk)
        if total > max_bytes:
            raise TooLarge("The tools of the document are too large together")
        *complete, rest = chunk.split(b"\n")
        for part in complete:
            yield b"".join([*pending, part])
            pending = []
        pending.append(rest)


async def _write_input(child: asyncio.subprocess.Process, request: bytes, document: bytes) -> None:
    if child.stdin is None:
        return
    # A child that has already responded, or was killed, stops reading.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(request)
        for start in range(0, len(document), _CHUNK):
            child.stdin.write(document[start : start + _CHUNK])
            await child.stdin.drain()
        child.stdin.close()


def _environment(ours: Mapping[str, str]) -> dict[str, str]:
    passed = {name: ours[name] for name in _PASSED_ENVIRONMENT if name in ours}
    paths = [_ROOT, *(path for path in sys.path if path and path != _ROOT)]
    return {**passed, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1"}


def _error_from(error: Mapping[str, Any]) -> InvalidDocument | TooLarge:
    kind = TooLarge if error["kind"] == "too-large" else InvalidDocument
    errors = [FieldError(error["pointer"], error["detail"]) for error in error.get("errors", ())]
    return kind(error["detail"], errors=errors)


def _exit_error(status: int) -> InvalidDocument | TooLarge:
    # SIGXCPU and SIGKILL end a process that took too long. When out of memory, Python exits with a traceback
    # (1), Rust with SIGABRT and orjson 3.13 with SIGSEGV (seen between 150 and 250 MB of address space).
    if status in {1, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV}:
        return TooLarge("Converting the document takes too much time or memory")
    return InvalidDocument("The document cannot be converted")
