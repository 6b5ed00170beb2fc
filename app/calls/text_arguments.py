"""Arguments given as texts, e.g. in a query string: coerced to the JSON values that a tool's inputs describe.

    types that the schema allows -> values that the text may stand for -> the first that is valid

A text is a string wherever the schema allows one. Members of lists and objects may be given by names with
brackets. An error never repeats a value, which may be a secret.
"""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Final

from app.calls.arguments import parse_arguments
from app.calls.bracketed_names import ITEM, TextTree, text_trees
from app.catalog.plan import Plan
from app.errors import BadRequest, FieldError, InvalidArguments
from app.json_schema.error_messages import MAX_ERRORS, Hints, arguments_error, suggestion
from app.json_schema.references import resolve
from app.text import pointer

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
_MAX_NAME: Final = 100


@dataclass(frozen=True, slots=True)
class TextArguments:
    """Arguments as texts: those of each name in their order, at least one.

    `location` precedes the names in the pointers of errors, e.g. `#/query`. `reserved` are the further names
    that the interface accepts there; errors suggest them.
    """

    values: Mapping[str, Sequence[str]]
    location: str
    reserved: tuple[str, ...] = ()

    def merge(self, arguments: Any, plan: Plan) -> dict[str, Any]:
        """Return the arguments with the coerced texts as further members.

        Raises InvalidArguments with all errors (at most 50): `arguments` is not an object, a name is not an
        input of the tool or is also in `arguments`, or a text is no value of its input's type.
        """
        if not isinstance(arguments, dict):
            raise InvalidArguments(
                "The arguments must be a JSON object.", errors=[FieldError("", "Give an object.", "object")]
            )
        reader = _SchemaReader(plan.inputs)
        inputs = reader.properties(plan.inputs)
        hints = Hints([*inputs, *self.reserved])
        merged = dict(arguments)
        errors: list[FieldError] = []
        for name, texts in text_trees(self.values, inputs).items():
            at = pointer(self.location, name[:_MAX_NAME])
            if name not in inputs:
                hint = suggestion(hints.closest(name, hints.names))
                errors.append(FieldError(at, f"The tool has no input of this name.{hint}"))
            elif name in arguments:
                errors.append(FieldError(at, "This is also in the body: give it once."))
            else:
                try:
                    merged[name] = self._coerced(name, texts, inputs[name], reader, plan)
                except _CoercionError as error:
                    errors += [
                        FieldError(pointer(at, *error.path) + each.pointer, each.detail, each.expected)
                        for each in error.errors
                    ]
        if errors:
            raise arguments_error(errors[:MAX_ERRORS])
        return merged

    def relocate(self, error: InvalidArguments) -> InvalidArguments:
        """Return the error with pointers to these texts, where they point to members that came from them."""
        return arguments_error([self._relocated(each) for each in error.errors])

    def _relocated(self, error: FieldError) -> FieldError:
        escaped = error.pointer.split("/", 2)[1] if error.pointer else ""
        name = escaped.replace("~1", "/").replace("~0", "~")
        is_text = name in self.values or any(one.startswith(f"{name}[") for one in self.values)
        if not error.pointer or not is_text:
            return error
        return replace(error, pointer=self.location + error.pointer)

    def _coerced(self, name: str, texts: TextTree, schema: Any, reader: "_SchemaReader", plan: Plan) -> Any:
        if isinstance(texts, dict):
            return reader.members(texts, schema)
        candidates = reader.candidates(texts, schema)
        if len(candidates) > 1:
            for candidate in candidates:
                if plan.is_valid_input(name, candidate):
                    return candidate
        return candidates[0]


class _CoercionError(Exception):
    """A text is no value of the type that its schema requires; `path` leads to it within the argument."""

    def __init__(self, errors: Sequence[FieldError], path: tuple[int | str, ...] = ()) -> None:
        super().__init__()
        self.errors = errors
        self.path = path


class _SchemaReader:
    """Reads the types, properties and items of the schemas within `root`, in bounded time."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._schemas_left = _MAX_SCHEMAS

    def properties(self, schema: Any, depth: int = 0) -> dict[str, Any]:
        """Return the schemas of an object's properties by name, also those in references and alternatives."""
        found: dict[str, Any] = {}
        for part in self._parts(schema, depth):
            own = part.get("properties")
            for name, member in own.items() if isinstance(own, Mapping) else ():
                found.setdefault(name, member)
        return found

    def candidates(self, texts: Sequence[str], schema: Any, *, is_item: bool = False) -> list[Any]:
        """Return the values that the texts may stand for, the most likely first, at least one.

        A single text may also be the only item of a list, unless it is itself an item of one (`is_item`).
        Raises _CoercionError where there is no value.
        """
        types = self.types(schema)
        if len(texts) > 1:
            if "array" not in types:
                raise _CoercionError([FieldError("", "Give this once.", _expected(types))])
            return [[self._item(text, index, schema) for index, text in enumerate(texts)]]
        text = texts[0]
        found = list(self._scalars(text, types))
        errors: list[_CoercionError] = []
        for read in self._containers(text, types, schema, is_item=is_item):
            try:
                found.append(read())
            except _CoercionError as error:
                errors.append(error)
        if found:
            return found
        if errors:
            raise errors[0]
        detail = f"This must be of type {' or '.join(_named(types))}."
        raise _CoercionError([FieldError("", detail, _expected(types))])

    def members(self, tree: Mapping[str, TextTree], schema: Any) -> Any:
        """Return the list or object whose members were given by names with brackets.

        Raises _CoercionError where the schema allows neither, and for a list without one of its items.
        """
        types = self.types(schema)
        if ITEM in tree:
            if len(tree) > 1:
                raise _CoercionError([FieldError("", "Give the items with indices, or all of them without.")])
            texts = tree[ITEM]
            if "array" not in types or isinstance(texts, dict):
                raise _CoercionError([FieldError("", "This is not a list.", _expected(types))])
            return [self._item(text, index, schema) for index, text in enumerate(texts)]
        if "array" in types and all(_INDEX.fullmatch(key) for key in tree):
            absent = next(index for index in range(len(tree) + 1) if str(index) not in tree)
            if absent < len(tree):
                raise _CoercionError([FieldError("", f"The list has no item {absent}.", "array")])
            items = (
                (index, tree[str(index)], self._item_schema(schema, index)) for index in range(len(tree))
            )
            return [self._member(key, below, inner) for key, below, inner in items]
        if "object" not in types:
            raise _CoercionError([FieldError("", "This is not an object.", _expected(types))])
        named = self.properties(schema)
        others = self._other_members(schema)
        return {key: self._member(key, below, named.get(key, others)) for key, below in tree.items()}

    def _member(self, key: int | str, tree: TextTree, schema: Any) -> Any:
        try:
            return self.members(tree, schema) if isinstance(tree, dict) else self.candidates(tree, schema)[0]
        except _CoercionError as error:
            raise _CoercionError(error.errors, (key, *error.path)) from None

    def _other_members(self, schema: Any) -> Any:
        found = (part.get("additionalProperties") for part in self._parts(schema, 0))
        return next((one for one in found if isinstance(one, Mapping)), {})

    def types(self, schema: Any, depth: int = 0) -> frozenset[str]:
        """Return the types that a schema allows, as far as its keywords tell; all where they do not."""
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return _ALL_TYPES
        types = _ALL_TYPES
        if "type" in schema:
            types &= _type_names(schema["type"])
        if "const" in schema:
            types &= _types_of([schema["const"]])
        if isinstance(schema.get("enum"), list):
            types &= _types_of(schema["enum"])
        if isinstance(schema.get("$ref"), str):
            types &= self.types(self._target(schema["$ref"]), depth + 1)
        for member in _listed(schema, "allOf"):
            types &= self.types(member, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            members = _listed(schema, keyword)
            if members:
                types &= frozenset().union(*(self.types(member, depth + 1) for member in members))
        if types == _ALL_TYPES:
            types &= frozenset(_IMPLIED_TYPES[key] for key in schema if key in _IMPLIED_TYPES) or _ALL_TYPES
        return types

    def _scalars(self, text: str, types: frozenset[str]) -> Iterator[Any]:
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
            yield _json(text)
        elif float(text).is_integer() and abs(float(text)) < _EXACT:
            # An integer in JSON Schema, which Python's clients write with a fraction (`2.0`).
            yield int(float(text))

    def _containers(
        self, text: str, types: frozenset[str], schema: Any, *, is_item: bool
    ) -> Iterator[Callable[[], Any]]:
        """Yield functions that return the text as an object or a list; they raise _CoercionError."""
        begin = text.lstrip()[:1]
        if (begin == "{" and "object" in types) or (begin == "[" and "array" in types):
            yield partial(_json, text)
        if "array" in types and not is_item:
            yield lambda: [self._item(text, 0, schema)]

    def _item(self, text: str, index: int, schema: Any) -> Any:
        try:
            return self.candidates([text], self._item_schema(schema, index), is_item=True)[0]
        except _CoercionError as error:
            raise _CoercionError(error.errors, (index, *error.path)) from None

    def _item_schema(self, schema: Any, index: int) -> Any:
        for part in self._parts(schema, 0):
            prefix = part.get("prefixItems")
            if isinstance(prefix, list) and index < len(prefix):
                return prefix[index]
            if "items" in part:
                return part["items"]
        return {}

    def _parts(self, schema: Any, depth: int) -> Iterator[Mapping[str, Any]]:
        """Yield the schema, and the schemas that it refers to or combines."""
        self._schemas_left -= 1
        if self._schemas_left < 0 or depth > _MAX_DEPTH or not isinstance(schema, Mapping):
            return
        yield schema
        if isinstance(schema.get("$ref"), str):
            yield from self._parts(self._target(schema["$ref"]), depth + 1)
        for keyword in ("allOf", "anyOf", "oneOf"):
            for member in _listed(schema, keyword):
                yield from self._parts(member, depth + 1)

    def _target(self, reference: str) -> Any:
        try:
            return resolve(self._root, reference)
        except (LookupError, ValueError):
            return {}


def _json(text: str) -> Any:
    try:
        return parse_arguments(text.encode())
    except InvalidArguments as error:
        raise _CoercionError(error.errors) from None
    except BadRequest:
        raise _CoercionError([FieldError("", "This is not valid JSON.")]) from None


def _listed(schema: Mapping[str, Any], keyword: str) -> list[Any]:
    members = schema.get(keyword)
    return members if isinstance(members, list) else []


def _type_names(value: Any) -> frozenset[str]:
    names = frozenset([value] if isinstance(value, str) else value if isinstance(value, list) else _ALL_TYPES)
    return names | {"integer"} if "number" in names else names


def _types_of(values: list[Any]) -> frozenset[str]:
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


def _named(types: frozenset[str]) -> list[str]:
    return sorted(types - {"integer"} if "number" in types else types) or ["none"]


def _expected(types: frozenset[str]) -> Any:
    names = _named(types)
    return names[0] if len(names) == 1 else names
