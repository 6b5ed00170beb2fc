"""Writes schemas so that the released clients of agents read each of them: a client that cannot read one
loses the whole list of tools, and one that drops definitions sends references to nothing.

The result has no references, no look-around, and a type at each input. It accepts whatever the original
accepts, but for the losses `narrower`; the gateway validates by the original.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from app import exact_json
from app.json_schema.references import MAPS, schemas_of
from app.text import MAX_DEPTH, pointer
from app.tool_schemas.losses import Loss, LossRecorder
from app.tool_schemas.portable_patterns import portable_pattern
from app.tool_schemas.source import SourceSchema, named_types
from app.tool_schemas.values import ANNOTATIONS, split_types, types_of

Schema = dict[str, Any]
Part = tuple[Schema, bool]
"""A converted schema, and whether it accepts exactly what the original does."""

MAX_BYTES: Final = 64_000
"""The bytes of JSON up to which references are written out."""
MAX_GROWTH: Final = 4
"""How many times larger than the original a schema may become by that."""
MAX_RECURSION: Final = 3
"""How often a recursive schema is written out inside of itself."""
_MAX_REFERENCES: Final = 24
_DEFINITIONS: Final = frozenset({"$defs", "definitions", "$anchor"})
_LISTS: Final = frozenset({"allOf", "anyOf", "oneOf", "prefixItems"})
_SINGLE: Final = frozenset({
    "additionalProperties", "items", "not", "if", "then", "else", "contains", "propertyNames",
    "unevaluatedProperties", "unevaluatedItems", "contentSchema",
})  # fmt: skip
_CHOICES: Final = ("anyOf", "oneOf", "allOf")
_TYPED: Final = frozenset({"type", "$ref", "enum", "const", *_CHOICES})
_OUTSIDE: Final = frozenset({
    *_CHOICES, "not", "if", "then", "else", "unevaluatedProperties", "unevaluatedItems", "dependentSchemas",
})  # fmt: skip
"""Keywords that stay beside a choice of types: each type would have a copy of them."""
_TYPES: Final = ("string", "number", "boolean", "object", "array", "null")
_FORMATS: Final = frozenset({
    "date-time", "date", "time", "duration", "hostname", "ipv4", "ipv6", "uri", "uuid", "int32",
    "int64", "float", "double", "byte", "binary", "password",
})  # fmt: skip
"""Formats that the readers of agents know; others make some of them fail."""
_Position = Literal["value", "items", "part"]
"""Where a schema stands: it describes a value and needs a type, items that need none, or is a part of another
schema.
"""
_POSITIONS: Final[Mapping[str, _Position]] = {
    "properties": "value", "anyOf": "value", "oneOf": "value", "prefixItems": "value", "items": "items",
    "additionalProperties": "items",
}  # fmt: skip


class _TooLarge(Exception):
    """The schema would be too large with so many references written out."""


@dataclass(frozen=True, slots=True)
class Portable:
    """A schema as all clients read it, and what that changed."""

    schema: Schema = field(repr=False)
    losses: tuple[Loss, ...] = ()


def make_portable(schema: Mapping[str, Any], *, is_typed: bool = True) -> Portable:
    """Return a schema, valid JSON Schema 2020-12 with local references only, as all clients of agents read
    it.

    References are written out up to MAX_BYTES and MAX_GROWTH times the size, recursive ones MAX_RECURSION
    times; what does not fit only has its type. With `is_typed` each property has one type, or is a choice of
    such: for inputs, of which clients make classes.
    """
    source = SourceSchema(dict(schema))
    size = len(exact_json.dumps(source.schema))
    limit = max(size, min(MAX_BYTES, MAX_GROWTH * size))
    best = _write(source, limit, _MAX_REFERENCES, is_typed=is_typed)
    level = 0
    while best is None or (level and level < _MAX_REFERENCES):
        deeper = _write(source, limit, level, is_typed=is_typed)
        if deeper is None:
            break
        best = deeper
        level += 1
    if best is None:
        # Nothing is written out, but the types of inputs alone are too large.
        best = _write(source, 1 << 30, 0, is_typed=is_typed) or Portable(source.schema)
    return best


def _write(source: SourceSchema, limit: int, max_references: int, *, is_typed: bool) -> Portable | None:
    """Return the schema with so many references inside of each other written out; None where it is too
    large.
    """
    writer = _Writer(source, limit, max_references, is_typed=is_typed)
    try:
        schema = writer.write_root()
    except _TooLarge:
        return None
    if len(exact_json.dumps(schema)) > limit:
        return None
    return Portable(schema, tuple(writer.report.losses))


class _Writer:
    """Writes one schema; `report` has what was changed."""

    def __init__(self, source: SourceSchema, limit: int, max_references: int, *, is_typed: bool) -> None:
        self.report = LossRecorder()
        self._source = source
        self._left = limit
        self._max_references = max_references
        self._is_typed = is_typed
        self._has_unevaluated_items = any("unevaluatedItems" in one for one in schemas_of(source.schema))

    def write_root(self) -> Schema:
        """Return the whole schema."""
        root, _ = self._write(self._source.schema, "", ("#",), 0, position="part")
        if "properties" in root or not self._is_typed:
            return root
        self.report.lose("", "properties", None, "converted", "none")
        return {**root, "properties": {}}

    def _write(
        self, node: Schema, default: str, path: tuple[str, ...], depth: int, *, position: _Position
    ) -> Part:
        at = self._source.place(node, default)
        if depth > MAX_DEPTH:
            self.report.lose(at, "properties", "...", "cut", "looser")
            return {}, False
        if isinstance(node.get("$ref"), str):
            return self._write_reference(node, at, path, depth, position=position)
        result, is_exact = self._write_keywords(node, at, path, depth)
        result = self._add_items(result, at)
        if self._is_typed and position != "part":
            result = self._add_type(result, at, position)
        if self._is_typed and "anyOf" in result:
            result["anyOf"] = _flatten(result["anyOf"])
        return result, is_exact

    # References.

    def _write_reference(
        self, node: Schema, at: str, path: tuple[str, ...], depth: int, *, position: _Position
    ) -> Part:
        reference = node["$ref"]
        target = self._source.target(reference)
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in _DEFINITIONS}
        is_recursive = path.count(reference) >= MAX_RECURSION
        if is_recursive or len(path) > self._max_references:
            self.report.lose(at, "$ref", reference, "cut", "looser")
            known = {} if is_recursive and position == "items" else _keep_type(target)
            return self._write({**known, **beside}, at, path, depth + 1, position=position)[0], False
        self.report.lose(at, "$ref", reference, "inlined", "none")
        inner = (*path, reference)
        if beside.keys() <= ANNOTATIONS:
            merged = {**target, **beside}
            self._source.add(merged, self._source.place(target, at))
            return self._write(merged, at, inner, depth, position=position)
        # Keywords beside a reference may contradict its own, so that both stay whole.
        merged = {**beside, "allOf": [*beside.get("allOf", ()), target]}
        self._source.add(merged, at)
        return self._write(merged, at, inner, depth, position=position)

    # Keywords.

    def _write_keywords(self, node: Schema, at: str, path: tuple[str, ...], depth: int) -> Part:
        result: Schema = {}
        inexact: set[str] = set()
        for key, value in node.items():
            if key in _DEFINITIONS:
                continue
            self._charge(key)
            parts = self._write_below(key, self._spread_type(node, key, value), at, path, depth + 1)
            if parts is None:
                self._charge(value)
                result[key] = value
                continue
            members, is_exact = parts
            result[key] = members
            if not is_exact:
                inexact.add(key)
        self._write_patterns(result, at, inexact)
        if inexact:
            self._accept_more(result, at, inexact)
        if self._is_typed:
            self._describe_format(result, at)
        return result, not inexact

    def _spread_type(self, node: Schema, key: str, value: Any) -> Any:
        """Return the value of a keyword; the type of the whole schema is that of each choice, too."""
        kind = node.get("type")
        if not self._is_typed or key not in ("anyOf", "oneOf") or not isinstance(kind, str):
            return value
        return [one if one.keys() & _TYPED else {"type": kind, **one} for one in value]

    def _write_below(
        self, key: str, value: Any, at: str, path: tuple[str, ...], depth: int
    ) -> tuple[Any, bool] | None:
        """Return the value of a keyword that has schemas; None for any other."""
        position = _POSITIONS.get(key, "part")
        if key in MAPS and isinstance(value, dict):
            parts = {}
            for name, member in value.items():
                self._charge(name)
                parts[name] = self._write(member, pointer(at, key, name), path, depth, position=position)
            return {name: schema for name, (schema, _) in parts.items()}, all(
                one for _, one in parts.values()
            )
        if key in _LISTS and isinstance(value, list):
            listed = [
                self._write(member, pointer(at, key, index), path, depth, position=position)
                for index, member in enumerate(value)
            ]
            return [schema for schema, _ in listed], all(one for _, one in listed)
        if key in _SINGLE and isinstance(value, dict):
            return self._write(value, pointer(at, key), path, depth, position=position)
        return None

    def _write_patterns(self, result: Schema, at: str, inexact: set[str]) -> None:
        """Make the regular expressions portable, or remove them."""
        pattern = result.get("pattern")
        if isinstance(pattern, str):
            kept = portable_pattern(pattern)
            if kept is None:
                self.report.lose(at, "pattern", result.pop("pattern"), "dropped", "looser")
                inexact.add("pattern")
            elif kept != pattern:
                self.report.lose(at, "pattern", pattern, "converted", "none")
                result["pattern"] = kept
        by_pattern = result.get("patternProperties")
        if not isinstance(by_pattern, dict):
            return
        members: Schema = {}
        for name, member in by_pattern.items():
            kept = portable_pattern(name)
            if kept is None:
                self.report.lose(pointer(at, "patternProperties"), name, name, "dropped", "looser")
                inexact.add("patternProperties")
            else:
                if kept != name:
                    self.report.lose(pointer(at, "patternProperties"), name, name, "converted", "none")
                members[kept] = {"allOf": [members[kept], member]} if kept in members else member
        result["patternProperties"] = members
        if len(members) < len(by_pattern) and result.pop("additionalProperties", None) is not None:
            self.report.lose(at, "additionalProperties", "...", "dropped", "looser")

    def _accept_more(self, result: Schema, at: str, inexact: set[str]) -> None:
        """Change the keywords that would reject valid values where a schema inside of them accepts more."""
        for key in ("not", "if"):
            if key in inexact:
                del result[key]
                self.report.lose(at, key, "...", "dropped", "looser")
        if "if" in inexact:
            result.pop("then", None)
            result.pop("else", None)
        if "contains" in inexact:
            result.pop("maxContains", None)
        for key in ("unevaluatedProperties", "unevaluatedItems"):
            if result.pop(key, None) is not None:
                self.report.lose(at, key, "...", "dropped", "looser")
        if "oneOf" in inexact:
            choices = result.pop("oneOf")
            self.report.lose(at, "oneOf", len(choices), "converted", "looser")
            _add_choice(result, choices)

    def _describe_format(self, result: Schema, at: str) -> None:
        """Move a format that not all readers know to the description."""
        name = result.get("format")
        if isinstance(name, str) and name not in _FORMATS:
            del result["format"]
            text = f"({self.report.described(at, 'format', name, 'hint')})"
            result["description"] = f"{result['description']} {text}" if result.get("description") else text

    def _charge(self, value: Any) -> None:
        """Count what is written. Raises _TooLarge."""
        self._left -= len(value) + 3 if isinstance(value, str) else len(exact_json.dumps(value))
        if self._left < 0:
            raise _TooLarge

    # Types.

    def _add_items(self, node: Schema, at: str) -> Schema:
        if "items" in node or self._has_unevaluated_items or "array" not in named_types(node):
            return node
        self.report.lose(at, "items", None, "converted", "none")
        return {**node, "items": {}}

    def _add_type(self, node: Schema, at: str, position: _Position) -> Schema:
        """Return the schema with one type, or as a choice of schemas with one type each."""
        names = node.get("type")
        if isinstance(names, str) or (position == "items" and not names):
            return node
        if names:
            self.report.lose(at, "type", names, "converted", "none")
            return self._split(node, tuple(names))
        if "enum" in node or "const" in node:
            values = node["enum"] if "enum" in node else [node["const"]]
            kinds = types_of(values)
            self.report.lose(at, "type", None, "converted", "none")
            return {"type": kinds, **node} if isinstance(kinds, str) else self._split(node, tuple(kinds))
        if any(key in node for key in _CHOICES):
            kind = _find_common_type(node)
            return node if kind is None else {"type": kind, **node}
        implied = named_types(node)
        self.report.lose(at, "type", None, "converted", "narrower" if implied else "none")
        return {"type": implied[0], **node} if implied else self._split(node, _TYPES)

    def _split(self, node: Schema, kinds: tuple[str, ...]) -> Schema:
        outside = {key: value for key, value in node.items() if key in _OUTSIDE or key.startswith("x-")}
        made = split_types({key: value for key, value in node.items() if key not in outside}, kinds)
        choices = [
            one if one["type"] != "array" or self._has_unevaluated_items else {"items": {}, **one}
            for one in made.pop("anyOf")
        ]
        if len(choices) == 1:
            return {**made, **choices[0], **outside}
        others = outside.pop("anyOf", None)
        result = {**made, "anyOf": choices, **outside}
        if others is not None:
            _add_choice(result, others)
        return result


def _keep_type(target: Schema) -> Schema:
    """Return a schema that has nothing but the type of another; {} where that may be of several."""
    return {"type": target["type"]} if isinstance(target.get("type"), str) else {}


def _add_choice(result: Schema, choices: list[Schema]) -> None:
    """Add to a schema that one of these must hold, too."""
    if "anyOf" in result:
        result["allOf"] = [*result.get("allOf", ()), {"anyOf": choices}]
    else:
        result["anyOf"] = choices


def _flatten(choices: list[Schema]) -> list[Schema]:
    """Return choices without those that are nothing but a choice themselves, which not all readers know."""
    result: list[Schema] = []
    for choice in choices:
        if choice.keys() - ANNOTATIONS != {"anyOf"}:
            result.append(choice)
            continue
        text = {"description": choice["description"]} if choice.get("description") else {}
        result += [{**text, **one} for one in choice["anyOf"]]
    return result


def _find_common_type(node: Schema) -> str | None:
    """Return the one type of all values of compositions; None where they may be of several."""
    for member in node.get("allOf", ()):
        if isinstance(member.get("type"), str):
            return str(member["type"])
    for key in ("anyOf", "oneOf"):
        kinds = [one.get("type") for one in node.get(key, ())]
        if kinds and isinstance(kinds[0], str) and all(kind == kinds[0] for kind in kinds):
            return kinds[0]
    return None
