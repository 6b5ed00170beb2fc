"""Translates errors of jsonschema-rs into field errors for clients. None repeats a value: it may be a
secret.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, Final

from jsonschema_rs import ValidationError

from app.core.errors import FieldError, InvalidArguments
from app.core.suggestions import did_you_mean, find_similar
from app.core.text import pointer

MAX_ERRORS: Final = 50
SEVERAL_MATCH: Final = "This matches several of the alternatives; it must match exactly one."
_MAX_CHOICES: Final = 30
_MAX_COMPARED: Final = 500


def build_arguments_error(errors: Iterable[FieldError]) -> InvalidArguments:
    """Return the error of arguments that have these errors, at least one; its detail is the first of them."""
    listed = list(errors)
    first = listed[0]
    where = f"{first.pointer}: " if first.pointer else ""
    more = f" (and {len(listed) - 1} more)" if len(listed) > 1 else ""
    return InvalidArguments(f"{where}{first.detail}{more}", errors=listed)


class Hints:
    """Suggestions of what was meant, for the first five errors of one check: comparing texts is slow.

    `names` are the properties allowed at the root of the arguments.
    """

    __slots__ = ("_left", "names")

    def __init__(self, names: list[str]) -> None:
        self.names = names
        self._left = 5

    def find_closest(self, text: str, names: list[str]) -> str | None:
        """Return the name closest to `text`, None where there is none. Takes up to 1 ms."""
        if self._left == 0 or not names:
            return None
        self._left -= 1
        similar = find_similar(text, names[:_MAX_COMPARED])
        return similar[0] if similar else None


def write_suggestion(nearest: str | None) -> str:
    """Return a sentence that suggests a name, with a blank before it; "" for none."""
    return "" if nearest is None else f" {did_you_mean([nearest])}"


def list_field_errors(
    error: ValidationError, instance: Any, hints: Hints, *, base: str = ""
) -> Iterator[FieldError]:
    """Yield the field errors of a validation error of `instance`, which is at the JSON pointer `base`."""
    location = pointer(base, *error.instance_path)
    kind = error.kind
    match kind.name:
        case "required":
            yield report_missing_property(kind.value, location)
        case "additionalProperties" | "unevaluatedProperties":
            yield from report_unknown_properties(kind.unexpected, location, hints)  # type: ignore[attr-defined]
        case "falseSchema" if error.schema_path[-1:] == ["additionalProperties"]:
            # The error of jsonschema-rs for a schema that lists no properties; it contains no names.
            yield from report_unknown_properties(
                list(_get_node(instance, error.instance_path)), location, hints
            )
        case "anyOf" | "oneOf":
            yield from _report_alternatives(error, instance, hints, location=location, base=base)
        case "enum":
            yield _report_enum(error, location, hints)
        case _:
            describe = _SENTENCES.get(kind.name)
            if describe is None:
                yield FieldError(location, f"This does not meet the schema's {kind.name}.")
            else:
                detail, expected = describe(error)
                yield FieldError(location, detail, expected)


def report_missing_property(name: Any, location: str) -> FieldError:
    """Return the error of a property that is required in the object at `location`."""
    return FieldError(pointer(location, _shorten_name(name)), "This is required.", "a value")


def report_unknown_properties(unknown: list[str], location: str, hints: Hints) -> Iterator[FieldError]:
    """Yield the errors of properties that are not allowed in the object at `location`."""
    names = [] if location else hints.names
    for name in unknown[:MAX_ERRORS]:
        nearest = hints.find_closest(name, names)
        detail = f"This property is unknown.{write_suggestion(nearest)}"
        yield FieldError(pointer(location, _shorten_name(name)), detail, nearest=nearest)


_WRONG_TYPE: Final = "This must be of type "


def is_wrong_type(error: FieldError) -> bool:
    """Return whether the error is that of a value of the wrong type."""
    return error.detail.startswith(_WRONG_TYPE)


def report_wrong_type(types: list[str], location: str) -> FieldError:
    """Return the error of a value that has none of the types of the alternatives."""
    return FieldError(location, f"{_WRONG_TYPE}{' or '.join(types)}.", types)


def _report_alternatives(
    error: ValidationError, instance: Any, hints: Hints, *, location: str, base: str
) -> Iterator[FieldError]:
    """Yield the errors of the closest alternative, which is most likely the one that was meant."""
    branches: list[list[ValidationError]] = getattr(error.kind, "context", None) or []
    failed = [branch for branch in branches if branch]
    if error.kind.name == "oneOf" and len(failed) < len(branches):
        yield FieldError(location, SEVERAL_MATCH)
        return
    expected_types = [_list_required_types(branch, error.instance_path) for branch in failed]
    if expected_types and all(expected_types):
        yield report_wrong_type(sorted({name for names in expected_types for name in names}), location)
        return
    yield report_no_match(len(branches), location)
    # An alternative of another type is farther than any with errors inside; fewer errors are closer.
    ranked = sorted(zip(expected_types, failed, strict=True), key=lambda pair: (bool(pair[0]), len(pair[1])))
    nearest = ranked[0][1] if ranked else []
    for inner in islice(nearest, MAX_ERRORS):
        yield from list_field_errors(inner, instance, hints, base=base)


def report_no_match(count: int, location: str) -> FieldError:
    """Return the error of a value that matches no alternative; errors of the closest one should follow it."""
    return FieldError(
        location, f"This matches none of the {count} alternatives; errors of the closest one follow."
    )


def _get_node(arguments: Any, path: list[str | int]) -> Any:
    node = arguments
    for key in path:
        node = node[key]
    return node


def _list_required_types(branch: list[ValidationError], path: list[str | int]) -> list[str]:
    """Return the types that an alternative requires at its root (`path`), if a wrong type is its only
    error.
    """
    if len(branch) == 1 and branch[0].kind.name == "type" and branch[0].instance_path == path:
        return list(branch[0].kind.types)  # type: ignore[attr-defined]
    return []


def _shorten_name(name: Any) -> str:
    return str(name)[:100]


def _explain_type(error: ValidationError) -> tuple[str, Any]:
    types: list[str] = error.kind.types  # type: ignore[attr-defined]
    detail = f"{_WRONG_TYPE}{' or '.join(types)}."
    instance = error.instance
    if isinstance(instance, str):
        if {"integer", "number", "boolean"}.intersection(types):
            detail += " It is a string: remove the quotes."
        elif {"object", "array"}.intersection(types) and instance.lstrip()[:1] in ("{", "["):
            detail += " It is a string: send the JSON value itself, not a string that contains it."
    elif "array" in types:
        detail += " Put a single value into an array."
    return detail, types[0] if len(types) == 1 else types


def _report_enum(error: ValidationError, location: str, hints: Hints) -> FieldError:
    options: list[Any] = error.kind.options  # type: ignore[attr-defined]
    texts = [option for option in options if isinstance(option, str)]
    instance = error.instance
    nearest = hints.find_closest(instance, texts) if isinstance(instance, str) else None
    detail = f"This must be one of the listed values.{write_suggestion(nearest)}"
    return FieldError(location, detail, options[:_MAX_CHOICES], nearest=nearest)


def _limit(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    def describe(error: ValidationError) -> tuple[str, Any]:
        return sentence.format(error.kind.value), error.kind.value

    return describe


def _make_plain(sentence: str) -> Callable[[ValidationError], tuple[str, Any]]:
    return lambda _: (sentence, None)


_SENTENCES: Final[Mapping[str, Callable[[ValidationError], tuple[str, Any]]]] = {
    "type": _explain_type,
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
    "uniqueItems": _make_plain("The items must be unique."),
    "contains": _make_plain("No item matches the schema that at least one item must match."),
    "not": _make_plain("The schema forbids this value."),
    "falseSchema": _make_plain("No value is allowed here."),
    "propertyNames": _make_plain("A property has a name that is not allowed."),
    "dependentRequired": _make_plain("Another property is required together with this one."),
}
