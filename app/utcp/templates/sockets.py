"""Call templates of plain sockets: `tcp` and `udp`. Times are in milliseconds, as in UTCP."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator, model_validator

from app.utcp.templates.base import CallTemplate

Framing = Literal["stream", "length_prefix", "delimiter", "fixed_length"]


class _Socket(CallTemplate):
    """A host, a port, and how arguments become bytes: as JSON, or as text with
    `UTCP_ARG_name_UTCP_ARG` in it. `response_byte_format` None means raw bytes.

    `enforce_message_boundaries` (our own) false: arguments may hold what ends a message.
    """

    may_be_secret: ClassVar[tuple[str, ...]] = ("/request_data_template",)

    host: str = Field(min_length=1, max_length=255)
    port: int = Field(ge=1, le=65535)
    request_data_format: Literal["json", "text"] = "json"
    request_data_template: str | None = None
    response_byte_format: str | None = "utf-8"
    timeout: int = Field(default=30_000, ge=1, le=86_400_000)
    enforce_message_boundaries: bool | None = None

    @field_validator("request_data_format", "timeout", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    @property
    def enforces_boundaries(self) -> bool:
        """Whether arguments that could end a message are rejected; True unless the template says false."""
        return self.enforce_message_boundaries is not False

    def stored(self) -> dict[str, Any]:
        """Raw bytes are said by null: the default is another."""
        raw = {"response_byte_format": None} if self.response_byte_format is None else {}
        return super().stored() | raw


class TcpTemplate(_Socket):
    """UTCP's `tcp`. `fixed_message_length` and `max_response_size` in bytes."""

    call_template_type: Literal["tcp"] = "tcp"
    framing_strategy: Framing = "stream"
    length_prefix_bytes: Literal[1, 2, 4, 8] = 4
    length_prefix_endian: Literal["big", "little"] = "big"
    message_delimiter: str = Field(default="\\x00", min_length=1, max_length=64)
    interpret_escape_sequences: bool = True
    fixed_message_length: int | None = Field(default=None, ge=1, le=1 << 30)
    max_response_size: int = Field(default=65_536, ge=1, le=1 << 30)

    @model_validator(mode="before")
    @classmethod
    def _nul_is_written_out(cls, data: Any) -> Any:
        """Without escapes, the default of 1.x (U+0000) could not be told from four characters."""
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
        return cls.default_of(info.field_name) if value is None else value

    @model_validator(mode="after")
    def _fixed_is_known(self) -> Self:
        if self.framing_strategy == "fixed_length" and self.fixed_message_length is None:
            raise ValueError("fixed_length needs fixed_message_length")
        return self


class UdpTemplate(_Socket):
    """UTCP's `udp`. Where `number_of_response_datagrams` is absent it is 1, as in the released clients (the
    first description said 0); an explicit 0 waits for none.
    """

    call_template_type: Literal["udp"] = "udp"
    number_of_response_datagrams: int = Field(default=1, ge=0, le=10_000)

    @field_validator("number_of_response_datagrams", mode="before")
    @classmethod
    def _null_is_one(cls, value: Any) -> Any:
        return 1 if value is None else value
