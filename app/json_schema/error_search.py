"""Where arguments fail a schema, found in bounded time whatever the schema and the arguments are.

jsonschema-rs collects every error with everything below it, and copies the instance into each: where a schema
contains itself within alternatives, or a body has megabytes, that takes seconds to hours (measured: 1.2 s for
arguments 12 levels deep, 2.5 s for 100 missing properties of 570 KB), while its `is_valid` remembers what it
has judged and takes microseconds. So the price is estimated first, and where it is too high the failing
members are looked for with `is_valid`, one level at a time, until what is left is cheap.
"""

import time
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final
from urllib.parse import quote, unquote

from jsonschema_rs import Draft202012Validator, Registry

from app.errors import Fault
from app.json_schema.error_cost import affordable
from app.json_schema.error_messages import (
    MOST_FAULTS,
    SEVERAL_FIT,
    Hints,
    faults_of,
    is_wrong_type,
    missing,
    none_fits,
    unknown,
)
from app.json_schema.references import resolve
from app.text import pointer

_AFFORDABLE: Final = 15_000.0
"""Microseconds for the errors of one place."""
SECONDS: Final = 0.03
"""Of work for one search: it holds the event loop."""
_DEEPEST: Final = 100
_ROOT: Final = "urn:inputs"
# What can be judged from the kind, the names and the number of the members alone.
_SHALLOW: Final = frozenset({
    "type", "minProperties", "maxProperties", "minItems", "maxItems",
    "minLength", "maxLength", "pattern", "format", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf",
})  # fmt: skip
_NOT_FOUND: Final = "This does not fit the schema; it is too large or too deep to say what exactly is wrong."

Compile = Callable[[Any, Registry], Draft202012Validator]


class Narrowing:
    """The search for the faults of one schema; keeps the validators of the places it has looked at."""

    __slots__ = ("_compile", "_registry", "_seconds", "_validators", "schema")

    def __init__(
        self,
        schema: Mapping[str, Any],
        validator: Draft202012Validator,
        compile_schema: Compile,
        seconds: float = SECONDS,
    ) -> None:
        """`validator` is the schema's; `compile_schema` takes one, and a registry for its references.

        A search gives up after `seconds` of work.
        """
        self.schema = schema
        self._seconds = seconds
        self._compile = compile_schema
        self._registry = Registry([(_ROOT, dict(schema))])
        self._validators = {"": validator}

    def faults(self, arguments: dict[str, Any]) -> Iterator[Fault]:
        """The faults of arguments that do not fit, at least one, in about the seconds that a search has."""
        names = self.schema.get("properties")
        hints = Hints(list(names) if isinstance(names, Mapping) else [])
        yield from _Search(self, hints, self._seconds).faults("", self.schema, arguments, "", 0)

    def valid(self, place: str, instance: Any) -> bool:
        """Whether the instance fits the subschema at a JSON pointer into the schema."""
        return self.validator(place).is_valid(instance)

    def validator(self, place: str) -> Draft202012Validator:
        """The validator of the subschema at a JSON pointer; ValueError where there is none."""
        found = self._validators.get(place)
        if found is None:
            reference = {"$ref": f"{_ROOT}#{quote(place, safe='/~')}"}
            found = self._validators[place] = self._compile(reference, self._registry)
            if len(self._validators) > 2000:
                del self._validators[next(iter(self._validators))]
        return found

    def shallow(self, schema: Mapping[str, Any]) -> Draft202012Validator:
        """A validator of what needs no look at the members."""
        kept = {name: value for name, value in schema.items() if name in _SHALLOW}
        return self._compile(kept, self._registry)

    def target(self, reference: str) -> tuple[str, Any]:
        """The place that a local reference names, and the subschema there; LookupError if it is not local."""
        return unquote(reference[1:]), resolve(self.schema, reference)


class _Search:
    """One search, which gives up after so many seconds of work."""

    __slots__ = ("_deadline", "_hints", "_of")

    def __init__(self, of: Narrowing, hints: Hints, seconds: float) -> None:
        self._of = of
        self._hints = hints
        self._deadline = time.thread_time() + seconds

    def faults(self, place: str, schema: Any, instance: Any, at: str, depth: int) -> Iterator[Fault]:
        """The faults of an instance (at the pointer `at`) that does not fit the subschema at `place`."""
        found = False
        try:
            for fault in self._search(place, schema, instance, at, depth):
                found = True
                yield fault
        except (LookupError, ValueError):
            # A reference that is not local, or a subschema that cannot stand by itself.
            pass
        if not found:
            yield Fault(at, _NOT_FOUND)

    def _search(self, place: str, schema: Any, instance: Any, at: str, depth: int) -> Iterator[Fault]:
        if depth > _DEEPEST or time.thread_time() > self._deadline:
            return
        if affordable(self._of.schema, schema, instance, limit=_AFFORDABLE):
            for error in self._of.validator(place).iter_errors(instance):
                yield from faults_of(error, instance, self._hints, base=at)
            return
        if not isinstance(schema, dict):
            yield Fault(at, "Nothing may be given here.")
            return
        yield from self._of_itself(schema, instance, at)
        for sub_place, subschema in self._same(place, schema, instance):
            if not self._of.valid(sub_place, instance):
                yield from self.faults(sub_place, subschema, instance, at, depth + 1)
        for keyword in ("anyOf", "oneOf"):
            if keyword in schema:
                yield from self._alternatives(pointer(place, keyword), schema[keyword], instance, at, depth)
        for key, sub_place, subschema in _below(place, schema, instance):
            if time.thread_time() > self._deadline:
                return
            if not self._of.valid(sub_place, instance[key]):
                yield from self.faults(sub_place, subschema, instance[key], pointer(at, key), depth + 1)

    def _of_itself(self, schema: dict[str, Any], instance: Any, at: str) -> Iterator[Fault]:
        """What is wrong whatever the members are."""
        bare = instance
        if isinstance(instance, dict):
            yield from (missing(name, at) for name in schema.get("required") or () if name not in instance)
            if schema.get("additionalProperties") is False and "patternProperties" not in schema:
                listed = schema.get("properties") or {}
                yield from unknown([name for name in instance if name not in listed], at, self._hints)
            bare = dict.fromkeys(instance)
        elif isinstance(instance, list):
            bare = [None] * len(instance)
        for error in self._of.shallow(schema).iter_errors(bare):
            yield from faults_of(error, bare, self._hints, base=at)

    def _same(self, place: str, schema: dict[str, Any], instance: Any) -> Iterator[tuple[str, Any]]:
        """Subschemas that the instance itself must fit, with their places."""
        if "$ref" in schema:
            yield self._of.target(schema["$ref"])
        for index, subschema in enumerate(schema.get("allOf") or ()):
            yield pointer(place, "allOf", index), subschema
        if "if" in schema:
            keyword = "then" if self._of.valid(pointer(place, "if"), instance) else "else"
            if keyword in schema:
                yield pointer(place, keyword), schema[keyword]

    def _alternatives(
        self, place: str, branches: list[Any], instance: Any, at: str, depth: int
    ) -> Iterator[Fault]:
        fitting = sum(self._of.valid(pointer(place, index), instance) for index in range(len(branches)))
        if fitting:
            if fitting > 1 and place.endswith("/oneOf"):
                yield Fault(at, SEVERAL_FIT)
            return
        yield none_fits(len(branches), at)
        # Of the right kind and with all that is required is nearer than anything else.
        nearest = min(range(len(branches)), key=lambda index: self._distance(branches[index], instance))
        nearest_place = pointer(place, nearest)
        yield from self.faults(nearest_place, branches[nearest], instance, at, depth + 1)

    def _distance(self, schema: Any, instance: Any) -> int:
        """How many faults an alternative has in itself; 1000 for one of another type."""
        for _ in range(8):
            if not isinstance(schema, dict) or "$ref" not in schema:
                break
            _, schema = self._of.target(schema["$ref"])
        if not isinstance(schema, dict):
            return 1000
        found = list(islice(self._of_itself(schema, instance, "/"), MOST_FAULTS))
        return 1000 if any(map(is_wrong_type, found)) else len(found)


def _below(place: str, schema: dict[str, Any], instance: Any) -> Iterator[tuple[Any, str, Any]]:
    """The key of each member, with the place and the subschema that it must fit."""
    if isinstance(instance, dict):
        listed = schema.get("properties") or {}
        rest = schema.get("additionalProperties") if "patternProperties" not in schema else None
        for name in instance:
            if name in listed:
                yield name, pointer(place, "properties", name), listed[name]
            elif isinstance(rest, dict):
                yield name, pointer(place, "additionalProperties"), rest
    elif isinstance(instance, list):
        first = schema.get("prefixItems") or []
        for index in range(len(instance)):
            if index < len(first):
                yield index, pointer(place, "prefixItems", index), first[index]
            elif "items" in schema:
                yield index, pointer(place, "items"), schema["items"]
