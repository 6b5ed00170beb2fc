"""Call templates of HTTP: `http`, `sse` and `streamable_http`."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.utcp.auth import Auth
from app.utcp.templates.base import CallTemplate

Style = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject", "tabDelimited"
]  # fmt: skip
Method = Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


class ParameterSpec(_Part):
    """One parameter of an OpenAPI operation: `input` is the argument's key, `name` stands on the wire."""

    input: str
    name: str = Field(min_length=1)
    location: Literal["path", "query", "header", "cookie"] = Field(alias="in")
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    content_type: str | None = None
    required: bool = False


class EncodingSpec(_Part):
    """OAS Encoding Object of one property of a form. A null `style` means: by content type and kind of
    value; `text`: a string is sent as it is, whatever its content type, not as base64 of a file.
    """

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    text: bool = False


class BodySpec(_Part):
    """The request body of an OpenAPI operation, given by the caller as one argument."""

    input: str = "body"
    content_type: str = "application/json"
    required: bool = False
    encoding: dict[str, EncodingSpec] = Field(default_factory=dict)


class OverHttp(CallTemplate):
    """What every call template with a URL has: `{name}` in the URL is an argument."""

    url: str = Field(min_length=1, max_length=8192)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    header_fields: list[str] = Field(default_factory=list)

    @field_validator("headers", "header_fields", mode="before")
    @classmethod
    def _null_is_none_of_them(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    @field_validator("url")
    @classmethod
    def _begins_with_a_scheme(cls, value: str) -> str:
        url = value.strip()
        if not url.startswith("$") and not url.lower().startswith(("https://", "http://")):
            raise ValueError("The URL begins with https:// (or http://)")
        return url


class HttpTemplate(OverHttp):
    """UTCP's `http` call template, and what tools from OpenAPI add: `parameters` and `body`.

    Where `parameters` is present the request is built exactly as the document says; `header_fields` and
    `body_field` are ignored then, and `${NAME}` is never a variable.
    """

    call_template_type: Literal["http"] = "http"
    http_method: Method = "GET"
    content_type: str = "application/json"
    body_field: str | None = "body"
    auth_tools: Auth | None = Field(default=None, repr=False)
    parameters: list[ParameterSpec] | None = None
    body: BodySpec | None = None
    gateways: list[str] | None = Field(default=None, alias="x-gateways", max_length=32)
    """Gateways like this one that a call goes through."""

    @field_validator("http_method", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value

    @field_validator("http_method", "content_type", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    def stored(self) -> dict[str, Any]:
        """Without a body field it says so: the default is another."""
        return super().stored() | ({"body_field": None} if self.body_field is None else {})


class SseTemplate(OverHttp):
    """UTCP's `sse`: server-sent events (WHATWG HTML section 9.2). `retry_timeout` in milliseconds.

    `event_type` names the only events that count; without it all do.
    """

    call_template_type: Literal["sse"] = "sse"
    event_type: str | None = None
    reconnect: bool = True
    retry_timeout: int = Field(default=30_000, ge=0, le=3_600_000)
    body_field: str | None = None

    @field_validator("reconnect", "retry_timeout", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value


class StreamableHttpTemplate(OverHttp):
    """UTCP's `streamable_http` (0.x: `http_stream`): an answer in chunks. `timeout` in milliseconds,
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
    def _tolerant(cls, value: Any, info: Any) -> Any:
        if value is None:
            return cls.default_of(info.field_name)
        return value.strip().upper() if info.field_name == "http_method" and isinstance(value, str) else value
