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
from app.formats.json_schema.error_cost import is_affordable
from app.formats.json_schema.error_messages import (
    MAX_ERRORS,
    SEVERAL_MATCH,
    Hints,
    is_wrong_type,
    list_field_errors,
    report_missing_property,
    report_no_match,
    report_unknown_properties,
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

    def find_errors(self, arguments: dict[str, Any]) -> Iterator[FieldError]:
        """Yield the errors of arguments that are not valid, at least one, within about the time of a
        search.
        """
        names = self.schema.get("properties")
        hints = Hints(list(names) if isinstance(names, Mapping) else [])
        yield from _SearchRun(self, hints, self._seconds).find_errors("", self.schema, arguments, "", 0)

    def is_valid_at(self, location: str, instance: Any) -> bool:
        """Return whether the instance is valid for the subschema at a JSON pointer into the schema."""
        return self.get_validator(location).is_valid(instance)

    def get_validator(self, location: str) -> Draft202012Validator:
        """Return the validator of the subschema at a JSON pointer; raise ValueError where there is none."""
        validator_of_location = self._validators.get(location)
        if validator_of_location is None:
            reference = {"$ref": f"{_ROOT}#{quote(location, safe='/~')}"}
            validator_of_location = self._validators[location] = self._compile(reference, self._registry)
            if len(self._validators) > 2000:
                del self._validators[next(iter(self._validators))]
        return validator_of_location

    def compile_shallow(self, schema: Mapping[str, Any]) -> Draft202012Validator:
        """Return a validator of only those keywords that do not depend on the values of the members."""
        keywords = {name: value for name, value in schema.items() if name in _SHALLOW}
        return self._compile(keywords, self._registry)

    def get_target(self, reference: str) -> tuple[str, Any]:
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

    def find_errors(
        self, location: str, schema: Any, instance: Any, instance_pointer: str, depth: int
    ) -> Iterator[FieldError]:
        """Yield the errors of an instance that is not valid for the subschema at `location`.

        `instance_pointer` is the JSON pointer to the instance.
        """
        has_errors = False
        try:
            for error in self._search(location, schema, instance, instance_pointer, depth):
                has_errors = True
                yield error
        except (LookupError, ValueError):
            # A reference that is not local, or a subschema that cannot be compiled by itself.
            pass
        if not has_errors:
            yield FieldError(instance_pointer, _UNEXPLAINED)

    def _search(
        self, location: str, schema: Any, instance: Any, instance_pointer: str, depth: int
    ) -> Iterator[FieldError]:
        if depth > _MAX_DEPTH or time.thread_time() > self._deadline:
            return
        if is_affordable(self._parent.schema, schema, instance, limit=_MAX_COST):
            for error in self._parent.get_validator(location).iter_errors(instance):
                yield from list_field_errors(error, instance, self._hints, base=instance_pointer)
            return
        if not isinstance(schema, dict):
            yield FieldError(instance_pointer, "No value is allowed here.")
            return
        yield from self._list_own_errors(schema, instance, instance_pointer)
        for sub_location, subschema in self._list_applied_in_place(location, schema, instance):
            if not self._parent.is_valid_at(sub_location, instance):
                yield from self.find_errors(sub_location, subschema, instance, instance_pointer, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._search_alternatives(
                    pointer(location, keyword), schema[keyword], instance, instance_pointer, depth
                )
        for key, sub_location, subschema in _list_members(location, schema, instance):
            if time.thread_time() > self._deadline:
                return
            if not self._parent.is_valid_at(sub_location, instance[key]):
                yield from self.find_errors(
                    sub_location, subschema, instance[key], pointer(instance_pointer, key), depth + 1
                )

    def _list_own_errors(
        self, schema: dict[str, Any], instance: Any, instance_pointer: str
    ) -> Iterator[FieldError]:
        """Yield the errors that do not depend on the values of the members."""
        bare = instance
        if isinstance(instance, dict):
            yield from (
                report_missing_property(name, instance_pointer)
                for name in schema.get("required") or ()
                if name not in instance
            )
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                listed = schema.get("properties") or {}
                yield from report_unknown_properties(
                    [name for name in instance if name not in listed], instance_pointer, self._hints
                )
            bare = dict.fromkeys(instance)
        elif isinstance(instance, list):
            bare = [None] * len(instance)
        for error in self._parent.compile_shallow(schema).iter_errors(bare):
            yield from list_field_errors(error, bare, self._hints, base=instance_pointer)

    def _list_applied_in_place(
        self, location: str, schema: dict[str, Any], instance: Any
    ) -> Iterator[tuple[str, Any]]:
        """Yield the subschemas that apply to the instance itself, with their locations."""
        if "$ref" in schema:
            yield self._parent.get_target(schema["$ref"])
        for index, subschema in enumerate(schema.get("allOf") or ()):
            yield pointer(location, "allOf", index), subschema
        if "if" in schema:
            keyword = "then" if self._parent.is_valid_at(pointer(location, "if"), instance) else "else"
            if keyword in schema:
                yield pointer(location, keyword), schema[keyword]

    def _search_alternatives(
        self, location: str, branches: list[Any], instance: Any, instance_pointer: str, depth: int
    ) -> Iterator[FieldError]:
        matching = sum(
            self._parent.is_valid_at(pointer(location, index), instance) for index in range(len(branches))
        )
        if matching:
            if matching > 1 and location.endswith("/oneOf"):
                yield FieldError(instance_pointer, SEVERAL_MATCH)
            return
        yield report_no_match(len(branches), instance_pointer)
        # An alternative of the right type whose required properties are all present is the closest.
        nearest = min(
            range(len(branches)), key=lambda index: self._measure_distance(branches[index], instance)
        )
        nearest_location = pointer(location, nearest)
        yield from self.find_errors(
            nearest_location, branches[nearest], instance, instance_pointer, depth + 1
        )

    def _measure_distance(self, schema: Any, instance: Any) -> int:
        """Return the number of errors of an alternative without those of members; 1000 for one of another
        type.
        """
        for _ in range(8):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            _, schema = self._parent.get_target(schema["$ref"])
        if not isinstance(schema, dict):
            return 1000
        own_errors = list(islice(self._list_own_errors(schema, instance, "/"), MAX_ERRORS))
        return 1000 if any(map(is_wrong_type, own_errors)) else len(own_errors)


def _list_members(location: str, schema: dict[str, Any], instance: Any) -> Iterator[tuple[Any, str, Any]]:
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
