"""Names of properties for dialects that do not have all names."""

import hashlib
import re
from collections.abc import Iterator
from typing import Any, Final

from app.formats.json_schema.references import MAPS, VALUES

Schema = dict[str, Any]

_MAX_NAME: Final = 40


def choose_property_aliases(schema: Schema, pattern: str | None) -> dict[str, str]:
    """Return other names of the properties whose own names the dialect does not have."""
    if pattern is None:
        return {}
    names = list(dict.fromkeys(_list_property_names(schema, 0)))
    expression = re.compile(pattern)
    taken = {name for name in names if expression.fullmatch(name)}
    result: dict[str, str] = {}
    for name in names:
        if name in taken:
            continue
        alias = re.sub(r"[^a-zA-Z0-9_]+", "_", name).strip("_")[:_MAX_NAME]
        if not expression.fullmatch(alias):
            alias = f"p_{alias}"
        if alias in taken:
            alias = f"{alias}_{hashlib.sha256(name.encode()).hexdigest()[:6]}"
        taken.add(alias)
        result[name] = alias
    return result


def _list_property_names(node: Any, depth: int) -> Iterator[str]:
    if not isinstance(node, dict):
        return
    for key, value in node.items():
        if key in VALUES:
            continue
        if key == "required" and isinstance(value, list):
            yield from (name for name in value if isinstance(name, str))
        if key == "properties" and isinstance(value, dict):
            yield from value
        if key in MAPS and isinstance(value, dict):
            for member in value.values():
                yield from _list_property_names(member, depth + 1)
        elif isinstance(value, list):
            for member in value:
                yield from _list_property_names(member, depth + 1)
        else:
            yield from _list_property_names(value, depth + 1)
