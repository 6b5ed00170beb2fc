"""Arguments that a toolset sets: the model neither sees nor overrides them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments
from app.core.text import split_pointer
from app.formats.json_schema.error_messages import build_arguments_error, write_suggestion
from app.formats.json_schema.input_lookup import may_have_input

_INVALID_PRESET: Final = (
    "The toolset sets this argument to a value that the tool does not take: whoever manages the toolset has "
    "to change it."
)
_LOST_INPUT: Final = (
    "The toolset sets this argument, which the tool does not have any more: whoever manages the toolset has "
    "to change it."
)


def check_presets(presets: Mapping[str, Any], inputs: Mapping[str, Any]) -> None:
    """Raise InvalidArguments where the tool has no input for a preset.

    A source may have lost the input, or named it anew, since the preset was set. Without it, the call would
    do more than whoever manages the toolset permits, so that it is not made.
    """
    errors = [
        FieldError(one, _LOST_INPUT) for one in presets if not may_have_input(inputs, split_pointer(one))
    ]
    if errors:
        raise build_arguments_error(errors)


def read_preset_values(arguments: Any, pointers: Iterable[str]) -> dict[str, Any]:
    """Return the values of arguments at JSON pointers, by these."""
    values: dict[str, Any] = {}
    for pointer in pointers:
        value = arguments
        for name in split_pointer(pointer):
            if not isinstance(value, dict) or name not in value:
                break
            value = value[name]
        else:
            values[pointer] = value
    return values


def with_presets(arguments: Any, presets: Mapping[str, Any]) -> Any:
    """Return a copy of the arguments with the presets, whose keys are JSON pointers into the arguments; what
    is no object is returned unchanged, for the validation to reject.

    Raise InvalidArguments where the client gives a preset argument, or something else than an object where
    one belongs.
    """
    if arguments is not None and not isinstance(arguments, dict):
        return arguments
    result: dict[str, Any] = dict(arguments or {})
    errors = []
    for pointer, value in presets.items():
        error = _set(result, pointer, value)
        if error is not None:
            errors.append(error)
    if errors:
        raise InvalidArguments("The arguments do not fit the tool.", errors=errors)
    return result


def without_presets(arguments: Mapping[str, Any], pointers: Iterable[str]) -> dict[str, Any]:
    """Return a copy of arguments without those at JSON pointers, which a toolset has set."""
    result = dict(arguments)
    for pointer in pointers:
        *parents, last = split_pointer(pointer)
        target: Any = result
        for name in parents:
            if not isinstance(target, dict) or not isinstance(target.get(name), dict):
                target = None
                break
            target[name] = dict(target[name])
            target = target[name]
        if isinstance(target, dict):
            target.pop(last, None)
    return result


def without_preset_hints(error: InvalidArguments, presets: Iterable[str]) -> InvalidArguments:
    """Return an error of arguments with presets that suggests none of these, and says nothing of the schema
    of one that is not valid.
    """
    pointers = tuple(presets)
    if not pointers:
        return error
    names = {parts[0] for pointer in pointers if len(parts := split_pointer(pointer)) == 1}
    errors = []
    for field_error in error.errors:
        if any(
            field_error.pointer == pointer or field_error.pointer.startswith(f"{pointer}/")
            for pointer in pointers
        ):
            errors.append(FieldError(field_error.pointer, _INVALID_PRESET))
        elif field_error.nearest in names:
            detail = field_error.detail.removesuffix(write_suggestion(field_error.nearest))
            errors.append(replace(field_error, detail=detail, nearest=None))
        else:
            errors.append(field_error)
    return build_arguments_error(errors) if errors else error


def _set(target: dict[str, Any], pointer: str, value: Any) -> FieldError | None:
    *parents, last = split_pointer(pointer)
    for depth, name in enumerate(parents):
        inner = target.get(name, {})
        if not isinstance(inner, dict):
            parent_pointer = "/".join(pointer.split("/")[: depth + 2])
            return FieldError(
                parent_pointer, "The toolset sets a member of this argument: give an object.", "object"
            )
        target[name] = dict(inner)
        target = target[name]
    if last in target:
        return FieldError(pointer, "The toolset sets this argument: leave it out.")
    target[last] = value
    return None
