"""Call templates of `websocket`."""

from typing import Any, ClassVar, Literal

from pydantic import Field, field_validator

from app.formats.utcp.call_template import CallTemplate


class WebsocketTemplate(CallTemplate):
    """UTCP's `websocket`. `timeout` in seconds, as in UTCP; `protocol` is the subprotocol (RFC 6455, 1.9).

    `message` is what is sent, text or JSON, with `UTCP_ARG_name_UTCP_ARG` in it; without it the arguments
    are sent as JSON. `responses` (our own) is how many messages make the response where the client does not
    accept events; absent: 1. `enforce_message_boundaries` (our own) false: arguments within a `message` of
    text may hold control characters.
    """

    may_be_secret: ClassVar[tuple[str, ...]] = ("/message", "/message/**")

    call_template_type: Literal["websocket"] = "websocket"
    url: str = Field(min_length=1, max_length=8192)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    header_fields: list[str] = Field(default_factory=list)
    protocol: str | None = Field(default=None, max_length=256)
    keep_alive: bool = True
    message: str | dict[str, Any] | None = None
    response_format: Literal["json", "text", "raw"] | None = None
    timeout: float = Field(default=30, gt=0, le=86_400)
    responses: int = Field(default=1, ge=1, le=100_000)
    enforce_message_boundaries: bool | None = None

    @field_validator("headers", "header_fields", "keep_alive", "timeout", "responses", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value

    @field_validator("url")
    @classmethod
    def _begins_with_a_scheme(cls, value: str) -> str:
        url = value.strip()
        if not url.startswith("$") and not url.lower().startswith(("wss://", "ws://")):
            raise ValueError("The URL must begin with wss:// (or ws://)")
        return url
