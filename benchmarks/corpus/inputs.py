"""M4, M5 and M6: the quality of a tool's input schema by itself, independent of the document."""

import re
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import jsonschema_rs

from app.openapi import ConvertedTool
from benchmarks.corpus.reading import Json
from benchmarks.corpus.records import Record

_ONE = ("items", "additionalProperties", "propertyNames", "contains", "not", "if", "then", "else",
        "unevaluatedItems", "unevaluatedProperties", "contentSchema")  # fmt: skip
_LISTS = ("allOf", "anyOf", "oneOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "dependentSchemas", "$defs")
_TYPES = {"null", "boolean", "object", "array", "number", "string", "integer"}
_DIALECT = ("nullable", "discriminator", "xml", "externalDocs", "example", "readOnly", "writeOnly",
            "collectionFormat", "allowEmptyValue")  # fmt: skip
#: One of 22,000 characters takes 0.2 s to compile: docs/openapi.md says that such are left out.
MAX_PATTERN_LENGTH = 4_000
_AT_ROOT = ("oneOf", "anyOf", "allOf", "enum", "not", "$ref", "const", "if")


def nodes(schema: Any) -> Iterator[Json]:
    """Yield a schema and all schemas inside it, including `$defs`."""
    stack = [schema]
    while stack:
        one = stack.pop()
        if not isinstance(one, dict):
            continue
        yield one
        stack.extend(one[word] for word in _ONE if word in one)
        for word in _LISTS:
            stack.extend(one.get(word, ()))
        for word in _MAPS:
            stack.extend(one.get(word, {}).values())


@dataclass(frozen=True)
class Piece:
    """The findings of one schema, without those of what it refers to."""

    schema: Json
    problem: str
    dialect: tuple[str, ...]
    refs: frozenset[str]


@dataclass
class Inputs:
    """Checks the input schemas of one conversion; shared schemas are checked once."""

    _pieces: dict[int, Piece] = field(default_factory=dict)

    def check(self, tool: ConvertedTool, record: Record) -> None:
        """Check M4, M5 and M6 of one tool."""
        inputs = tool.inputs
        defs = inputs.get("$defs", {})
        root = self._piece({key: value for key, value in inputs.items() if key != "$defs"}, cached=False)
        pieces = [root, *(self._piece(one) for one in defs.values())]
        problem = next((piece.problem for piece in pieces if piece.problem), "")
        record.check("M4 valid", not problem, got=problem)
        at_root = [word for word in _AT_ROOT if word in inputs]
        record.check(
            "M4 root", inputs.get("type") == "object" and not at_root, got=at_root or inputs.get("type")
        )
        names = {f"#/$defs/{name}" for name in defs}
        dangling = sorted({ref for piece in pieces for ref in piece.refs} - names)
        record.check("M5", not dangling, expected="references that resolve", got=dangling)
        dialect = sorted({word for piece in pieces for word in piece.dialect})
        record.check("M6 dialect", not dialect, got=dialect)

    def _piece(self, schema: Any, *, cached: bool = True) -> Piece:
        known = self._pieces.get(id(schema))
        if known is None:
            known = _checked(schema)
            if cached:
                self._pieces[id(schema)] = known
        return known


def _checked(schema: Any) -> Piece:
    problem = ""
    try:
        jsonschema_rs.meta.validate(schema)
    except jsonschema_rs.ValidationError as error:
        problem = error.message
    dialect: dict[str, None] = {}
    refs: set[str] = set()
    for node in nodes(schema):
        dialect.update(dict.fromkeys(_leftovers(node)))
        if "$ref" in node:
            refs.add(str(node["$ref"]))
    return Piece(schema if isinstance(schema, dict) else {}, problem, tuple(dialect), frozenset(refs))


def _leftovers(node: Json) -> Iterator[str]:
    yield from (word for word in node if word in _DIALECT or word.startswith("x-"))
    kinds = node.get("type", [])
    kinds = [kinds] if isinstance(kinds, str) else kinds
    yield from (f"type: {kind}" for kind in kinds if kind not in _TYPES)
    yield from (w for w in ("exclusiveMinimum", "exclusiveMaximum") if isinstance(node.get(w), bool))
    if "pattern" in node and not compiles(node["pattern"]):
        yield f"pattern {node['pattern']}"


@lru_cache(maxsize=20_000)
def compiles(pattern: Any) -> bool:
    """Return whether Python and an ECMA 262 engine support a regular expression, in acceptable time."""
    if not isinstance(pattern, str) or len(pattern) > MAX_PATTERN_LENGTH:
        return False
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern)
        jsonschema_rs.validator_for({"pattern": pattern})
    except (re.error, OverflowError, RecursionError, TypeError, ValueError, jsonschema_rs.ValidationError):
        return False
    return True
