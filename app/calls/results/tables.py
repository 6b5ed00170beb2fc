"""Tables for models: lists of objects as CSV, Markdown or TOON, which repeat no names of members."""

import csv
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from app.calls.results.model import ResultFormat
from app.core.exact_json import dumps as write

_MAX_COLUMNS: Final = 200
_MAX_EMPTY: Final = 100_000
"""Cells without a value up to which rows are a table, or as many as there are with one, ten times."""
# A text that TOON would read as something else (TOON specification, section 7.2).
_TOON_QUOTED: Final = re.compile(r'^$|^\s|\s$|^(?:true|false|null)$|^-|^[0-9.+]|[,:"\\\[\]{}\x00-\x1f]')
_TOON_KEY: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")


@dataclass(frozen=True, slots=True)
class Table:
    """The rows of a value that is a table: a list of objects, or an object of which it is the only list.

    `name` is the member with the rows, "" where the value is the list; `others` are the other members.
    """

    name: str
    rows: Sequence[Mapping[str, Any]]
    others: Mapping[str, Any]
    columns: Sequence[str]


def recognise_table(value: Any) -> Table | None:
    """Return the table that a JSON value is; None where it is none."""
    if isinstance(value, list):
        return _build_table("", value, {})
    if not isinstance(value, dict):
        return None
    lists = [name for name, member in value.items() if isinstance(member, list)]
    if len(lists) != 1:
        return None
    others = {name: member for name, member in value.items() if name != lists[0]}
    return _build_table(lists[0], value[lists[0]], others)


def _build_table(name: str, rows: list[Any], others: Mapping[str, Any]) -> Table | None:
    if not rows or not all(isinstance(row, dict) for row in rows):
        return None
    columns = list(dict.fromkeys(key for row in rows for key in row))
    if not columns or len(columns) > _MAX_COLUMNS:
        return None
    filled = sum(len(row) for row in rows)
    if len(rows) * len(columns) - filled > max(_MAX_EMPTY, 10 * filled):
        # Written with all of its empty cells, it would be many times larger than the JSON.
        return None
    return Table(name, rows, others, columns)


def render(table: Table, form: ResultFormat) -> str:
    """Return a table as text; its other members are a line of JSON before it."""
    before = f"{write(table.others).decode()}\n\n" if table.others else ""
    if form == "csv":
        return before + _render_csv(table)
    if form == "markdown":
        return before + _render_markdown(table)
    return before + _render_toon(table)


def _render_csv(table: Table) -> str:
    """Return CSV (RFC 4180) with line feeds; a value that is no text is JSON, and null is empty."""
    output = io.StringIO()
    writer = csv.writer(output, lineterminator="\n")
    writer.writerow(table.columns)
    for row in table.rows:
        writer.writerow([_render_cell(row.get(column)) for column in table.columns])
    return output.getvalue()


def _render_markdown(table: Table) -> str:
    lines = [table.columns, ["---"] * len(table.columns)]
    lines += [[_render_cell(row.get(column)) for column in table.columns] for row in table.rows]
    return "".join(f"| {' | '.join(_escape_cell(cell) for cell in line)} |\n" for line in lines)


def _escape_cell(cell: str) -> str:
    return cell.replace("\\", "\\\\").replace("|", "\\|").replace("\r", "").replace("\n", "<br>")


def _render_toon(table: Table) -> str:
    """Return the tabular array of TOON: `name[2]{id,title}:` and a line for each row."""
    names = ",".join(_render_toon_key(column) for column in table.columns)
    head = f"{_render_toon_key(table.name) if table.name else ''}[{len(table.rows)}]{{{names}}}:\n"
    rows = (",".join(_render_toon_cell(row.get(column)) for column in table.columns) for row in table.rows)
    return head + "".join(f"  {row}\n" for row in rows)


def _render_toon_key(name: str) -> str:
    return name if _TOON_KEY.fullmatch(name) else write(name).decode()


def _render_toon_cell(value: Any) -> str:
    if isinstance(value, str):
        return write(value).decode() if _TOON_QUOTED.search(value) else value
    if isinstance(value, dict | list):
        return write(write(value).decode()).decode()
    return write(value).decode()


def _render_cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else write(value).decode()
