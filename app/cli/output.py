"""The output of commands: tables, sentences, JSON.

With `--json` standard output is pure JSON; otherwise it has tables. Everything else goes to standard error.
Control characters are removed from text that came over the wire, so that the description of an imported tool
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
#: Where output is not a terminal, lines are never wrapped: scripts cut and grep them.
_PIPE_WIDTH = 100_000
#: Seconds between two lines of progress where there is no terminal.
_PROGRESS_SECONDS = 2.0


def clean(value: object) -> str:
    """Return a value as text that is safe on a terminal: each control character becomes U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value))


def cell(value: object) -> str:
    """Return a value as a table cell: lists with commas, None as "", objects as JSON, text on one line."""
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
    """Return a text on one line, cut to `length` characters."""
    line = cell(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


class CommandOutput:
    """The two output streams of one command, taken from `sys` when it starts: tests replace them."""

    def __init__(self, *, json: bool) -> None:
        self.json = json
        self._out = _console(sys.stdout)
        self._err = _console(sys.stderr)

    def document(self, value: Any) -> None:
        """Write a JSON document on standard output."""
        self.raw(orjson.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    def raw(self, content: bytes) -> None:
        """Write bytes on standard output unchanged, and flush it."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def text(self, line: str) -> None:
        """Write a line on standard output, without control characters."""
        self._out.print(Text(clean(line)), soft_wrap=True)

    def note(self, line: str) -> None:
        """Write a line on standard error, without control characters."""
        self._err.print(Text(clean(line)), soft_wrap=True)

    def warn(self, line: str) -> None:
        """Write a line on standard error in yellow, without control characters."""
        self._err.print(Text(clean(line), style="yellow"), soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
        """Write a table on standard output, or a note on standard error where there are no rows."""
        table = Table(box=None, pad_edge=False, header_style="bold")
        for column in columns:
            table.add_column(Text(column), overflow="fold")
        for row in rows:
            table.add_row(*(Text(cell(value)) for value in row))
        if table.row_count == 0:
            self.note("Nothing to show.")
            return
        self._out.print(table)

    def fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Write names and values on standard output, a pair a line; leave out pairs without a value."""
        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value not in (None, "", [], {}):
                table.add_row(Text(name), Text(cell(value)))
        self._out.print(table)

    def problem(self, problem: Mapping[str, Any]) -> None:
        """Write problem details as sentences on standard error, with `--json` also as JSON on stdout."""
        if self.json:
            self.document(problem)
        first, *others = sentences(problem)
        self._err.print(Text.assemble(("Error: ", "bold red"), clean(first)), soft_wrap=True)
        for line in others:
            self._err.print(Text(f"  {clean(line)}"), soft_wrap=True)

    @contextmanager
    def waiting(self, activity: str) -> Iterator[None]:
        """Show `activity` on standard error during a block: a spinner on a terminal, a line elsewhere."""
        if self._err.is_terminal:
            with self._err.status(Text(clean(activity))):
                yield
        else:
            if not self.json:
                self.note(activity)
            yield

    @contextmanager
    def progress(self, activity: str) -> Iterator[Callable[[int, int], None]]:
        """Yield a function of (done, total) that shows progress on standard error."""
        shown_at = time.monotonic()
        if self._err.is_terminal:
            with self._err.status(Text(clean(activity))) as status:
                yield lambda done, total: status.update(Text(clean(f"{activity}: {done:,} of {total:,}")))
            return

        def report(done: int, total: int) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at >= _PROGRESS_SECONDS:
                shown_at = time.monotonic()
                self.note(f"{activity}: {done:,} of {total:,}")

        yield report


def sentences(problem: Mapping[str, Any]) -> list[str]:
    """Return problem details (RFC 9457) as lines: title and detail, field errors, the upstream's response."""
    title = str(problem.get("title") or "Failed").rstrip(".")
    detail = str(problem.get("detail") or "").strip()
    lines = [f"{title}." if detail.rstrip(".") in ("", title) else f"{title}. {detail}"]
    errors = problem.get("errors")
    field_errors = [one for one in errors if isinstance(one, Mapping)] if isinstance(errors, list) else []
    # A single field error often is the whole detail.
    lines += [line for line in map(_field_error, field_errors) if not detail or detail not in line]
    if problem.get("upstream_status") is not None:
        lines.append(f"The upstream responded with HTTP {problem['upstream_status']}.")
    if problem.get("upstream_body") is not None:
        lines.append("Its response: " + shortened(problem["upstream_body"], length=2_000))
    if problem.get("call_id"):
        lines.append(f"Call id: {problem['call_id']}")
    return lines


def _field_error(error: Mapping[str, Any]) -> str:
    pointer = str(error.get("pointer") or "")
    line = f"{pointer}: {error.get('detail')}" if pointer else str(error.get("detail"))
    if error.get("expected") is not None:
        line += f" (expected: {cell(error['expected'])})"
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
