"""Converts documents in a child process, so that no document can block, crash or exhaust the gateway."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from app.core import exact_json
from app.core.errors import FieldError, InvalidDocument, TooLarge
from app.openapi.conversion.results import Conversion, ConvertedTool
from app.openapi.model import ConvertOptions, Json
from app.openapi.process.workers import WorkerProcess, WorkerStarter, start_worker
from app.openapi.report import OperationOutcome

_CHUNK = 256 * 2**10


@dataclass(frozen=True, slots=True)
class ChildLimits:
    """Limits of the child process: address space and output in bytes, CPU and wall-clock time in seconds."""

    memory: int = 4 * 2**30
    cpu_seconds: int = 120
    wall_seconds: float = 120.0
    output_bytes: int = 1 * 2**30


@dataclass(slots=True)
class _ChildOutput:
    """The child's output so far. `head` is the conversion without its tools and their outcomes; None before
    the first line.
    """

    head: Conversion | None = None
    shared: list[Json] = field(default_factory=list)
    tools: list[ConvertedTool] = field(default_factory=list)
    operations: list[OperationOutcome] = field(default_factory=list)

    def add_line(self, line: bytes) -> None:
        """Parse one line of output and add its contents; raise the error that it reports."""
        form: Json = orjson.loads(line)
        if "error" in form:
            raise _read_error(form["error"])
        if "head" in form:
            self.head = Conversion.from_json(form["head"])
        self.shared.extend(form.get("shared", ()))
        for tool in form.get("tools", ()):
            for schema in (tool["inputs"], tool["outputs"]):
                if "$defs" in schema:
                    # As in the child, tools hold the same object, not copies.
                    schema["$defs"] = {name: self.shared[number] for name, number in schema["$defs"].items()}
            self.tools.append(ConvertedTool.from_json(tool))
        self.operations.extend(map(OperationOutcome.from_json, form.get("operations", ())))

    def build_conversion(self) -> Conversion | None:
        """Return the conversion that the lines describe together; None where there were none."""
        if self.head is None:
            return None
        report = replace(self.head.report, operations=tuple(self.operations))
        return replace(self.head, tools=tuple(self.tools), report=report)


async def convert_in_child(
    document: bytes,
    *,
    options: ConvertOptions | None = None,
    limits: ChildLimits | None = None,
    start: WorkerStarter = start_worker,
) -> Conversion:
    """Return `convert(document)`, run in a child process that ends with this call, however the call ends.

    `start` gives the process: a new one by default.

    Raises InvalidDocument (also if the child crashes), or TooLarge at any limit of time, memory or size.
    """
    options, limits = options or ConvertOptions(), limits or ChildLimits()
    if len(document) > options.limits.size:
        # Spares the start of a process.
        raise TooLarge(f"The document has {len(document)} bytes; at most {options.limits.size} are read")
    request = {"options": options.to_json(), "memory": limits.memory, "seconds": limits.cpu_seconds}
    async with start() as child:
        writing = asyncio.create_task(_write_input(child, exact_json.dumps(request) + b"\n", document))
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
    conversion = collected.build_conversion()
    if status != 0 or conversion is None:
        raise _explain_exit(status)
    return conversion


async def _collect(child: WorkerProcess, limits: ChildLimits) -> _ChildOutput:
    collected = _ChildOutput()
    async for line in _read_lines(child, limits.output_bytes):
        collected.add_line(line)
        # A line takes at most some milliseconds; other tasks run in between.
        await asyncio.sleep(0)
    return collected


async def _read_lines(child: WorkerProcess, max_bytes: int) -> AsyncIterator[bytes]:
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


async def _write_input(child: WorkerProcess, request: bytes, document: bytes) -> None:
    if child.stdin is None:
        return
    # A child that has already responded, or was killed, stops reading.
    with contextlib.suppress(BrokenPipeError, ConnectionResetError):
        child.stdin.write(request)
        for start in range(0, len(document), _CHUNK):
            child.stdin.write(document[start : start + _CHUNK])
            await child.stdin.drain()
        # The end of the document: of a pipe this closes it, of a socket its output is still read.
        child.stdin.write_eof()


def _read_error(error: Mapping[str, Any]) -> InvalidDocument | TooLarge:
    kind = TooLarge if error["kind"] == "too-large" else InvalidDocument
    errors = [FieldError(one["pointer"], one["detail"], one["expected"]) for one in error.get("errors", ())]
    return kind(error["detail"], errors=errors)


def _explain_exit(status: int) -> InvalidDocument | TooLarge:
    # SIGXCPU and SIGKILL end a process that took too long. When out of memory, Python exits with a traceback
    # (1), Rust with SIGABRT and orjson 3.13 with SIGSEGV (seen between 150 and 250 MB of address space).
    if status in {1, -signal.SIGXCPU, -signal.SIGKILL, -signal.SIGABRT, -signal.SIGSEGV}:
        return TooLarge("Converting the document takes too much time or memory")
    return InvalidDocument("The document cannot be converted")
