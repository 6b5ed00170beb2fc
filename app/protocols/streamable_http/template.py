"""Call templates of `streamable_http`."""

from typing import Any, Literal

from pydantic import Field, field_validator

from app.protocols.requests.templates import HttpBasedTemplate


class StreamableHttpTemplate(HttpBasedTemplate):
    """UTCP's `streamable_http` (0.x: `http_stream`): a response in chunks. `timeout` in milliseconds,
    `chunk_size` in bytes.
    """

    call_template_type: Literal["streamable_http"] = "streamable_http"
    http_method: Literal["GET", "POST"] = "GET"
    content_type: str = "application/octet-stream"
    chunk_size: int = Field(default=4096, ge=1, le=16 << 20)
    timeout: int = Field(default=60_000, ge=1, le=86_400_000)
    body_field: str | None = None

    @field_validator("http_method", "content_type", "chunk_size", "timeout", mode="before")
    @classmethod
    def _normalized(cls, value: Any, info: Any) -> Any:
        if value is None:
            return cls.get_default(info.field_name)
        return value.strip().upper() if info.field_name == "http_method" and isinstance(value, str) else value
