"""Signatures: the inputs of a tool on one line, for people and models that choose among many tools.

    getBook(id*: integer, lang: "en"/"de", tags: string[], near: {lat*: number, lon*: number})

A star marks what is required. The notation is ours; it follows the type syntax of TypeScript where that has
a short form.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final

MAX_SIGNATURE: Final = 300
"""Characters of a signature at most; optional inputs that do not fit are left out, which `...` shows."""

_MAX_DEPTH: Final = 3
_MAX_VALUES: Final = 6
_MAX_VALUE: Final = 40
_MAX_ALTERNATIVES: Final = 4
_MAX_TYPE: Final = 120
_MAX_TYPES: Final = 2_000
"""Types of nested schemas that are read for one signature: references to references double at each step."""
_PLAIN_NAME: Final = re.compile(r"[^\W\d][\w.-]*")
_SCALARS: Final = ("string", "integer", "number", "boolean", "null")
_FORMATS: Final = frozenset(
    {"date", "date-time", "time", "duration", "email", "uri", "uuid", "byte", "binary"}
)


def write_signature(name: str, inputs: Mapping[str, Any]) -> str:
    """Return the signature of a tool with these inputs (JSON Schema): one line of at most 300 characters,
    as far as the required inputs allow that. Any schema has one; what it does not say is `any`.
    """
    members = _write_members(inputs, _Source(inputs), 0)
    required = [text for is_required, text in members if is_required]
    optional = [text for is_required, text in members if not is_required]
    shown = list(required)
    room = MAX_SIGNATURE - len(name) - len("(, ...)") - sum(len(text) + 2 for text in required)
    for text in optional:
        room -= len(text) + 2
        if room < 0:
            shown.append("...")
            break
        shown.append(text)
    return f"{name}({', '.join(shown)})"


@dataclass(slots=True)
class _Source:
    """The schema that references are resolved in, and how many more nested types are read."""

    root: Mapping[str, Any]
    left: int = _MAX_TYPES


def _write_members(schema: Mapping[str, Any], source: _Source, depth: int) -> list[tuple[bool, str]]:
    """Return the members of an object as texts, each with whether it is required; these come first."""
    properties = schema.get("properties")
    if not isinstance(properties, Mapping):
        return []
    listed = schema.get("required")
    required = {name for name in listed if isinstance(name, str)} if isinstance(listed, list) else set()
    members = [
        (
            name in required,
            f"{_name(name)}{'*' if name in required else ''}: {_write_type(member, source, depth)}",
        )
        for name, member in properties.items()
    ]
    return sorted(members, key=lambda member: not member[0])


def _name(name: str) -> str:
    return name if _PLAIN_NAME.fullmatch(name) else json.dumps(name, ensure_ascii=False)


def _write_type(schema: Any, source: _Source, depth: int) -> str:
    """Return the type of a value as text of at most 120 characters."""
    resolved = _resolve_reference(schema, source.root)
    if depth:
        source.left -= 1
    if source.left < 0 or depth > 2 * _MAX_DEPTH:
        return _write_short_type(resolved)
    text = _write_full_type(resolved, source, depth)
    return text if len(text) <= _MAX_TYPE else _write_short_type(resolved)


def _write_full_type(schema: Any, source: _Source, depth: int) -> str:
    if not isinstance(schema, Mapping):
        return "any"
    if "const" in schema:
        return _write_value(schema["const"])
    values = schema.get("enum")
    if isinstance(values, list) and values:
        more = ["..."] if len(values) > _MAX_VALUES else []
        return "/".join([*(_write_value(value) for value in values[:_MAX_VALUES]), *more])
    alternatives = _list_alternatives(schema)
    if alternatives:
        texts = list(dict.fromkeys(_write_type(one, source, depth + 1) for one in alternatives))
        more = ["..."] if len(texts) > _MAX_ALTERNATIVES else []
        return "/".join([*texts[:_MAX_ALTERNATIVES], *more])
    kinds = list(_list_kinds(schema))
    return "/".join(_of_kind(kind, schema, source, depth) for kind in kinds) or "any"


def _write_short_type(schema: Any) -> str:
    kinds = list(_list_kinds(schema)) if isinstance(schema, Mapping) else []
    return "/".join(kinds) or "any"


def _of_kind(kind: str, schema: Mapping[str, Any], source: _Source, depth: int) -> str:
    if kind == "string":
        named = schema.get("format")
        return named if isinstance(named, str) and named in _FORMATS else kind
    if kind == "array":
        item = _write_type(schema.get("items"), source, depth + 1) if depth < _MAX_DEPTH else "any"
        return f"({item})[]" if "/" in item else f"{item}[]"
    if kind == "object" and depth < _MAX_DEPTH:
        members = [text for _, text in _write_members(schema, source, depth + 1)]
        if members:
            return f"{{{', '.join(members)}}}"
    return kind


def _list_kinds(schema: Mapping[str, Any]) -> Iterator[str]:
    kinds = schema.get("type")
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        if isinstance(kind, str) and kind in (*_SCALARS, "array", "object"):
            yield kind
    if kinds is None:
        if "properties" in schema:
            yield "object"
        elif "items" in schema:
            yield "array"


def _list_alternatives(schema: Mapping[str, Any]) -> Sequence[Any]:
    for keyword in ("oneOf", "anyOf"):
        listed = schema.get(keyword)
        if isinstance(listed, list) and listed:
            return listed
    combined = schema.get("allOf")
    if isinstance(combined, list) and combined and "type" not in schema and "properties" not in schema:
        return combined[:1]
    return ()


def _resolve_reference(schema: Any, root: Mapping[str, Any]) -> Any:
    """Return what a local reference points to; None where it points to nothing, or to itself."""
    for _ in range(8):
        reference = schema.get("$ref") if isinstance(schema, Mapping) else None
        if not isinstance(reference, str):
            return schema
        schema = _follow_pointer(reference, root)
    return None


def _follow_pointer(reference: str, root: Any) -> Any:
    if not reference.startswith("#"):
        return None
    node = root
    for step in islice(reference.removeprefix("#").split("/"), 1, None):
        key = step.replace("~1", "/").replace("~0", "~")
        node = node.get(key) if isinstance(node, Mapping) else None
    return node


def _write_value(value: Any) -> str:
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
