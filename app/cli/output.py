"""What people and programs see: tables, sentences, JSON.

Programs get pure JSON on standard output. People get tables there; everything else goes to standard error.
Text that came over the wire is stripped of control characters, so that the description of an imported tool
cannot send escape sequences to a terminal.
"""

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import orjson
from rich.console import Console
from rich.table import Table
from rich.text import Text

#: C0 and C1 controls but for tab and newline, and the bidirectional overrides that reorder what is read.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Where output is not a terminal, lines are never folded: scripts cut and grep them.
_PIPE_WIDTH = 100_000
#: Seconds without a word about something that takes long, where there is no terminal.
_QUIET_SECONDS = 2.0


def clean(value: object) -> str:
    """Text that is safe on a terminal; each control character becomes U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value))


def cell(value: object) -> str:
    """A value as one table cell: lists with commas, None as nothing, objects as JSON, text on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return clean(orjson.dumps(value).decode())
    if isinstance(value, list | tuple):
        return ", ".join(cell(item) for item in value)
    return clean(" ".join(str(value).split()))


def shortened(text: object, *, length: int = 80) -> str:
    """The first `length` characters of a text on one line."""
    line = cell(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


class Output:
    """Both streams of one command; built when the command starts, because tests and pipes replace them."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def document(self, value: Any) -> None:
        """One JSON document on standard output."""
        self.raw(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    def raw(self, content: bytes) -> None:
        """Bytes as they are on standard output, at once."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def text(self, line: str) -> None:
        """One line on standard output, made safe."""
        self._out.print(Text(clean(line)), soft_wrap=True)

    def note(self, line: str) -> None:
        """One line for people, on standard error."""
        self._err.print(Text(clean(line)), soft_wrap=True)

    def warn(self, line: str) -> None:
        """The same, as a warning."""
        self._err.print(Text(clean(line), style="yellow"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """A table on standard output; says so when there is nothing in it."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(Text(column), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        if table.row_count == 0:
            self.note("Nothing to show.")
            return
        self._out.print(table)

    def facts(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Names and values below each other on standard output; pairs without a value are left out."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value not in (None, "", [], {}):
                table.add_row(Text(name), Text(cell(value)))
        self._out.print(table)

    def problem(self, problem: Mapping[str, Any]) -> None:
        """A problem as sentences on standard error; for programs, the document itself on standard output."""
        if self.json:
            self.document(problem)
        first, *others = sentences(problem)
        self._err.print(Text.assemble(("Error: ", "bold red"), clean(first)), soft_wrap=True)
        for line in others:
            self._err.print(Text(f"  {clean(line)}"), soft_wrap=True)

    @contextmanager
    def waiting(self, what: str) -> Iterator[None]:
        """A spinner on standard error while something takes long; a plain line without a terminal."""
        if self._err.is_terminal:
            with self._err.status(Text(clean(what))):
                yield
        else:
            if not self.json:
                self.note(what)
            yield

    @contextmanager
    def progress(self, what: str) -> Iterator[Callable[[int, int], None]]:
        """A count on standard error while something takes long: always on a terminal, else now and then."""
        started = [time.monotonic()]
        if self._err.is_terminal:
            with self._err.status(Text(clean(what))) as status:
                yield lambda done, of: status.update(Text(clean(f"{what}: {done:,} of {of:,}")))
            return

        def told(done: int, of: int) -> None:
            if time.monotonic() - started[0] >= _QUIET_SECONDS:
                started[0] = time.monotonic()
                self.note(f"{what}: {done:,} of {of:,}")

        yield told


def sentences(problem: Mapping[str, Any]) -> list[str]:
    """Problem details (RFC 9457) as lines: title and detail, each pointer, and what the upstream said."""
    title = str(problem.get("title") or "Failed").rstrip(".")
    detail = str(problem.get("detail") or "").strip()
    lines = [f"{title}." if detail.rstrip(".") in ("", title) else f"{title}. {detail}"]
    errors = problem.get("errors")
    faults = [fault for fault in errors if isinstance(fault, Mapping)] if isinstance(errors, list) else []
    # A single fault often is the whole detail.
    lines += [line for line in map(_fault, faults) if not detail or detail not in line]
    if problem.get("upstream_status") is not None:
        lines.append(f"The upstream answered HTTP {problem['upstream_status']}.")
    if problem.get("upstream_body") is not None:
        lines.append("It said: " + shortened(problem["upstream_body"], length=2_000))
    if problem.get("call_id"):
        lines.append(f"Call id: {problem['call_id']}")
    return lines


def _fault(fault: Mapping[str, Any]) -> str:
    pointer = str(fault.get("pointer") or "")
    line = f"{pointer}: {fault.get('detail')}" if pointer else str(fault.get("detail"))
    if fault.get("expected") is not None:
        line += f" (expected: {cell(fault['expected'])})"
    return line


def _console(stream: Any) -> Console:
    if stream.isatty():
        return Console(file=stream, highlight=False)
    return Console(
        file=stream,
        highlight=False,
        width=_PIPE_WIDTH,
        force_terminal=False,
        color_system=None,
        no_color=True,
    )
