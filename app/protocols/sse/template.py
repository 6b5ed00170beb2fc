"""Call templates of `sse`."""

from typing import Any, Literal

from pydantic import Field, field_validator

from app.protocols.requests.templates import HttpBasedTemplate


class SseTemplate(HttpBasedTemplate):
    """UTCP's `sse`: server-sent events (WHATWG HTML section 9.2). `retry_timeout` in milliseconds.

    `event_type` names the events that are part of the response; without it all are.
    """

    call_template_type: Literal["sse"] = "sse"
    event_type: str | None = None
    reconnect: bool = True
    retry_timeout: int = Field(default=30_000, ge=0, le=3_600_000)
    body_field: str | None = None

    @field_validator("reconnect", "retry_timeout", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value
