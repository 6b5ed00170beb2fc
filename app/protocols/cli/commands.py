"""Command lines of `cli` templates, split into words."""

import shlex
from collections.abc import Mapping
from typing import Any

from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer
from app.formats.toolclad.command import get_program


def split_command(command: str, *, at: str) -> list[str]:
    """Return the words of a command line as a POSIX shell would split it; none is ever given to a shell.

    Raise InvalidInput for quotes that do not end, and for an empty one.
    """
    try:
        words = shlex.split(command)
    except ValueError:
        words = []
    if not words:
        field_error = FieldError(at, "Give a program and its arguments; quotes must end.")
        raise InvalidInput("The command cannot be read.", errors=[field_error])
    return words


def programs_of(fields: Mapping[str, Any]) -> list[str]:
    """Return the programs that a template starts, each once; raise InvalidInput as `split_command`."""
    contract = fields.get("toolclad")
    if isinstance(contract, Mapping) and contract.get("command"):
        return [get_program(contract)]
    steps: list[dict[str, Any]] = fields.get("commands") or []
    commands = [(step["command"], pointer("/commands", n, "command")) for n, step in enumerate(steps)]
    if fields.get("command_name"):
        commands = [(fields["command_name"], "/command_name")]
    return list(dict.fromkeys(split_command(text, at=at)[0] for text, at in commands))
