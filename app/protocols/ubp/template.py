"""Call templates of `ubp`."""

from typing import Final, Literal

from pydantic import Field

from app.formats.utcp.call_template import CallTemplate

MAX_COMMAND_NAME: Final = 200
"""Characters of the name of a command."""


class UbpTemplate(CallTemplate):
    """A command of a connected executor (our own; UTCP has no such protocol).

    `executor` is the name of its provider, under which it registers.
    """

    call_template_type: Literal["ubp"] = "ubp"
    executor: str = Field(min_length=1, max_length=128)
    command_name: str = Field(min_length=1, max_length=MAX_COMMAND_NAME)
