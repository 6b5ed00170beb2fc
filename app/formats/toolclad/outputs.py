"""The built-in parsers: raw output -> results, as JSON values."""

import csv
import io
import math
from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.exact_json import load_exactly
from app.formats.xml.parser import InvalidXml, XmlElement, parse_xml

MAX_OUTPUT_BYTES: Final = 16 << 20
"""Bytes of output that are parsed; a call with more of it fails."""
_MAX_ROWS: Final = 1_000_000
_MAX_INTEGER_DIGITS: Final = 18


class UnreadableOutput(ValueError):
    """Output that is not in its format; the message contains none of it."""


def parse_output(raw: bytes, parser: str) -> Any:
    """Return the results of output; raise UnreadableOutput."""
    return _PARSERS[parser](raw)


def decode_output(raw: bytes) -> str:
    """Return output as text; bytes that are not UTF-8 become U+FFFD, and U+0000, too."""
    return raw.decode("utf-8", "replace").replace("\x00", "\ufffd")


def _parse_text(raw: bytes) -> Any:
    return {"raw_output": decode_output(raw)}


def _parse_json(raw: bytes) -> Any:
    try:
        return load_exactly(raw.strip())
    except (ValueError, RecursionError):
        msg = "The output is not JSON."
        raise UnreadableOutput(msg) from None


def _parse_json_lines(raw: bytes) -> Any:
    results = []
    for number, line in enumerate(raw.splitlines(), 1):
        if not line.strip():
            continue
        try:
            results.append(load_exactly(line))
        except (ValueError, RecursionError):
            msg = f"Line {number} of the output is not JSON."
            raise UnreadableOutput(msg) from None
    return results


def _parse_csv(raw: bytes) -> Any:
    text = decode_output(raw).removeprefix("\ufeff")
    header = text.partition("\n")[0]
    delimiter = "\t" if "\t" in header else "|" if "|" in header and "," not in header else ","
    try:
        rows = list(csv.reader(io.StringIO(text), delimiter=delimiter))
    except csv.Error:
        msg = "The output is not CSV."
        raise UnreadableOutput(msg) from None
    rows = [row for row in rows if row]
    if not rows:
        return []
    names = [name.strip() for name in rows[0]]
    if len(set(names)) < len(names) or len(rows) * max(len(names), 1) > _MAX_ROWS:
        msg = "The output has two columns of one name, or too many values."
        raise UnreadableOutput(msg)
    return [
        {name: _convert_cell(row[index]) if index < len(row) else None for index, name in enumerate(names)}
        for row in rows[1:]
    ]


def _convert_cell(cell: str) -> Any:
    text = cell.strip()
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    if not text[:1].isdecimal() and text[:1] not in ("-", "+", "."):
        return text
    digits = text.lstrip("+-")
    if digits.isascii() and digits.isdecimal():
        return int(text) if len(digits) <= _MAX_INTEGER_DIGITS else text
    try:
        number = float(text)
    except ValueError:
        return text
    return number if math.isfinite(number) and "_" not in text else text


def _parse_xml(raw: bytes) -> Any:
    try:
        root = parse_xml(raw.strip())
    except InvalidXml as error:
        raise UnreadableOutput(str(error)) from None
    return {root.name: _convert_element(root)}


def _convert_element(element: XmlElement) -> dict[str, Any]:
    """Return `{"@attribute", "#text", child}`; children of one name are a list."""
    found: dict[str, Any] = {f"@{name}": value for name, value in element.attributes.items()}
    text = element.text.strip()
    if text:
        found["#text"] = text
    children: dict[str, list[Any]] = {}
    for child in element.children:
        children.setdefault(child.name, []).append(_convert_element(child))
    return found | {name: members[0] if len(members) == 1 else members for name, members in children.items()}


_PARSERS: Final[Mapping[str, Callable[[bytes], Any]]] = {
    "builtin:text": _parse_text,
    "builtin:json": _parse_json,
    "builtin:jsonl": _parse_json_lines,
    "builtin:csv": _parse_csv,
    "builtin:xml": _parse_xml,
}
