"""Writes schemas so that the released clients of agents read each of them: a client that cannot read one
loses the whole list of tools, and one that drops definitions sends references to nothing.

The result has no references, no look-around, and a type at each input. It accepts whatever the original
accepts, but for the losses `narrower`; the gateway validates by the original.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Final, Literal

from app.core import exact_json
from app.core.text import MAX_DEPTH, pointer
from app.formats.dialects.losses import (
    Action,
    Effect,
    Loss,
    LossRecorder,
    describe_keyword,
)
from app.formats.dialects.portable_patterns import make_portable_pattern
from app.formats.dialects.source import SourceSchema, list_named_types
from app.formats.dialects.values import ANNOTATIONS, list_types_of_values, split_types
from app.formats.json_schema.references import MAPS, list_schemas

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
_LISTED: Final = _LISTS | {"enum"}
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
    source = SourceSchema(dict(schema) if isinstance(schema, Mapping) else _as_schema(schema))
    size = len(exact_json.dumps(source.schema))
    limit = max(size, min(MAX_BYTES, MAX_GROWTH * size))
    writer = _Writer(source, is_typed=is_typed)
    best = writer.write_root(limit, _MAX_REFERENCES)
    level = 0
    while best is None or (level and level < _MAX_REFERENCES):
        deeper = writer.write_root(limit, level)
        if deeper is None:
            break
        best = deeper
        level += 1
    if best is None:
        # Nothing is written out, but the types of inputs alone are too large.
        best = writer.write_root(1 << 30, 0) or (source.schema, [])
    return Portable(best[0], _collect_losses(best[1]))


_Events = list[Any]
"""Arguments of `LossRecorder.lose`, and the events of schemas that are part of what is written."""


@dataclass(slots=True)
class _Trace:
    """What the result of writing a schema depends on, beside the schema itself, and what it does.

    `depth` is that of the deepest schema, `references` the longest path of references of which one more is
    written out; `is_cut` says whether one was too long. While the schema is written, both are absolute.
    """

    depth: int
    references: int = 0
    is_cut: bool = False
    charge: int = 0
    events: _Events = field(default_factory=list)
    part: Part = ({}, True)

    def holds_at(self, depth: int, references: int, max_references: int) -> bool:
        """Return whether writing it there has the same result, where the same references are recursive."""
        return depth + self.depth <= MAX_DEPTH and references + self.references <= max_references


class _Writer:
    """Writes one schema, each part of it once for all levels and places where its result is the same."""

    def __init__(self, source: SourceSchema, *, is_typed: bool) -> None:
        self._source = source
        self._is_typed = is_typed
        self._has_unevaluated_items = any("unevaluatedItems" in one for one in list_schemas(source.schema))
        self._references: dict[int, frozenset[str]] = {}
        every = _find_references(source.schema, self._references)
        self._recursive = _find_recursive(
            {one: self._references.get(id(source.get_target(one)), every) for one in every}
        )
        self._known: dict[tuple[Any, ...], _Trace] = {}
        self._trace = _Trace(0)
        self._left = self._max_references = 0

    def write_root(self, limit: int, max_references: int) -> tuple[Schema, _Events] | None:
        """Return the schema with so many references inside of each other written out, and its losses; None
        where it is larger than `limit` bytes.
        """
        self._left, self._max_references, self._trace = limit, max_references, _Trace(0)
        try:
            root, _ = self._write(self._source.schema, "", ("#",), 0, position="part")
        except _TooLarge:
            return None
        if "properties" not in root and self._is_typed:
            self._lose("", "properties", None, "converted", "none")
            root = {**root, "properties": {}}
        return None if len(exact_json.dumps(root)) > limit else (root, self._trace.events)

    def _write(
        self, node: Any, default: str, path: tuple[str, ...], depth: int, *, position: _Position
    ) -> Part:
        references = self._references.get(id(node))
        if references is None:
            # It was made of others, for this place alone.
            return self._write_anew(node, default, path, depth, position=position)
        recursive = self._recursive
        counted = () if recursive.isdisjoint(references) else sorted(one for one in path if one in recursive)
        key = (id(node), position, *counted)
        cut_key = (*key, self._max_references - len(path))
        outer, left = self._trace, self._left
        for known in (self._known.get(key), self._known.get(cut_key)):
            if known is not None and known.holds_at(depth, len(path), self._max_references):
                self._left -= known.charge
                self._check_left()
                break
        else:
            known = self._trace = _Trace(depth)
            known.part = self._write_anew(node, default, path, depth, position=position)
            self._trace = outer
            known.charge = left - self._left
            known.depth -= depth
            known.references -= len(path)
            if depth + known.depth <= MAX_DEPTH:
                self._known[cut_key if known.is_cut else key] = known
        outer.depth = max(outer.depth, depth + known.depth)
        outer.references = max(outer.references, len(path) + known.references)
        outer.is_cut |= known.is_cut
        if known.events:
            outer.events.append(known.events)
        return known.part

    def _write_anew(
        self, node: Any, default: str, path: tuple[str, ...], depth: int, *, position: _Position
    ) -> Part:
        if not isinstance(node, dict):
            # True is the schema of anything, false that of nothing, and anything else is none.
            is_schema = isinstance(node, bool)
            effect: Effect = "none" if is_schema else "looser"
            self._lose(default, "type", node, "converted" if is_schema else "dropped", effect)
            written = self._write(_as_schema(node), default, path, depth, position=position)
            return written[0], is_schema and written[1]
        location = self._source.place(node, default)
        self._trace.depth = max(self._trace.depth, depth)
        if depth > MAX_DEPTH:
            self._lose(location, "properties", "...", "cut", "looser")
            return {}, False
        if isinstance(node.get("$ref"), str):
            return self._write_reference(node, location, path, depth, position=position)
        result, is_exact = self._write_keywords(node, location, path, depth)
        result = self._add_items(result, location)
        if self._is_typed and position != "part":
            result = self._add_type(result, location, position)
        if self._is_typed and "anyOf" in result:
            result["anyOf"] = _flatten(result["anyOf"])
        return result, is_exact

    # References.

    def _write_reference(
        self, node: Schema, location: str, path: tuple[str, ...], depth: int, *, position: _Position
    ) -> Part:
        reference = node["$ref"]
        target = self._source.get_target(reference)
        beside = {key: value for key, value in node.items() if key != "$ref" and key not in _DEFINITIONS}
        is_recursive = path.count(reference) >= MAX_RECURSION
        is_cut = not is_recursive and len(path) > self._max_references
        self._trace.is_cut |= is_cut
        if is_recursive or is_cut:
            self._lose(location, "$ref", reference, "cut", "looser")
            known = {} if is_recursive and position == "items" else _keep_type(target)
            return self._write({**known, **beside}, location, path, depth + 1, position=position)[0], False
        self._trace.references = max(self._trace.references, len(path))
        self._lose(location, "$ref", reference, "inlined", "none")
        inner = (*path, reference)
        if beside.keys() <= ANNOTATIONS:
            merged = {**target, **beside}
            self._source.add(merged, self._source.place(target, location))
            return self._write(merged, location, inner, depth, position=position)
        # Keywords beside a reference may contradict its own, so that both stay whole.
        others = beside.get("allOf")
        merged = {**beside, "allOf": [*(others if isinstance(others, list) else ()), target]}
        self._source.add(merged, location)
        return self._write(merged, location, inner, depth, position=position)

    # Keywords.

    def _write_keywords(self, node: Schema, location: str, path: tuple[str, ...], depth: int) -> Part:
        result: Schema = {}
        inexact: set[str] = set()
        for key, value in node.items():
            if key in _DEFINITIONS:
                continue
            if _is_malformed(key, value):
                self._lose(location, key, value, "dropped", "looser")
                inexact.add("type")
                continue
            self._charge(key)
            parts = self._write_below(key, self._spread_type(node, key, value), location, path, depth + 1)
            if parts is None:
                self._charge(value)
                result[key] = value
                continue
            members, is_exact = parts
            result[key] = members
            if not is_exact:
                inexact.add(key)
        self._write_patterns(result, location, inexact)
        if inexact:
            self._accept_more(result, location, inexact)
        if self._is_typed:
            self._describe_format(result, location)
        return result, not inexact

    def _spread_type(self, node: Schema, key: str, value: Any) -> Any:
        """Return the value of a keyword; the type of the whole schema is that of each choice, too."""
        kind = node.get("type")
        if not self._is_typed or key not in ("anyOf", "oneOf") or not isinstance(kind, str):
            return value
        return [
            {"type": kind, **one} if isinstance(one, dict) and not one.keys() & _TYPED else one
            for one in value
        ]

    def _write_below(
        self, key: str, value: Any, location: str, path: tuple[str, ...], depth: int
    ) -> tuple[Any, bool] | None:
        """Return the value of a keyword that has schemas; None for any other."""
        position = _POSITIONS.get(key, "part")
        if key in MAPS and isinstance(value, dict):
            parts = {}
            for name, member in value.items():
                self._charge(name)
                parts[name] = self._write(
                    member, pointer(location, key, name), path, depth, position=position
                )
            return {name: schema for name, (schema, _) in parts.items()}, all(
                one for _, one in parts.values()
            )
        if key in _LISTS and isinstance(value, list):
            listed = [
                self._write(member, pointer(location, key, index), path, depth, position=position)
                for index, member in enumerate(value)
            ]
            return [schema for schema, _ in listed], all(one for _, one in listed)
        if key in _SINGLE and isinstance(value, dict):
            return self._write(value, pointer(location, key), path, depth, position=position)
        return None

    def _write_patterns(self, result: Schema, location: str, inexact: set[str]) -> None:
        """Make the regular expressions portable, or remove them."""
        pattern = result.get("pattern")
        if isinstance(pattern, str):
            kept = make_portable_pattern(pattern)
            if kept is None:
                self._lose(location, "pattern", result.pop("pattern"), "dropped", "looser")
                inexact.add("pattern")
            elif kept != pattern:
                self._lose(location, "pattern", pattern, "converted", "none")
                result["pattern"] = kept
        by_pattern = result.get("patternProperties")
        if not isinstance(by_pattern, dict):
            return
        members: Schema = {}
        for name, member in by_pattern.items():
            kept = make_portable_pattern(name)
            if kept is None:
                self._lose(pointer(location, "patternProperties"), name, name, "dropped", "looser")
                inexact.add("patternProperties")
            else:
                if kept != name:
                    self._lose(pointer(location, "patternProperties"), name, name, "converted", "none")
                members[kept] = {"allOf": [members[kept], member]} if kept in members else member
        result["patternProperties"] = members
        if len(members) < len(by_pattern) and result.pop("additionalProperties", None) is not None:
            self._lose(location, "additionalProperties", "...", "dropped", "looser")

    def _accept_more(self, result: Schema, location: str, inexact: set[str]) -> None:
        """Change the keywords that would reject valid values where a schema inside of them accepts more."""
        for key in ("not", "if"):
            if key in inexact:
                del result[key]
                self._lose(location, key, "...", "dropped", "looser")
        if "if" in inexact:
            result.pop("then", None)
            result.pop("else", None)
        if "contains" in inexact:
            result.pop("maxContains", None)
        for key in ("unevaluatedProperties", "unevaluatedItems"):
            if result.pop(key, None) is not None:
                self._lose(location, key, "...", "dropped", "looser")
        if "oneOf" in inexact:
            choices = result.pop("oneOf")
            self._lose(location, "oneOf", len(choices), "converted", "looser")
            _add_choice(result, choices)

    def _describe_format(self, result: Schema, location: str) -> None:
        """Move a format that not all readers know to the description."""
        name = result.get("format")
        if isinstance(name, str) and name not in _FORMATS:
            del result["format"]
            self._lose(location, "format", name, "moved-to-description", "hint")
            text = f"({describe_keyword('format', name)})"
            result["description"] = f"{result['description']} {text}" if result.get("description") else text

    def _charge(self, value: Any) -> None:
        """Count what is written. Raises _TooLarge."""
        self._left -= len(value) + 3 if isinstance(value, str) else len(exact_json.dumps(value))
        self._check_left()

    def _check_left(self) -> None:
        if self._left < 0:
            raise _TooLarge

    def _lose(self, location: str, keyword: str, value: Any, action: Action, effect: Effect) -> None:
        """Record a loss; see `LossRecorder`."""
        self._trace.events.append((location, keyword, value, action, effect))

    # Types.

    def _add_items(self, node: Schema, location: str) -> Schema:
        if "items" in node or self._has_unevaluated_items or "array" not in list_named_types(node):
            return node
        self._lose(location, "items", None, "converted", "none")
        return {**node, "items": {}}

    def _add_type(self, node: Schema, location: str, position: _Position) -> Schema:
        """Return the schema with one type, or as a choice of schemas with one type each."""
        names = node.get("type")
        if isinstance(names, str) or (position == "items" and not names):
            return node
        if names:
            self._lose(location, "type", names, "converted", "none")
            return self._split(node, tuple(names))
        if "enum" in node or "const" in node:
            values = node["enum"] if "enum" in node else [node["const"]]
            kinds = list_types_of_values(values)
            self._lose(location, "type", None, "converted", "none")
            return (
                {"type": kinds, **node}
                if isinstance(kinds, str)
                else self._split(node, tuple(kinds) or _TYPES)
            )
        if any(key in node for key in _CHOICES):
            kind = _find_common_type(node)
            return node if kind is None else {"type": kind, **node}
        implied = list_named_types(node)
        self._lose(location, "type", None, "converted", "narrower" if implied else "none")
        return {"type": implied[0], **node} if implied else self._split(node, _TYPES)

    def _split(self, node: Schema, kinds: tuple[str, ...]) -> Schema:
        outside = {key: value for key, value in node.items() if key in _OUTSIDE or key.startswith("x-")}
        parts = split_types({key: value for key, value in node.items() if key not in outside}, kinds)
        choices = [
            one if one["type"] != "array" or self._has_unevaluated_items else {"items": {}, **one}
            for one in parts.pop("anyOf")
        ]
        if len(choices) == 1:
            return {**parts, **choices[0], **outside}
        others = outside.pop("anyOf", None)
        result = {**parts, "anyOf": choices, **outside}
        if others is not None:
            _add_choice(result, others)
        return result


def _as_schema(value: Any) -> Schema:
    """Return the schema that a value means which is none, or is written as a boolean."""
    return {"not": {}} if value is False else {}


def _is_malformed(key: str, value: Any) -> bool:
    """Return whether a keyword has a value that no schema may have, and that cannot be written."""
    if key == "type":
        names = [value] if isinstance(value, str) else value
        return not (isinstance(names, list) and names and all(isinstance(name, str) for name in names))
    return not isinstance(value, dict) if key in MAPS else key in _LISTED and not isinstance(value, list)


def _find_references(value: Any, references: dict[int, frozenset[str]]) -> frozenset[str]:
    """Return the references in a value; `references` gets those of each object in it, by its identity."""
    members = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    inner = {one for member in members for one in _find_references(member, references)}
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            inner.add(value["$ref"])
        references[id(value)] = frozenset(inner)
    return frozenset(inner)


def _find_recursive(references: Mapping[str, frozenset[str]]) -> frozenset[str]:
    """Return the references that lead to themselves, and those on the way from one such to another;
    `references` has those in the target of each.
    """
    sources = defaultdict(set)
    for reference, targets in references.items():
        for target in targets:
            sources[target].add(reference)
    return _find_unsorted(references) & _find_unsorted(sources)


def _find_unsorted(graph: Mapping[str, Collection[str]]) -> frozenset[str]:
    """Return the nodes of a graph that lead to a cycle."""
    sorter = TopologicalSorter(graph)
    with suppress(CycleError):
        sorter.prepare()
    sorted_nodes: set[str] = set()
    while ready := sorter.get_ready():
        sorted_nodes.update(ready)
        sorter.done(*ready)
    return frozenset(graph) - sorted_nodes


def _collect_losses(events: _Events) -> tuple[Loss, ...]:
    """Return each loss once, in the order of the schema."""
    report, seen = LossRecorder(), set()

    def collect(listed: _Events) -> None:
        for listed_part in listed:
            if isinstance(listed_part, tuple):
                report.lose(*listed_part)
            elif id(listed_part) not in seen:
                seen.add(id(listed_part))
                collect(listed_part)

    collect(events)
    return tuple(report.losses)


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
