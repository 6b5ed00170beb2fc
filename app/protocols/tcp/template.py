"""Call templates of `tcp`."""

from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from app.protocols.shared.socket_template import Framing, SocketTemplate


class TcpTemplate(SocketTemplate):
    """UTCP's `tcp`. `fixed_message_length` and `max_response_size` in bytes."""

    call_template_type: Literal["tcp"] = "tcp"
    framing_strategy: Framing = "stream"
    length_prefix_bytes: Literal[1, 2, 4, 8] = 4
    length_prefix_endian: Literal["big", "little"] = "big"
    message_delimiter: str = Field(default="\\x00", min_length=1, max_length=64)
    interpret_escape_sequences: bool = True
    fixed_message_length: int | None = Field(default=None, ge=1, le=1 << 30)
    max_response_size: int = Field(default=65_536, ge=1, le=1 << 30)

    @property
    def framing(self) -> Framing:
        """The template's `framing_strategy`."""
        return self.framing_strategy

    @property
    def frame_length(self) -> int:
        """The template's `fixed_message_length`, in bytes."""
        return self.fixed_message_length or 0

    @classmethod
    def storable(cls, fields: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields without the default delimiter of 1.x, U+0000, which is read as `\\\\x00`."""
        return {key: value for key, value in fields.items() if key != "message_delimiter" or value != "\x00"}

    @model_validator(mode="before")
    @classmethod
    def _interpret_default_delimiter(cls, data: Any) -> Any:
        """Turn escape sequences on for the default delimiter, U+0000, which is stored as one."""
        literal = isinstance(data, dict) and data.get("interpret_escape_sequences") is False
        if literal and data.get("message_delimiter") in (None, "\x00"):
            return {**data, "interpret_escape_sequences": True}
        return data

    @field_validator(
        "framing_strategy", "length_prefix_bytes", "length_prefix_endian", "message_delimiter",
        "interpret_escape_sequences", "max_response_size", mode="before",
    )  # fmt: skip
    @classmethod
    def _null_is_the_default(cls, value: Any, info: Any) -> Any:
        if info.field_name == "message_delimiter" and value == "\x00":
            # The default of 1.x as its model has it; PostgreSQL cannot hold this character.
            return "\\x00"
        return cls.get_default(info.field_name) if value is None else value

    @model_validator(mode="after")
    def _require_fixed_length(self) -> Self:
        if self.framing_strategy == "fixed_length" and self.fixed_message_length is None:
            raise ValueError("fixed_length needs fixed_message_length")
        return self
