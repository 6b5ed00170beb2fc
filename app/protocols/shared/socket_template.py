"""The members that call templates of `tcp` and `udp` share."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from app.formats.utcp.call_template import CallTemplate

Framing = Literal["stream", "length_prefix", "delimiter", "fixed_length"]


class SocketTemplate(CallTemplate):
    """A host, a port, and the encoding of arguments: JSON, or a text with `UTCP_ARG_name_UTCP_ARG` in it.

    `response_byte_format` None means raw bytes; `timeout` is in milliseconds. With
    `enforce_message_boundaries` (not in UTCP) false, arguments may contain what ends a message.
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
        return cls.get_default(info.field_name) if value is None else value

    @property
    def framing(self) -> Framing:
        """How the end of a message is marked in what is sent."""
        return "stream"

    @property
    def frame_length(self) -> int:
        """Bytes of each message where the framing is `fixed_length`."""
        return 0

    @property
    def enforces_boundaries(self) -> bool:
        """Whether arguments that could end a message are rejected; True unless the template says false."""
        return self.enforce_message_boundaries is not False

    def stored(self) -> dict[str, Any]:
        """Return the stored members, with null for raw bytes, which are not the default."""
        raw = {"response_byte_format": None} if self.response_byte_format is None else {}
        return super().stored() | raw
