"""Arguments that a toolset sets: the model neither sees nor overrides them."""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer_parts
from app.formats.json_schema.error_messages import arguments_error, suggestion
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
        FieldError(one, _LOST_INPUT) for one in presets if not may_have_input(inputs, pointer_parts(one))
    ]
    if errors:
        raise arguments_error(errors)


def preset_values(arguments: Any, pointers: Iterable[str]) -> dict[str, Any]:
    """Return the values of arguments at JSON pointers, by these."""
    found: dict[str, Any] = {}
    for one in pointers:
        value = arguments
        for name in pointer_parts(one):
            if not isinstance(value, dict) or name not in value:
                break
            value = value[name]
        else:
            found[one] = value
    return found


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
    for one in pointers:
        *parents, last = pointer_parts(one)
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
    names = {parts[0] for one in pointers if len(parts := pointer_parts(one)) == 1}
    errors = []
    for one in error.errors:
        if any(one.pointer == at or one.pointer.startswith(f"{at}/") for at in pointers):
            errors.append(FieldError(one.pointer, _INVALID_PRESET))
        elif one.nearest in names:
            detail = one.detail.removesuffix(suggestion(one.nearest))
            errors.append(replace(one, detail=detail, nearest=None))
        else:
            errors.append(one)
    return arguments_error(errors) if errors else error


def _set(target: dict[str, Any], pointer: str, value: Any) -> FieldError | None:
    *parents, last = pointer_parts(pointer)
    for depth, name in enumerate(parents):
        inner = target.get(name, {})
        if not isinstance(inner, dict):
            at = "/".join(pointer.split("/")[: depth + 2])
            return FieldError(at, "The toolset sets a member of this argument: give an object.", "object")
        target[name] = dict(inner)
        target = target[name]
    if last in target:
        return FieldError(pointer, "The toolset sets this argument: leave it out.")
    target[last] = value
    return None
