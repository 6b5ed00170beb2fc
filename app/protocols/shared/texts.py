"""Message templates of UTCP, in which `UTCP_ARG_name_UTCP_ARG` is a placeholder for an argument.

Templates are filled in one pass: placeholders in the value of an argument are not replaced.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core import exact_json
from app.core.errors import FieldError, InvalidArguments
from app.core.text import pointer

PLACEHOLDER: Final = re.compile(r"UTCP_ARG_(.+?)_UTCP_ARG")


def named_arguments(template: Any) -> list[str]:
    """Return the names of the arguments in the texts of a template, each once."""
    if isinstance(template, str):
        return list(dict.fromkeys(PLACEHOLDER.findall(template)))
    members: Any = template.values() if isinstance(template, dict) else template
    if not isinstance(members, list) and not isinstance(template, dict):
        return []
    return list(dict.fromkeys(name for member in members for name in named_arguments(member)))


def fill_text(template: str, arguments: Mapping[str, Any]) -> str:
    """Return the text with its placeholders replaced: strings unchanged, everything else as JSON.

    Raise InvalidArguments where an argument is missing.
    """
    return PLACEHOLDER.sub(lambda found: as_text(argument_value(found[1], arguments)), template)


def fill_json(template: Any, arguments: Mapping[str, Any]) -> Any:
    """Return a JSON value with the placeholders in its strings replaced.

    A string that is one placeholder becomes the argument's value, of whatever type. Raise InvalidArguments
    where an argument is missing.
    """
    if isinstance(template, str):
        whole = PLACEHOLDER.fullmatch(template)
        if whole is not None and "UTCP_ARG_" not in whole[1]:
            return argument_value(whole[1], arguments)
        return fill_text(template, arguments)
    if isinstance(template, dict):
        return {key: fill_json(member, arguments) for key, member in template.items()}
    if isinstance(template, list):
        return [fill_json(member, arguments) for member in template]
    return template


def as_text(value: Any) -> str:
    """Return an argument as text: a string unchanged, everything else as JSON."""
    return value if isinstance(value, str) else exact_json.dumps(value).decode()


def argument_value(name: str, arguments: Mapping[str, Any]) -> Any:
    """Return the value of an argument; raise InvalidArguments where it is missing."""
    if name not in arguments:
        field_error = FieldError(pointer("", name), "The message of this tool needs it.")
        raise InvalidArguments("An argument is missing.", errors=[field_error])
    return arguments[name]
