"""An error of jsonschema-rs -> the faults that a caller reads. None repeats a value: it may be a secret."""

import difflib
import heapq
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema_rs import ValidationError

from app.errors import Fault
from app.text import pointer

MOST_FAULTS: Final = 50
SEVERAL_FIT: Final = "This fits several of the alternatives; it must fit exactly one."
_MOST_CHOICES: Final = 30
_MOST_COMPARED: Final = 500
_LONGEST_COMPARED: Final = 64


class Hints:
    """Guesses at what was meant, for the first few faults of one check: comparing texts is slow.

    `names` are those that may stand at the root of the arguments.
    """

    __slots__ = ("_left", "names")

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._left = 5

    def closest(self, given: str, names: list[str]) -> str:
        """A sentence that names the nearest of `names`, or nothing. Takes up to 1 ms."""
        if self._left == 0 or not names:
            return ""
        self._left -= 1
        pairs = _pairs(given)
        likely = [name for name in names[:_MOST_COMPARED] if len(name) <= _LONGEST_COMPARED]
        likely = heapq.nlargest(10, likely, key=lambda name: len(pairs & _pairs(name)) / (len(name) + 1))
        found = difflib.get_close_matches(given[:_LONGEST_COMPARED], likely, n=1, cutoff=0.6)
        return f" Did you mean {found[0]}?" if found else ""


def _pairs(text: str) -> set[str]:
    lowered = text[:_LONGEST_COMPARED].lower()
    return {lowered[index : index + 2] for index in range(len(lowered) - 1)} or {lowered}


def faults_of(error: ValidationError, instance: Any, hints: Hints, *, base: str = "") -> Iterator[Fault]:
    """The faults that an error of `instance` is, whose own JSON pointer is `base`."""
    at = pointer(base, *error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            yield missing(kind.value, at)
        case "additionalProperties" | "unevaluatedProperties":
            yield from unknown(kind.unexpected, at, hints)  # type: ignore[attr-defined]
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # What jsonschema-rs says, without a name, of a schema that lists no properties at all.
            yield from unknown(list(_node(instance, error.instance_path)), at, hints)
        case "anyOf" | "oneOf":
            yield from _alternatives(error, instance, hints, at=at, base=base)
        case "enum":
            yield _enum(error, at, hints)
        case _:
            describe = _SENTENCES.get(kind.name)
            if describe is None:
                yield Fault(at, f"This does not meet the schema's {kind.name}.")
            else:
                detail, expected = describe(error)
                yield Fault(at, detail, expected)


def missing(name: Any, at: str) -> Fault:
    """The fault of a property that is required in the object at `at`."""
    return Fault(pointer(at, _short(name)), "This is required.", "a value")


def unknown(given: list[str], at: str, hints: Hints) -> Iterator[Fault]:
    """The faults of properties that may not stand in the object at `at`."""
    names = [] if at else hints.names
    for name in given[:MOST_FAULTS]:
        yield Fault(pointer(at, _short(name)), f"No such property is known here.{hints.closest(name, names)}")


_WRONG_TYPE: Final = "This must be of type "


def is_wrong_type(fault: Fault) -> bool:
    """Whether the fault is that a value has another type."""
    return fault.detail.startswith(_WRONG_TYPE)


def wrong_type(types: list[str], at: str) -> Fault:
    """The fault of a value where all alternatives want other types."""
    return Fault(at, f"{_WRONG_TYPE}{' or '.join(types)}.", types)


def _alternatives(
    error: ValidationError, instance: Any, hints: Hints, *, at: str, base: str
) -> Iterator[Fault]:
    """The faults of the alternative that came nearest, which is the one that was most likely meant."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    failed = [branch for branch in branches if branch]
    if error.kind.name == "oneOf" and len(failed) < len(branches):
        yield Fault(at, SEVERAL_FIT)
        return
    wanted = [_types_of(branch, error.instance_path) for branch in failed]
    if wanted and all(wanted):
        yield wrong_type(sorted({name for names in wanted for name in names}), at)
        return
    yield none_fits(len(branches), at)
    # An alternative of another type is further away than any with faults inside; fewer faults are nearer.
    ranked = sorted(zip(wanted, failed, strict=True), key=lambda pair: (bool(pair[0]), len(pair[1])))
    nearest = ranked[0][1] if ranked else []
    for inner in islice(nearest, MOST_FAULTS):
        yield from faults_of(inner, instance, hints, base=base)


def none_fits(count: int, at: str) -> Fault:
    """The fault of a value that fits no alternative, of which one is explained by more faults."""
    return Fault(at, f"This fits none of the {count} alternatives; the nearest one is explained.")


def _node(arguments: Any, path: list[str | int]) -> Any:
    node = arguments
    for key in path:
        node = node[key]
    return node


def _types_of(branch: list[ValidationError], path: list[str | int]) -> list[str]:
    """The types that an alternative wanted at its root (`path`), if that is all it complains of."""
    if len(branch) == 1 and branch[0].kind.name == "type" and branch[0].instance_path == path:
        return list(branch[0].kind.types)  # type: ignore[attr-defined]
    return []


def _short(name: Any) -> str:
    return str(name)[:100]


def _type(error: ValidationError) -> tuple[str, Any]:
    types: list[str] = error.kind.types  # type: ignore[attr-defined]
    detail = f"{_WRONG_TYPE}{' or '.join(types)}."
    given = error.instance
    if isinstance(given, str):
        if {"integer", "number", "boolean"}.intersection(types):
            detail += " Text was given: leave out the quotes."
        elif {"object", "array"}.intersection(types) and given.lstrip()[:1] in ("{", "["):
            detail += " Text was given: give the JSON itself, not a string that holds it."
    elif "array" in types:
        detail += " Put a single value into a list."
    return detail, types[0] if len(types) == 1 else types


def _enum(error: ValidationError, at: str, hints: Hints) -> Fault:
    options: list[Any] = error.kind.options  # type: ignore[attr-defined]
    texts = [option for option in options if isinstance(option, str)]
    given = error.instance
    hint = hints.closest(given, texts) if isinstance(given, str) else ""
    return Fault(at, f"This must be one of the listed values.{hint}", options[:_MOST_CHOICES])


def _limit(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    def describe(error: ValidationError) -> tuple[str, Any]:
        return sentence.format(error.kind.value), error.kind.value

    return describe


def _plain(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    return lambda _: (sentence, None)


_SENTENCES: Final[Mapping[str, Callable[[ValidationError], tuple[str, Any]]]] = {
    "type": _type,
    "const": lambda error: ("This must be the one listed value.", error.kind.value),
    "minimum": _limit("This must be at least {}."),
    "maximum": _limit("This must be at most {}."),
    "exclusiveMinimum": _limit("This must be greater than {}."),
    "exclusiveMaximum": _limit("This must be less than {}."),
    "multipleOf": _limit("This must be a multiple of {}."),
    "minLength": _limit("This must have at least {} characters."),
    "maxLength": _limit("This must have at most {} characters."),
    "minItems": _limit("This must have at least {} items."),
    "maxItems": _limit("This must have at most {} items."),
    "minProperties": _limit("This must have at least {} properties."),
    "maxProperties": _limit("This must have at most {} properties."),
    "pattern": _limit("This must match the regular expression {}"),
    "format": _limit("This must have the format {}."),
    "uniqueItems": _plain("The items must differ from one another."),
    "contains": _plain("None of the items is what one of them must be."),
    "not": _plain("This is what the schema rules out."),
    "falseSchema": _plain("Nothing may be given here."),
    "propertyNames": _plain("A property has a name that is not allowed."),
    "dependentRequired": _plain("Another property is required together with this one."),
}
