"""The child process of `child.py`: limits itself, converts one document from stdin, writes the result to
stdout.

In:  one line of JSON ({"options", "memory", "seconds"}), then the document to the end of the stream.
Out: JSON lines, so that the parent never parses a large one: {"error": {...}}, or {"head": {...}} followed by
     {"shared": [...]}, {"tools": [...]} and {"operations": [...]} in batches. Only standard output is used.

Tools share most of their definitions, so each is sent once: `$defs` of a tool maps names to indices into all
that was sent as `shared`. For Microsoft Graph beta this halves the time, and the parent's memory (3.7 to 2.1
GB).
"""

import gc
import resource
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, BinaryIO

import orjson

from app.core import exact_json
from app.core.errors import FieldError, GatewayError, InvalidDocument, TooLarge
from app.openapi.conversion.convert import convert
from app.openapi.conversion.results import Conversion, ConvertedTool
from app.openapi.model import ConvertOptions, Json

_BATCH = 128 * 2**10
# The deepest recursion that a document can cause in the parser is far below this.
_RECURSION = 2_000


def limit_files() -> None:
    """Let this process write no files and no core dump; it may wait for its document for a long time."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))


def restrict(*, memory: int, seconds: int) -> None:
    """Limit what converting the document takes: address space in bytes, CPU time in seconds."""
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    sys.setrecursionlimit(_RECURSION)
    # The process converts one document, most of which stays in use: garbage collection finds nothing to free.
    gc.disable()


def convert_lines(document: bytes, *, options: ConvertOptions) -> Iterator[bytes]:
    """Convert the document; yield the lines for the parent."""
    try:
        conversion = convert(document, options=options)
        yield from _list_lines(conversion)
    except (InvalidDocument, TooLarge) as error:
        yield _write_line(error=_write_error(error))
    except MemoryError:
        yield _write_line(
            error={"kind": "too-large", "detail": "Converting the document takes too much memory"}
        )


def _list_lines(conversion: Conversion) -> Iterator[bytes]:
    head = replace(conversion, tools=(), report=replace(conversion.report, operations=()))
    yield _write_line(head=head.to_json())
    shared = _SharedDefinitions()
    for batch in _split_batches("tools", map(shared.refer, conversion.tools)):
        if shared.unsent:
            yield _join_batch("shared", shared.unsent)
            shared.unsent = []
        yield batch
    yield from _split_batches("operations", (one.to_json() for one in conversion.report.operations))


class _SharedDefinitions:
    """Numbers the definitions of all tools; `unsent` are those that were not yet sent to the parent."""

    def __init__(self) -> None:
        self.unsent: list[bytes] = []
        self._numbers: dict[int, int] = {}

    def refer(self, tool: ConvertedTool) -> Json:
        """Return the tool as JSON with numbers in place of its definitions. They are identified by `id()`,
        which is safe because the conversion keeps them alive.
        """
        inputs, outputs = self._number_definitions(tool.inputs), self._number_definitions(tool.outputs)
        return {**tool.to_json(), "inputs": inputs, "outputs": outputs}

    def _number_definitions(self, schema: Json) -> Json:
        if "$defs" not in schema:
            return schema
        return {**schema, "$defs": {name: self._number(one) for name, one in schema["$defs"].items()}}

    def _number(self, definition: Json) -> int:
        number = self._numbers.get(id(definition))
        if number is None:
            number = self._numbers[id(definition)] = len(self._numbers)
            self.unsent.append(exact_json.dumps(definition))
        return number


def _split_batches(kind: str, items: Iterable[Json]) -> Iterator[bytes]:
    batch: list[bytes] = []
    size = 0
    for item in items:
        batch.append(exact_json.dumps(item))
        size += len(batch[-1])
        if size >= _BATCH:
            yield _join_batch(kind, batch)
            batch, size = [], 0
    if batch:
        yield _join_batch(kind, batch)


def _join_batch(kind: str, batch: list[bytes]) -> bytes:
    return b'{"%s":[%s]}\n' % (kind.encode(), b",".join(batch))


def _write_line(**form: Any) -> bytes:
    return exact_json.dumps(form) + b"\n"


def _write_error(error: GatewayError) -> Json:
    errors = [_write_field_error(error) for error in error.errors]
    kind = "too-large" if isinstance(error, TooLarge) else "invalid-document"
    return {"kind": kind, "detail": error.detail, "errors": errors}


def _write_field_error(error: FieldError) -> Json:
    return {"pointer": error.pointer, "detail": error.detail, "expected": error.expected}


def main(incoming: BinaryIO, outgoing: BinaryIO) -> None:
    """Convert the document of one request, and write the result; without a request do nothing."""
    limit_files()
    line = incoming.readline()
    if not line:
        # The gateway has ended, or needs this process no more.
        return
    request = orjson.loads(line)
    restrict(memory=request["memory"], seconds=request["seconds"])
    options = ConvertOptions.from_json(request["options"])
    outgoing.writelines(convert_lines(incoming.read(), options=options))
    outgoing.flush()


if __name__ == "__main__":
    main(sys.stdin.buffer, sys.stdout.buffer)
