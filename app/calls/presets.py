"""Arguments that a toolset sets: the model neither sees nor overrides them."""

from collections.abc import Iterable, Mapping
from typing import Any

from app.errors import FieldError, InvalidArguments


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


def pointer_parts(pointer: str) -> list[str]:
    """Return the names in a JSON pointer (RFC 6901)."""
    return [part.replace("~1", "/").replace("~0", "~") for part in pointer.split("/")[1:]]


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
