"""Results within a budget: projected, in the form that a model wants, and cut by items rather than bytes."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Literal

from app.calls.results.model import ModelResult, ResultBudget, ResultFormat
from app.calls.results.projection import project
from app.calls.results.tables import recognise_table, render
from app.core.exact_json import dumps as write
from app.core.exact_json import load_exactly as parse

_NOTES_BYTES: Final = 400
"""Bytes of the limit that are left for the notes."""
_MAX_DEPTH: Final = 3
_MAX_CHARACTER_BYTES: Final = 4
_MAX_COMPRESSION: Final = 16
"""How many times smaller than JSON a table is at most, as far as it matters here."""
_TABLES: Final[frozenset[ResultFormat]] = frozenset({"toon", "markdown", "csv"})


@dataclass(frozen=True, slots=True)
class Rest:
    """What was cut: the items of a list as JSON, or the end of a text."""

    kind: Literal["items", "text"]
    content: bytes


@dataclass(slots=True)
class _Cut:
    """The text within the limit, its JSON where it is JSON, the rest, and what the notes say of it."""

    text: str
    body: bytes | None
    rest: Rest | None = None
    note: str = ""
    table_format: ResultFormat | None = None


def is_within(read: ModelResult, budget: ResultBudget) -> bool:
    """Return whether a result needs no more to be within the budget, by a bound of its size: the common case.

    Where it returns False, `apply_budget` decides.
    """
    if read.notes or budget.fields or budget.format not in (None, "json"):
        return False
    limit = budget.limit
    return limit is None or len(read.text) * _MAX_CHARACTER_BYTES <= limit


def apply_budget(read: ModelResult, budget: ResultBudget) -> tuple[list[str], Rest | None]:
    """Bring a successful result into the budget, in place; return sentences about that, and what was cut.

    `text` gets no notes here. It takes about 100 us per KiB of JSON that is cut or projected.
    """
    if read.media and not read.parts:
        return [], None
    # The notes so far are written again once the text is within the budget.
    read.text, read.content = read.content or read.text, ""
    limit = budget.limit
    is_small = limit is None or len(read.text.encode()) <= limit
    if is_small and not budget.fields and budget.format in (None, "json"):
        return [], None
    read.parts = ()
    room = None if limit is None else max(limit - _NOTES_BYTES, limit // 2)
    notes: list[str] = []
    value: Any = None
    if read.body is not None:
        try:
            value = parse(read.body)
            # What is nested more deeply than can be written is cut as a text.
            write(value)
        except (ValueError, TypeError, RecursionError):
            read.body = None
    if read.body is None:
        if budget.fields or budget.format in _TABLES:
            notes.append("The response is not JSON: it has no fields, and is no table.")
        cut = _cut_text(read.text, room) if room is not None and not is_small else _Cut(read.text, None)
    else:
        if budget.fields:
            value, missing = project(value, budget.fields)
            notes += [f"No part of the response is at {one}." for one in missing]
        cut = _cut_value(value, budget.format, room, notes)
    read.text, read.body, read.table_format = cut.text or "(nothing)", cut.body, cut.table_format
    if cut.note:
        notes.append(cut.note)
    return notes, cut.rest


def _cut_value(value: Any, form: ResultFormat | None, room: int | None, notes: list[str]) -> _Cut:
    """Return a JSON value in a form, cut to `room` bytes."""
    write_value = _choose_writer(value, form, notes)
    whole = write_value(value)
    if room is None or len(whole.encode()) <= room:
        return _build_cut(whole, value, form)
    longest = _find_longest_list(value)
    if longest is not None:
        path, items = longest
        count = _count_fitting(
            items, lambda number: write_value(_replace_list(value, path, items[:number])), room
        )
        if count:
            kept = _replace_list(value, path, items[:count])
            where = f" of the list at {path_text}" if (path_text := _format_pointer(path)) else ""
            cut = _build_cut(write_value(kept), kept, form)
            cut.rest = Rest("items", write(items[count:]))
            cut.note = f"The result was cut: it has the first {count} of {len(items)} items{where}."
            return cut
    # A part of JSON can be told from its beginning, a part of a table cannot.
    return _cut_text(write(value).decode(), room)


def _build_cut(text: str, value: Any, form: ResultFormat | None) -> _Cut:
    if form in _TABLES and recognise_table(value) is not None:
        return _Cut(text, None, table_format=form)
    return _Cut(text, text.encode())


def _choose_writer(value: Any, form: ResultFormat | None, notes: list[str]) -> Callable[[Any], str]:
    if form in _TABLES:
        if recognise_table(value) is not None:
            return lambda part: _render_value(part, form)
        notes.append(f"The response is no table, so it is JSON in place of {form}.")
    return lambda part: write(part).decode()


def _render_value(value: Any, form: ResultFormat | None) -> str:
    table = recognise_table(value)
    return write(value).decode() if table is None or form is None else render(table, form)


def _cut_text(text: str, room: int) -> _Cut:
    """Cut a text to `room` bytes, at the end of a line or of a word where there is one near."""
    encoded = text.encode()
    if len(encoded) <= room:
        return _Cut(text, None)
    kept = encoded[:room]
    for separator in (b"\n", b" "):
        end = kept.rfind(separator)
        if end >= room * 3 // 4:
            kept = kept[: end + 1]
            break
    beginning = kept.decode("utf-8", "ignore")
    rest = encoded[len(beginning.encode()) :]
    note = f"The result was cut: {len(rest):,} of {len(encoded):,} bytes of its text are left out."
    return _Cut(beginning, None, Rest("text", rest), note)


def _find_longest_list(value: Any) -> tuple[tuple[str, ...], list[Any]] | None:
    """Return the list with the largest items in a value, and the names of the members that lead to it."""
    lists: list[tuple[int, tuple[str, ...], list[Any]]] = []
    pending: list[tuple[tuple[str, ...], Any]] = [((), value)]
    while pending:
        path, node = pending.pop()
        if isinstance(node, list):
            if node:
                lists.append((len(write(node)), path, node))
        elif isinstance(node, dict) and len(path) < _MAX_DEPTH:
            pending += [((*path, name), member) for name, member in node.items()]
    if not lists:
        return None
    _, path, items = max(lists, key=lambda sized_list: sized_list[0])
    return path, items


def _replace_list(value: Any, path: tuple[str, ...], items: list[Any]) -> Any:
    if not path:
        return items
    return {**value, path[0]: _replace_list(value[path[0]], path[1:], items)}


def _count_fitting(items: list[Any], written: Callable[[int], str], room: int) -> int:
    """Return how many of the items fit into `room` bytes, by a binary search."""
    low, high, size = 0, 0, 0
    while high < len(items) and size <= room * _MAX_COMPRESSION:
        size += len(write(items[high]))
        high += 1
    while low < high:
        middle = (low + high + 1) // 2
        if len(written(middle).encode()) <= room:
            low = middle
        else:
            high = middle - 1
    return low


def _format_pointer(path: tuple[str, ...]) -> str:
    return "".join("/" + name.replace("~", "~0").replace("/", "~1") for name in path)
