"""Finds the errors of arguments in bounded time, whatever the schema and the arguments are.

jsonschema-rs collects every error with all errors below it, and copies the instance into each: where a schema
contains itself within alternatives, or a body has megabytes, that takes seconds to hours (measured: 1.2 s for
arguments 12 levels deep, 2.5 s for 100 missing properties of 570 KB), while its `is_valid` caches its results
and takes microseconds. So the cost is estimated first, and where it is too high the failing members are
located with `is_valid`, one level at a time, until collecting the remaining errors is cheap.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote

from jsonschema_rs import Draft202012Validator, Registry

from app.core.errors import FieldError
from app.core.text import pointer
from app.formats.json_schema.error_cost import affordable
from app.formats.json_schema.error_messages import (
    MAX_ERRORS,
    SEVERAL_MATCH,
    Hints,
    field_errors,
    is_wrong_type,
    missing_property,
    no_match,
    unknown_properties,
)
from app.formats.json_schema.references import resolve

_MAX_COST: Final = 15_000.0
"""Microseconds for collecting the errors of one value."""
MAX_SECONDS: Final = 0.03
"""CPU seconds for one search, which blocks the event loop."""
_MAX_DEPTH: Final = 100
_ROOT: Final = "urn:inputs"
# Keywords that can be checked with the type, the names and the number of the members alone.
_SHALLOW: Final = frozenset({
    "type", "minProperties", "maxProperties", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf",
})  # fmt: skip
_UNEXPLAINED: Final = "This does not fit the schema; it is too large or too deep to find the exact errors."

Compile = Callable[[Any, Registry], Draft202012Validator]


class ErrorSearch:
    """Finds errors for one schema; caches the validators of the subschemas that it has used."""

    __slots__ = ("_compile", "_registry", "_seconds", "_validators", "schema")

    def __init__(
        self,
        schema: Mapping[str, Any],
        validator: Draft202012Validator,
        compile_schema: Compile,
        seconds: float = MAX_SECONDS,
    ) -> None:
        """`validator` is that of `schema`; `compile_schema` compiles a subschema with a registry for its
        references.

        A search gives up after `seconds` of CPU time.
        """
        self.schema = schema
        self._seconds = seconds
        self._compile = compile_schema
        self._registry = Registry([(_ROOT, dict(schema))])
        self._validators = {"": validator}

    def errors(self, arguments: dict[str, Any]) -> Iterator[FieldError]:
        """Yield the errors of arguments that are not valid, at least one, within about the time of a
        search.
        """
        names = self.schema.get("properties")
        hints = Hints(list(names) if isinstance(names, Mapping) else [])
        yield from _SearchRun(self, hints, self._seconds).errors("", self.schema, arguments, "", 0)

    def valid(self, location: str, instance: Any) -> bool:
        """Return whether the instance is valid for the subschema at a JSON pointer into the schema."""
        return self.validator(location).is_valid(instance)

    def validator(self, location: str) -> Draft202012Validator:
        """Return the validator of the subschema at a JSON pointer; raise ValueError where there is none."""
        found = self._validators.get(location)
        if found is None:
            reference = {"$ref": f"{_ROOT}#{quote(location, safe='/~')}"}
            found = self._validators[location] = self._compile(reference, self._registry)
            if len(self._validators) > 2000:
                del self._validators[next(iter(self._validators))]
        return found

    def shallow(self, schema: Mapping[str, Any]) -> Draft202012Validator:
        """Return a validator of only those keywords that do not depend on the values of the members."""
        keywords = {name: value for name, value in schema.items() if name in _SHALLOW}
        return self._compile(keywords, self._registry)

    def target(self, reference: str) -> tuple[str, Any]:
        """Return the JSON pointer and the subschema that a local reference names; raise LookupError for
        others.
        """
        return unquote(reference[1:]), resolve(self.schema, reference)


class _SearchRun:
    """One search, which gives up after `seconds` of CPU time."""

    __slots__ = ("_deadline", "_hints", "_parent")

    def __init__(self, parent: ErrorSearch, hints: Hints, seconds: float) -> None:
        self._parent = parent
        self._hints = hints
        self._deadline = time.thread_time() + seconds

    def errors(self, location: str, schema: Any, instance: Any, at: str, depth: int) -> Iterator[FieldError]:
        """Yield the errors of an instance (at the pointer `at`) that is not valid for the subschema at
        `location`.
        """
        found = False
        try:
            for error in self._search(location, schema, instance, at, depth):
                found = True
                yield error
        except (LookupError, ValueError):
            # A reference that is not local, or a subschema that cannot be compiled by itself.
            pass
        if not found:
            yield FieldError(at, _UNEXPLAINED)

    def _search(self, location: str, schema: Any, instance: Any, at: str, depth: int) -> Iterator[FieldError]:
        if depth > _MAX_DEPTH or time.thread_time() > self._deadline:
            return
        if affordable(self._parent.schema, schema, instance, limit=_MAX_COST):
            for error in self._parent.validator(location).iter_errors(instance):
                yield from field_errors(error, instance, self._hints, base=at)
            return
        if not isinstance(schema, dict):
            yield FieldError(at, "No value is allowed here.")
            return
        yield from self._own_errors(schema, instance, at)
        for sub_location, subschema in self._applied_in_place(location, schema, instance):
            if not self._parent.valid(sub_location, instance):
                yield from self.errors(sub_location, subschema, instance, at, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._alternatives(
                    pointer(location, keyword), schema[keyword], instance, at, depth
                )
        for key, sub_location, subschema in _members(location, schema, instance):
            if time.thread_time() > self._deadline:
                return
            if not self._parent.valid(sub_location, instance[key]):
                yield from self.errors(sub_location, subschema, instance[key], pointer(at, key), depth + 1)

    def _own_errors(self, schema: dict[str, Any], instance: Any, at: str) -> Iterator[FieldError]:
        """Yield the errors that do not depend on the values of the members."""
        bare = instance
        if isinstance(instance, dict):
            yield from (
                missing_property(name, at) for name in schema.get("required") or () if name not in instance
            )
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                listed = schema.get("properties") or {}
                yield from unknown_properties(
                    [name for name in instance if name not in listed], at, self._hints
                )
            bare = dict.fromkeys(instance)
        elif isinstance(instance, list):
            bare = [None] * len(instance)
        for error in self._parent.shallow(schema).iter_errors(bare):
            yield from field_errors(error, bare, self._hints, base=at)

    def _applied_in_place(
        self, location: str, schema: dict[str, Any], instance: Any
    ) -> Iterator[tuple[str, Any]]:
        """Yield the subschemas that apply to the instance itself, with their locations."""
        if "$ref" in schema:
            yield self._parent.target(schema["$ref"])
        for index, subschema in enumerate(schema.get("allOf") or ()):
            yield pointer(location, "allOf", index), subschema
        if "if" in schema:
            keyword = "then" if self._parent.valid(pointer(location, "if"), instance) else "else"
            if keyword in schema:
                yield pointer(location, keyword), schema[keyword]

    def _alternatives(
        self, location: str, branches: list[Any], instance: Any, at: str, depth: int
    ) -> Iterator[FieldError]:
        matching = sum(
            self._parent.valid(pointer(location, index), instance) for index in range(len(branches))
        )
        if matching:
            if matching > 1 and location.endswith("/oneOf"):
                yield FieldError(at, SEVERAL_MATCH)
            return
        yield no_match(len(branches), at)
        # An alternative of the right type whose required properties are all present is the closest.
        nearest = min(range(len(branches)), key=lambda index: self._distance(branches[index], instance))
        nearest_location = pointer(location, nearest)
        yield from self.errors(nearest_location, branches[nearest], instance, at, depth + 1)

    def _distance(self, schema: Any, instance: Any) -> int:
        """Return the number of errors of an alternative without those of members; 1000 for one of another
        type.
        """
        for _ in range(8):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            _, schema = self._parent.target(schema["$ref"])
        if not isinstance(schema, dict):
            return 1000
        found = list(islice(self._own_errors(schema, instance, "/"), MAX_ERRORS))
        return 1000 if any(map(is_wrong_type, found)) else len(found)


def _members(location: str, schema: dict[str, Any], instance: Any) -> Iterator[tuple[Any, str, Any]]:
    """Yield the key of each member, with the location and the schema of the subschema that applies to it."""
    if isinstance(instance, dict):
        listed = schema.get("properties") or {}
        rest = schema.get("additionalProperties") if "patternProperties" not in schema else None
        for name in instance:
            if name in listed:
                yield name, pointer(location, "properties", name), listed[name]
            elif isinstance(rest, dict):
                yield name, pointer(location, "additionalProperties"), rest
    elif isinstance(instance, list):
        first = schema.get("prefixItems") or []
        for index in range(len(instance)):
            if index < len(first):
                yield index, pointer(location, "prefixItems", index), first[index]
            elif "items" in schema:
                yield index, pointer(location, "items"), schema["items"]
