"""Call templates of the gateway's own machine: `cli`, `text` and `file`."""

from typing import Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from app.utcp.auth import Auth
from app.utcp.templates.base import CallTemplate


class CliCommand(BaseModel):
    """One step of `commands`. `append_to_final_output` None: only the last step's output is the answer."""

    model_config = ConfigDict(extra="ignore", frozen=True, hide_input_in_errors=True)

    command: str = Field(min_length=1, max_length=65_536)
    append_to_final_output: bool | None = None


class CliTemplate(CallTemplate):
    """UTCP's `cli`: `command_name` of 0.x, whose arguments follow as `--key value`, or `commands` of 1.x,
    with `UTCP_ARG_name_UTCP_ARG` in them.
    """

    sealed: ClassVar[tuple[str, ...]] = ("/env_vars/*",)

    call_template_type: Literal["cli"] = "cli"
    command_name: str | None = Field(default=None, min_length=1, max_length=65_536)
    commands: list[CliCommand] = Field(default_factory=list, max_length=100)
    env_vars: dict[str, str] = Field(default_factory=dict, repr=False)
    inherit_env_vars: list[str] = Field(default_factory=list)
    working_dir: str | None = Field(default=None, max_length=4096)

    @field_validator("commands", "env_vars", "inherit_env_vars", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    @model_validator(mode="after")
    def _says_what_to_run(self) -> Self:
        if self.command_name is None and not self.commands:
            raise ValueError("Give commands (1.x) or command_name (0.x)")
        return self

    @property
    def is_local(self) -> bool:
        """It runs programs."""
        return True

    @property
    def takes_any_argument(self) -> bool:
        """`--key` of a key that nobody declared may be any option of the program."""
        return self.command_name is not None


class TextTemplate(CallTemplate):
    """UTCP's `text`: a manual or an OpenAPI document as a provider, or the answer of a tool."""

    may_be_secret: ClassVar[tuple[str, ...]] = ("/content",)
    braced_only: ClassVar[tuple[str, ...]] = ("/content",)

    call_template_type: Literal["text"] = "text"
    content: str = Field(max_length=64 << 20)
    base_url: str | None = None
    auth_tools: Auth | None = Field(default=None, repr=False)


class FileTemplate(CallTemplate):
    """UTCP's `file` (0.x: `text` with `file_path`): the same in a file below a folder that the operator has
    opened.
    """

    call_template_type: Literal["file"] = "file"
    file_path: str = Field(min_length=1, max_length=4096)
    base_url: str | None = None
    auth_tools: Auth | None = Field(default=None, repr=False)

    @property
    def is_local(self) -> bool:
        """It reads files."""
        return True
