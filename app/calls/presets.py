"""Arguments that a toolset sets: the model neither sees nor overrides them."""

from collections.abc import Mapping
from typing import Any

from app.errors import FieldError, InvalidArguments
from app.text import pointer


def with_presets(arguments: Any, presets: Mapping[str, Any]) -> Any:
    """Return the arguments with the presets, both by the names of inputs; what is no object is returned
    unchanged, for the validation to reject.

    Raise InvalidArguments where the client gives an argument that is preset.
    """
    if arguments is None:
        return dict(presets)
    if not isinstance(arguments, dict):
        return arguments
    given = [name for name in presets if name in arguments]
    if given:
        errors = [
            FieldError(pointer(name), "The toolset sets this argument: leave it out.") for name in given
        ]
        raise InvalidArguments("The arguments do not fit the tool.", errors=errors)
    return {**arguments, **presets}
