"""Message templates of UTCP: `UTCP_ARG_name_UTCP_ARG` stands for an argument. One pass: what an argument says
is never read again.
"""

import re
from collections.abc import Mapping
from typing import Any, Final

import orjson

from app.errors import FieldError, InvalidArguments
from app.text import pointer

PLACEHOLDER: Final = re.compile(r"UTCP_ARG_(.+?)_UTCP_ARG")


def named_arguments(template: Any) -> list[str]:
    """The arguments that the texts of a template name, each once."""
    if isinstance(template, str):
        return list(dict.fromkeys(PLACEHOLDER.findall(template)))
    members: Any = template.values() if isinstance(template, dict) else template
    if not isinstance(members, list) and not isinstance(template, dict):
        return []
    return list(dict.fromkeys(name for member in members for name in named_arguments(member)))


def fill_text(template: str, arguments: Mapping[str, Any]) -> str:
    """The text with each argument in its place: text as it is, everything else as JSON.

    Raises InvalidArguments for one that is not given.
    """
    return PLACEHOLDER.sub(lambda found: as_text(argument_value(found[1], arguments)), template)


def fill_json(template: Any, arguments: Mapping[str, Any]) -> Any:
    """A JSON value with the arguments in its texts; a text that is one placeholder becomes its argument."""
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
    """An argument within text."""
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def argument_value(name: str, arguments: Mapping[str, Any]) -> Any:
    """One argument; raises InvalidArguments where it is not there."""
    if name not in arguments:
        field_error = FieldError(pointer("", name), "The message of this tool needs it.")
        raise InvalidArguments("An argument is missing.", errors=[field_error])
    return arguments[name]
