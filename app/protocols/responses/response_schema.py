"""What the schema of a response says of values that arrive as text: their types, members and items."""

import math
import re
from collections.abc import Iterator, Mapping
from functools import cached_property
from typing import Any, Final

import orjson

from app.formats.json_schema.references import resolve

_INTEGER: Final = re.compile(r"[+-]?[0-9]{1,100}")
_MAX_PARTS: Final = 200
_ANY: Final[Mapping[str, Any]] = {}
_BOOLEANS: Final = {"true": True, "false": False, "1": True, "0": False}
_MIN_INTEGER: Final = -(2**63)
_MAX_INTEGER: Final = 2**64


class ResponseSchema:
    """A JSON Schema (2020-12) as a guide for decoding; what it contains is looked at when it is first used.

    A value has the types of all parts: those of `$ref`, `allOf`, `anyOf` and `oneOf`. `known` are the schemas
    of the document that have been in use, by identity: a schema that contains itself is one object, however
    deep the values are.
    """

    def __init__(
        self, schema: Any, document: Mapping[str, Any], known: "dict[int, ResponseSchema] | None" = None
    ) -> None:
        self._schema = schema
        self._document = document
        self._known = {} if known is None else known

    def _inner(self, schema: Any) -> "ResponseSchema":
        found = self._known.get(id(schema))
        if found is None:
            # It holds the schema, whose identity therefore stays its own.
            found = self._known[id(schema)] = ResponseSchema(schema, self._document, self._known)
        return found

    @cached_property
    def _parts(self) -> list[Mapping[str, Any]]:
        return list(_parts(self._schema, self._document))

    @cached_property
    def types(self) -> frozenset[str]:
        """The types that the value may have; empty where the schema does not say."""
        found: set[str] = set()
        for part in self._parts:
            kinds = part.get("type")
            listed = kinds if isinstance(kinds, list) else [kinds]
            found.update(one for one in listed if isinstance(one, str))
        return frozenset(found)

    @cached_property
    def properties(self) -> "dict[str, ResponseSchema]":
        """The members of an object by name."""
        found: dict[str, ResponseSchema] = {}
        for part in self._parts:
            members = part.get("properties")
            for name, one in members.items() if isinstance(members, Mapping) else ():
                found.setdefault(name, self._inner(one))
        return found

    @cached_property
    def required(self) -> frozenset[str]:
        """The names of members that every value has."""
        listed = [part["required"] for part in self._parts if isinstance(part.get("required"), list)]
        return frozenset(name for names in listed for name in names if isinstance(name, str))

    @cached_property
    def items(self) -> "ResponseSchema":
        """The items of a list."""
        found: Any = next((part["items"] for part in self._parts if "items" in part), _ANY)
        return self._inner(found)

    @property
    def is_array(self) -> bool:
        """Whether the value is a list."""
        return "array" in self.types or (
            not self.types and not self.properties and any("items" in part for part in self._parts)
        )

    @property
    def is_object(self) -> bool:
        """Whether the value may be an object."""
        return "object" in self.types or bool(self.properties)

    def coerce(self, text: str) -> Any:
        """Return a text as the value of one of the types, or unchanged where it is none of them."""
        types = self.types
        if "string" in types or not types:
            return text
        word = text.strip()
        if not word and "null" in types:
            return None
        if "boolean" in types and word in _BOOLEANS and (len(word) > 1 or not types & {"integer", "number"}):
            return _BOOLEANS[word]
        if types & {"integer", "number"} and (number := _number(word)) is not None:
            return number
        if types & {"array", "object"} and word[:1] in ("[", "{"):
            try:
                return orjson.loads(word)
            except orjson.JSONDecodeError:
                return text
        return None if word == "null" and "null" in types else text


def _number(word: str) -> int | float | None:
    if _INTEGER.fullmatch(word):
        number = int(word)
        return number if _MIN_INTEGER <= number < _MAX_INTEGER else None
    if len(word) > 100 or not word[-1:].isdigit():
        return None
    try:
        value = float(word)
    except ValueError:
        return None
    return value if math.isfinite(value) and "_" not in word else None


def _parts(schema: Any, document: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield a schema and those that apply to the same value, through local references."""
    stack, seen = [schema], set[int]()
    while stack and len(seen) < _MAX_PARTS:
        one = stack.pop()
        if not isinstance(one, Mapping) or id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        for word in ("oneOf", "anyOf", "allOf"):
            if isinstance(one.get(word), list):
                stack.extend(reversed(one[word]))
        if isinstance(one.get("$ref"), str):
            try:
                stack.append(resolve(document, one["$ref"]))
            except LookupError:
                continue
