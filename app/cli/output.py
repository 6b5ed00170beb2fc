"""The output of commands: tables and sentences for people, and the formats for programs.

In every format but `table`, standard output holds nothing but the value; all else goes to standard error.
Control characters are removed from text that came over the wire, so that the description of an imported tool
cannot send escape sequences to a terminal.
"""

import json
import os
import re
import sys
import time
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from typing import TYPE_CHECKING, Any

import orjson

from app.cli.table_layout import GAP, choose_column_widths, shorten_time
from app.core import exact_json

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

#: C0 and C1 controls but for tab and newline, and the bidirectional overrides that reorder what is read.
_UNSAFE = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
#: Controls, formats such as U+202E, and separators of lines.
_INVISIBLE = frozenset({"Cc", "Cf", "Zl", "Zp"})
#: Where output is not a terminal, lines are never wrapped: scripts cut and grep them.
_PIPE_WIDTH = 100_000
#: The default of seconds between two lines of progress.
PROGRESS_SECONDS = 2.0


_BOLD_RED, _YELLOW, _PLAIN = "\x1b[1;31m", "\x1b[33m", "\x1b[0m"
#: Members that hold the items of a list, and those that name an item; the first that is there counts.
_ITEMS = ("items", "entries", "removed", "revoked", "slots", "series")
_NAMES = ("slot", "id", "name", "value")
#: The columns of times, and how the names of fields with times end.
_TIMES = frozenset({
    "AT", "CERTIFICATE UNTIL", "CONNECTED", "CREATED", "EXPIRES", "LAST USED", "RECORDED", "REQUESTED",
    "TIME", "UPDATED", "USED",
})  # fmt: skip
_TIME_FIELDS = ("_at", " at", "_until", " until", "since", "until")
#: Those that name what an object without a name of its own is about.
_SUBJECTS = ("provider", "tool")


class OutputFormat(StrEnum):
    """The formats of standard output, as `-o` names them."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


def clean(value: object) -> str:
    """Return a value as text that is safe on a terminal: each control character becomes U+FFFD."""
    return _UNSAFE.sub("\ufffd", str(value))


def format_cell(value: object) -> str:
    """Return a value as a table cell: lists with commas, None as "", objects as JSON, text on one line."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Mapping):
        return clean(exact_json.dumps(value).decode())
    if isinstance(value, list | tuple):
        return ", ".join(format_cell(item) for item in value)
    return clean(" ".join(str(value).split()))


def write_json(value: Any, write: Callable[[str], None]) -> None:
    """Write a JSON value with `write`, line by line, so that a terminal shows each of its characters."""
    for line in exact_json.dumps(value, orjson.OPT_INDENT_2).decode().split("\n"):
        write(escape_json(line))


def escape_json(text: str) -> str:
    """Return JSON text in which characters that a terminal does not show are escaped."""
    if text.isascii() and text.isprintable():
        return text
    return "".join(
        json.dumps(character)[1:-1] if unicodedata.category(character) in _INVISIBLE else character
        for character in text
    )


def shorten(text: object, *, length: int = 80) -> str:
    """Return a text on one line, cut to `length` characters."""
    line = format_cell(text)
    return line if len(line) <= length else line[: length - 1].rstrip() + "…"


def list_names(value: Any) -> list[str]:
    """Return what `-o name` writes of a JSON value, a line each: what commands take for each item of a list,
    or for the object itself. That is its id where it has one, else its name, else its provider or tool.
    """
    if isinstance(value, Mapping):
        items = next((value[member] for member in _ITEMS if isinstance(value.get(member), list)), None)
        if items is not None and not any(isinstance(value.get(member), str) for member in _NAMES):
            return list_names(items)
        members = (*_NAMES, *_SUBJECTS)
        return [str(value[member]) for member in members if isinstance(value.get(member), str)][:1]
    if isinstance(value, list):
        return [name for item in value for name in list_names(item)]
    return [] if value is None else [str(value)]


class CommandOutput:
    """The two output streams of one command, taken from `sys` when they are used: tests replace them.

    Where there is no terminal, `progress_seconds` are between two lines of progress.
    """

    def __init__(self, output_format: OutputFormat, *, progress_seconds: float = PROGRESS_SECONDS) -> None:
        self.format = output_format
        self._progress_seconds = progress_seconds

    @property
    def is_structured(self) -> bool:
        """Whether standard output is for a program: `document` is to be used, and neither tables nor text."""
        return self.format is not OutputFormat.TABLE

    def write_document(self, value: Any) -> None:
        """Write a JSON value on standard output in the chosen format; as JSON where that is a table."""
        if self.format is OutputFormat.YAML:
            self.write_raw(_write_yaml(exact_json.without_decimals(value)))
        elif self.format is OutputFormat.NAME:
            self.write_raw("".join(f"{clean(name)}\n" for name in list_names(value)).encode())
        else:
            self.write_raw(exact_json.dumps(value, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE))

    def write_raw(self, content: bytes) -> None:
        """Write bytes on standard output unchanged, and flush it."""
        sys.stdout.buffer.write(content)
        sys.stdout.buffer.flush()

    def write_text(self, line: str) -> None:
        """Write a line on standard output, without control characters."""
        _write(sys.stdout, clean(line))

    def note(self, line: str) -> None:
        """Write a line on standard error, without control characters."""
        _write(sys.stderr, clean(line))

    def warn(self, line: str) -> None:
        """Write a line on standard error in yellow, without control characters."""
        _write(sys.stderr, _colour(sys.stderr, clean(line), _YELLOW))

    def write_table(
        self,
        columns: Sequence[str],
        rows: Iterable[Sequence[object]],
        *,
        importance: Sequence[str] | None = None,
    ) -> None:
        """Write a table on standard output, or a note on standard error where there are no rows.

        With `importance` it is a list with a line for each row, also on a narrow terminal: columns are left
        out there, at first those that `importance` does not name, then its last ones. Where there is no
        terminal, nothing is left out or cut, and times are complete.
        """
        cells = [_format_row(columns, row) for row in rows]
        if not cells:
            self.note("Nothing to show.")
            return
        if importance is None or not sys.stdout.isatty():
            self._out.print(_build_table(columns, cells))
        else:
            self._list(columns, cells, importance)

    def _list(self, columns: Sequence[str], cells: list[list[str]], importance: Sequence[str]) -> None:
        from rich.cells import cell_len

        ranked = [columns.index(name) for name in importance if name in columns]
        ranked += [index for index, name in enumerate(columns) if name not in importance]
        longest = [
            max(map(cell_len, (name, *(row[index] for row in cells)))) for index, name in enumerate(columns)
        ]
        # A part of an id is of no use.
        uncut = {index for index, name in enumerate(columns) if name == "ID"}
        widths = choose_column_widths(longest, ranked, self._out.width, uncut=uncut)
        shown = [[row[index] for index in widths] for row in cells]
        table = _build_table([columns[index] for index in widths], shown)
        for (index, width), column in zip(widths.items(), table.columns, strict=True):
            column.width = width
            if index != ranked[0]:
                column.no_wrap, column.overflow = True, "ellipsis"
        self._out.print(table)
        hidden = [name for index, name in enumerate(columns) if index not in widths]
        if hidden:
            self.note(f"Without {', '.join(hidden)}: a wider terminal or -o json shows it.")

    def write_fields(self, pairs: Iterable[tuple[str, object]]) -> None:
        """Write names and values on standard output, a pair a line; leave out pairs without a value."""
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, pad_edge=False, show_header=False)
        table.add_column(style="bold", no_wrap=True)
        table.add_column(overflow="fold")
        for name, value in pairs:
            if value not in (None, "", [], {}):
                table.add_row(Text(name), Text(_format_cell(value, is_time=name.endswith(_TIME_FIELDS))))
        self._out.print(table)

    def write_line(self, columns: Sequence[str], values: Sequence[object]) -> None:
        """Write the values of a row of a table on a line of standard output."""
        self.write_text("  ".join(_format_row(columns, values)))

    def write_problem(self, problem: Mapping[str, Any]) -> None:
        """Write problem details as sentences on standard error, with `-o json` and `yaml` on stdout, too."""
        if self.format in (OutputFormat.JSON, OutputFormat.YAML):
            self.write_document(problem)
        first, *others = write_sentences(problem)
        _write(sys.stderr, _colour(sys.stderr, "Error: ", _BOLD_RED) + clean(first))
        for line in others:
            _write(sys.stderr, f"  {clean(line)}")

    @contextmanager
    def show_waiting(self, activity: str) -> Iterator[None]:
        """Show `activity` on standard error during a block: a spinner on a terminal, a line elsewhere."""
        if sys.stderr.isatty():
            from rich.text import Text

            with self._err.status(Text(clean(activity))):
                yield
        else:
            if not self.is_structured:
                self.note(activity)
            yield

    @contextmanager
    def show_progress(
        self, activity: str, *, is_announced: bool = False
    ) -> Iterator[Callable[[int, int], None]]:
        """Yield a function of (done, total) that shows progress on standard error: a bar on a terminal, else
        a line every few seconds; with `is_announced`, also one at the start.
        """
        shown_at = time.monotonic()
        if sys.stderr.isatty():
            with _show_bar(self._err, clean(activity)) as show:
                yield show
            return
        if is_announced and not self.is_structured:
            self.note(activity)

        def report(done: int, total: int) -> None:
            nonlocal shown_at
            if time.monotonic() - shown_at >= self._progress_seconds:
                shown_at = time.monotonic()
                self.note(f"{activity}: {done:,} of {total:,}")

        yield report

    @cached_property
    def _out(self) -> "Console":
        return _open_console(sys.stdout)

    @cached_property
    def _err(self) -> "Console":
        return _open_console(sys.stderr)


def _format_row(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    return [_format_cell(value, is_time=name in _TIMES) for name, value in zip(columns, row, strict=True)]


def _format_cell(value: object, *, is_time: bool) -> str:
    text = format_cell(value)
    return shorten_time(text, datetime.now().astimezone()) if is_time and sys.stdout.isatty() else text


def _build_table(columns: Sequence[str], cells: Iterable[Sequence[str]]) -> "Table":
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, GAP, 0, 0), header_style="bold")
    for column in columns:
        table.add_column(Text(column), overflow="fold")
    for row in cells:
        table.add_row(*map(Text, row))
    return table


@contextmanager
def _show_bar(console: "Console", activity: str) -> Iterator[Callable[[int, int], None]]:
    """Show a bar that moves until it is known how much there is to do, and the seconds that have passed."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[counts]}", markup=False),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=console, transient=True) as bars:
        task = bars.add_task(activity, total=None, counts="")

        def report(done: int, total: int) -> None:
            bars.update(task, completed=done, total=total, counts=f"{done:,} of {total:,}")

        yield report


def write_sentences(problem: Mapping[str, Any]) -> list[str]:
    """Return problem details (RFC 9457) as lines: title and detail, field errors, the upstream's response."""
    title = str(problem.get("title") or "Failed").rstrip(".")
    detail = str(problem.get("detail") or "").strip()
    lines = [f"{title}." if detail.rstrip(".") in ("", title) else f"{title}. {detail}"]
    errors = problem.get("errors")
    field_errors = [one for one in errors if isinstance(one, Mapping)] if isinstance(errors, list) else []
    # A single field error often is the whole detail.
    lines += [line for line in map(_write_field_error, field_errors) if not detail or detail not in line]
    if problem.get("upstream_status") is not None:
        lines.append(f"The upstream responded with HTTP {problem['upstream_status']}.")
    if problem.get("upstream_body") is not None:
        lines.append("Its response: " + shorten(problem["upstream_body"], length=2_000))
    if problem.get("call_id"):
        lines.append(f"Call id: {problem['call_id']}")
    return lines


def _write_field_error(error: Mapping[str, Any]) -> str:
    pointer = str(error.get("pointer") or "")
    line = f"{pointer}: {error.get('detail')}" if pointer else str(error.get("detail"))
    if error.get("expected") is not None:
        line += f" (expected: {format_cell(error['expected'])})"
    return line


def _write_yaml(value: Any) -> bytes:
    """Return a JSON value as one YAML 1.1 document, members in their order, text in UTF-8."""
    import yaml

    dumper = getattr(yaml, "CSafeDumper", yaml.SafeDumper)
    text: str = yaml.dump(value, Dumper=dumper, sort_keys=False, allow_unicode=True, width=_PIPE_WIDTH)
    return text.removesuffix("...\n").encode()


def _write(stream: Any, line: str) -> None:
    stream.write(line + "\n")
    stream.flush()


def _colour(stream: Any, text: str, colour: str) -> str:
    """Return a text in a colour, where the stream is a terminal that takes colours (https://no-color.org)."""
    plain = not stream.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") in ("dumb", "unknown")
    return text if plain else f"{colour}{text}{_PLAIN}"


def _open_console(stream: Any) -> "Console":
    from rich.console import Console

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
