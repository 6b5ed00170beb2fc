"""Call templates of `webrtc`."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

from app.protocols.extension import CallTemplate, Headers
from pydantic import Field, field_validator


class WebrtcTemplate(CallTemplate):
    """UTCP 0.x's `webrtc`. The signalling server takes an offer for the peer by HTTP (RFC 9725) or WebSocket.

    Not in UTCP are `timeout` in milliseconds and `tool_name`, the peer's name of the tool: without it, the
    manual's.
    """

    url_fields: ClassVar[tuple[str, ...]] = ("signaling_server",)

    call_template_type: Literal["webrtc"] = "webrtc"
    signaling_server: str = Field(min_length=1, max_length=8192)
    peer_id: str = Field(min_length=1, max_length=512)
    data_channel_name: str = Field(default="tools", min_length=1, max_length=256)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: int = Field(default=30_000, ge=1, le=86_400_000)
    tool_name: str | None = Field(default=None, min_length=1, max_length=512)

    def for_tool(self, name: str) -> Self:
        """Return the template with `name` as `tool_name`, where it has none."""
        return self if self.tool_name else self.model_copy(update={"tool_name": name})

    @field_validator("data_channel_name", "headers", "timeout", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value


@dataclass(frozen=True, slots=True)
class WebrtcTarget:
    """A compiled template; `url` is that of the signalling server for its peer."""

    model: WebrtcTemplate
    origin: str
    url: str
    headers: Headers = field(repr=False)
