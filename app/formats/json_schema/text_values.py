"""Texts as the JSON values that schemas describe, e.g. of a query string or a command line.

    types that the schema allows -> values that the text may stand for, the most likely first

A text is a string wherever the schema allows one. Members of lists and objects may be given by their names.
An error never repeats a value, which may be a secret.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeAlias

from app.core.errors import FieldError
from app.formats.json_schema.references import resolve

TextTree: TypeAlias = "Sequence[str] | dict[str, TextTree]"
"""The texts of one value, or those of its members by key or index; the key ITEM has the items of a list."""

ITEM: Final = ""
_ALL_TYPES: Final = frozenset({"null", "boolean", "object", "array", "number", "string", "integer"})
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]+)?", re.ASCII)
# Integers up to here are exact as a double.
_EXACT: Final = 2**53
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,3}", re.ASCII)
_NULLS: Final = frozenset({"", "null"})
# The keywords that describe only values of one type: many schemas of objects and arrays do not say `type`.
_IMPLIED_TYPES: Final = {
    "properties": "object",
    "required": "object",
    "additionalProperties": "object",
    "items": "array",
    "prefixItems": "array",
}
# Schemas that are read for one call, and references and alternatives within each other: beyond these limits,
# a schema counts as one that allows everything.
_MAX_SCHEMAS: Final = 2_000
_MAX_DEPTH: Final = 32


class TextError(Exception):
    """A text is no value of the type that its schema requires; `path` leads to it within the argument."""

    def __init__(self, errors: Sequence[FieldError], path: tuple[int | str, ...] = ()) -> None:
        super().__init__()
        self.errors = errors
        self.path = path


class TextReader:
    """Reads texts by the types, properties and items of the schemas within `root`, in bounded time.

    `loads` returns the value of JSON text, and raises TextError for other text.
    """

    def __init__(self, root: Mapping[str, Any], loads: Callable[[str], Any]) -> None:
        self._root = root
        self._loads = loads
        self._schemas_left = _MAX_SCHEMAS

    def list_properties(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """Return the schemas of an object's properties by name, also those in references and alternatives."""
        properties_by_name: dict[str, Any] = {}
        for part in self._list_parts(schema, depth):
            listed = part.get("properties")
            for name, member in listed.items() if isinstance(listed, Mapping) else ():
                properties_by_name.setdefault(name, member)
        return properties_by_name

    def list_candidates(self, texts: Sequence[str], schema: Any, *, is_item: bool = False) -> list[Any]:
        """Return the values that the texts may stand for, the most likely first, at least one.

        A single text may also be the only item of a list, unless it is itself an item of one (`is_item`).
        Raises TextError where there is no value.
        """
        types = self._find_types(schema)
        if len(texts) > 1:
            if "array" not in types:
                raise TextError([FieldError("", "Give this once.", _describe_types(types))])
            return [[self._read_item(text, index, schema) for index, text in enumerate(texts)]]
        text = texts[0]
        values = list(self._read_scalars(text, types))
        errors: list[TextError] = []
        for read in self._read_containers(text, types, schema, is_item=is_item):
            try:
                values.append(read())
            except TextError as error:
                errors.append(error)
        if values:
            return values
        if errors:
            raise errors[0]
        detail = f"This must be of type {' or '.join(_name_types(types))}."
        raise TextError([FieldError("", detail, _describe_types(types))])

    def build_members(self, tree: Mapping[str, TextTree], schema: Any) -> Any:
        """Return the list or object whose members were given by names with brackets.

        Raises TextError where the schema allows neither, and for a list without one of its items.
        """
        types = self._find_types(schema)
        if ITEM in tree:
            if len(tree) > 1:
                raise TextError([FieldError("", "Give the items with indices, or all of them without.")])
            texts = tree[ITEM]
            if "array" not in types or isinstance(texts, dict):
                raise TextError([FieldError("", "This is not a list.", _describe_types(types))])
            return [self._read_item(text, index, schema) for index, text in enumerate(texts)]
        if "array" in types and all(_INDEX.fullmatch(key) for key in tree):
            absent = next(index for index in range(len(tree) + 1) if str(index) not in tree)
            if absent < len(tree):
                raise TextError([FieldError("", f"The list has no item {absent}.", "array")])
            items = (
                (index, tree[str(index)], self._find_item_schema(schema, index)) for index in range(len(tree))
            )
            return [self._read_member(key, below, inner) for key, below, inner in items]
        if "object" not in types:
            raise TextError([FieldError("", "This is not an object.", _describe_types(types))])
        named = self.list_properties(schema)
        others = self._find_other_members(schema)
        return {key: self._read_member(key, below, named.get(key, others)) for key, below in tree.items()}

    def _read_member(self, key: int | str, tree: TextTree, schema: Any) -> Any:
        try:
            return (
                self.build_members(tree, schema)
                if isinstance(tree, dict)
                else self.list_candidates(tree, schema)[0]
            )
        except TextError as error:
            raise TextError(error.errors, (key, *error.path)) from None

    def _find_other_members(self, schema: Any) -> Any:
        schemas = (part.get("additionalProperties") for part in self._list_parts(schema, 0))
        return next((one for one in schemas if isinstance(one, Mapping)), {})

    def _find_types(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """Return the types that a schema allows, as far as its keywords tell; all where they do not."""
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return _ALL_TYPES
        types = _ALL_TYPES
        if "type" in schema:
            types &= _read_type_names(schema["type"])
        if "const" in schema:
            types &= _collect_types([schema["const"]])
        if isinstance(schema.get("enum"), list):
            types &= _collect_types(schema["enum"])
        if isinstance(schema.get("$ref"), str):
            types &= self._find_types(self._resolve_target(schema["$ref"]), depth + 1)
        for member in _list_members(schema, "allOf"):
            types &= self._find_types(member, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            members = _list_members(schema, keyword)
            if members:
                types &= frozenset().union(*(self._find_types(member, depth + 1) for member in members))
        if types == _ALL_TYPES:
            types &= frozenset(_IMPLIED_TYPES[key] for key in schema if key in _IMPLIED_TYPES) or _ALL_TYPES
        return types

    def _read_scalars(self, text: str, types: frozenset[str]) -> Iterator[Any]:
        if "string" in types:
            yield text
        if "null" in types and text in _NULLS:
            yield None
        if "boolean" in types and text.lower() in _BOOLEANS:
            yield _BOOLEANS[text.lower()]
        number = _NUMBER.fullmatch(text) if "integer" in types else None
        if number is None:
            return
        if "number" in types or number[1] is number[2] is None:
            yield self._loads(text)
        elif float(text).is_integer() and abs(float(text)) < _EXACT:
            # An integer in JSON Schema, which Python's clients write with a fraction (`2.0`).
            yield int(float(text))

    def _read_containers(
        self, text: str, types: frozenset[str], schema: Any, *, is_item: bool
    ) -> Iterator[Callable[[], Any]]:
        """Yield functions that return the text as an object or a list; they raise TextError."""
        begin = text.lstrip()[:1]
        if (begin == "{" and "object" in types) or (begin == "[" and "array" in types):
            yield partial(self._loads, text)
        if "array" in types and not is_item:
            yield lambda: [self._read_item(text, 0, schema)]

    def _read_item(self, text: str, index: int, schema: Any) -> Any:
        try:
            return self.list_candidates([text], self._find_item_schema(schema, index), is_item=True)[0]
        except TextError as error:
            raise TextError(error.errors, (index, *error.path)) from None

    def _find_item_schema(self, schema: Any, index: int) -> Any:
        for part in self._list_parts(schema, 0):
            prefix = part.get("prefixItems")
            if isinstance(prefix, list) and index < len(prefix):
                return prefix[index]
            if "items" in part:
                return part["items"]
        return {}

    def _list_parts(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        """Yield the schema, and the schemas that it refers to or combines."""
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return
        yield schema
        if isinstance(schema.get("$ref"), str):
            yield from self._list_parts(self._resolve_target(schema["$ref"]), depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for member in _list_members(schema, keyword):
                yield from self._list_parts(member, depth + 1)

    def _resolve_target(self, reference: str) -> Any:
        try:
            return resolve(self._root, reference)
        except (LookupError, ValueError):
            return {}


def _list_members(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    members = schema.get(keyword)
    return members if isinstance(members, list) else []


def _read_type_names(value: Any) -> frozenset[str]:
    names = frozenset([value] if isinstance(value, str) else value if isinstance(value, list) else _ALL_TYPES)
    return names | {"integer"} if "number" in names else names


def _collect_types(values: list[Any]) -> frozenset[str]:
    """Return the types of JSON values; a number that is not an integer has both types of numbers."""
    types: set[str] = set()
    for value in values:
        match value:
            case None:
                types.add("null")
            case bool():
                types.add("boolean")
            case int():
                types.add("integer")
            case float():
                types |= {"number", "integer"}
            case str():
                types.add("string")
            case list():
                types.add("array")
            case _:
                types.add("object")
    return frozenset(types)


def _name_types(types: frozenset[str]) -> list[str]:
    return sorted(types - {"integer"} if "number" in types else types) or ["none"]


def _describe_types(types: frozenset[str]) -> Any:
    names = _name_types(types)
    return names[0] if len(names) == 1 else names
