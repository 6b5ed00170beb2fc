"""Call templates of `cli`."""

import re
from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from app.formats.utcp.call_template import CallTemplate


class CliCommand(BaseModel):
    """One step of `commands`. `append_to_final_output` None: only the last step's output is the response."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    command: str = Field(min_length=1, max_length=65_536)
    append_to_final_output: bool | None = None


class CliTemplate(CallTemplate):
    """UTCP's `cli`: `command_name` of 0.x, whose arguments follow as `--key value`, or `commands` of 1.x,
    with `UTCP_ARG_name_UTCP_ARG` in them. The contract of a ToolClad manifest has a command of its own.
    """

    sealed: ClassVar[tuple[str, ...]] = ("/env_vars/*",)
    not_variables: ClassVar[re.Pattern[str] | None] = re.compile(r"CMD_[0-9]+_OUTPUT")
    """`$CMD_0_OUTPUT` in a command is what an earlier command wrote."""

    call_template_type: Literal["cli"] = "cli"
    command_name: str | None = Field(default=None, min_length=1, max_length=65_536)
    commands: list[CliCommand] = Field(default_factory=list, max_length=100)
    env_vars: dict[str, str] = Field(default_factory=dict, repr=False)
    inherit_env_vars: list[str] = Field(default_factory=list)
    working_dir: str | None = Field(default=None, max_length=4096)

    @field_validator("commands", "env_vars", "inherit_env_vars", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value

    @model_validator(mode="after")
    def _require_command(self) -> Self:
        if self.toolclad is not None and self.toolclad.command is not None:
            return self
        if self.command_name is None and not self.commands:
            raise ValueError("Give commands (1.x) or command_name (0.x)")
        return self

    @property
    def is_local(self) -> bool:
        """True: its commands are programs on the gateway's machine."""
        return True

    @property
    def takes_any_argument(self) -> bool:
        """Whether it is a template of 0.x, whose undeclared arguments would become options of the program."""
        return self.command_name is not None
