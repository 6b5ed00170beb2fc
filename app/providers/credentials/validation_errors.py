"""Validation of inputs by pydantic models, whose errors become InvalidInput with JSON pointers."""

from collections.abc import Sequence
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from app.core.errors import FieldError, InvalidInput
from app.core.field_names import describe_unknown_member
from app.core.schemas import PATTERN_MESSAGES
from app.core.text import pointer

Model = TypeVar("Model", bound=BaseModel)


def validated(model: type[Model], value: Any, *, at: str = "") -> Model:
    """Return the value as an instance of the model.

    Raise InvalidInput with pointers below `at`; the errors do not contain the input, which may be secret.
    """
    try:
        return model.model_validate(value)
    except ValidationError as error:
        details = error.errors(include_url=False, include_input=False)
        errors = [
            FieldError(at + pointer("", *_path(one["loc"], value)), _message(one, model)) for one in details
        ]
        raise InvalidInput("The request is not valid.", errors=errors) from None


def _message(error: ErrorDetails, model: type[BaseModel]) -> str:
    if error["type"] == "extra_forbidden":
        return describe_unknown_member(model, error["loc"])
    pattern = str(error.get("ctx", {}).get("pattern"))
    if error["type"] == "string_pattern_mismatch" and pattern in PATTERN_MESSAGES:
        return PATTERN_MESSAGES[pattern]
    return error["msg"].removeprefix("Value error, ")


def _path(location: Sequence[str | int], value: Any) -> list[str | int]:
    """Return the path within `value`, without the tags that pydantic adds for members of a union."""
    path: list[str | int] = []
    for index, part in enumerate(location):
        exists, member = _member(value, part)
        if exists:
            value = member
        elif index < len(location) - 1 or not isinstance(value, dict):
            continue
        path.append(part)
    return path


def _member(value: Any, part: str | int) -> tuple[bool, Any]:
    if isinstance(value, dict) and part in value:
        return True, value[part]
    if isinstance(value, list) and isinstance(part, int) and part < len(value):
        return True, value[part]
    return False, None
