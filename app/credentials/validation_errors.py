"""Errors of pydantic as InvalidInput, with pointers into what was sent."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from app.errors import FieldError, InvalidInput
from app.text import pointer

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], value: Any, *, at: str = "") -> Model:
    """Return the value as the model; raise InvalidInput with pointers below `at`, without any input value."""
    try:
        return model.model_validate(value)
    except ValidationError as error:
        found = error.errors(include_url=False, include_input=False, include_context=False)
        faults = [
            FieldError(at + pointer("", *_place(one["loc"], value)), one["msg"].removeprefix("Value error, "))
            for one in found
        ]
        raise InvalidInput("The request does not fit what is expected here.", errors=faults) from None


def _place(location: Sequence[str | int], value: Any) -> list[str | int]:
    """Return the path within `value`, without what pydantic adds for a member of a union."""
    place: list[str | int] = []
    for index, part in enumerate(location):
        inside, member = _member(value, part)
        if inside:
            value = member
        elif index < len(location) - 1 or not isinstance(value, dict):
            continue
        place.append(part)
    return place


def _member(value: Any, part: str | int) -> tuple[bool, Any]:
    if isinstance(value, dict) and part in value:
        return True, value[part]
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return True, value[part]
    return False, None
