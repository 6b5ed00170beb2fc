"""Call templates of `graphql`, `websocket`, `grpc` and `webrtc`."""

from typing import Any, ClassVar, Literal, Self

from pydantic import Field, field_validator

from app.utcp.templates.base import CallTemplate
from app.utcp.templates.http import OverHttp


class GraphqlTemplate(OverHttp):
    """UTCP's `graphql`. `query` is the whole document of the operation, `variable_types` the GraphQL type of
    each variable; both are written by a discovery, or by hand.
    """

    braced_only: ClassVar[tuple[str, ...]] = ("/query", "/variable_types/**")

    call_template_type: Literal["graphql"] = "graphql"
    operation_type: Literal["query", "mutation", "subscription"] | None = None
    operation_name: str | None = Field(default=None, pattern=r"^[_A-Za-z][_0-9A-Za-z]{0,254}$")
    query: str | None = Field(default=None, max_length=1 << 20)
    variable_types: dict[str, str] | None = None

    @field_validator("operation_name", "query", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None


class WebsocketTemplate(CallTemplate):
    """UTCP's `websocket`. `timeout` in seconds, as in UTCP; `protocol` is the subprotocol (RFC 6455, 1.9).

    `message` is what is sent, text or JSON, with `UTCP_ARG_name_UTCP_ARG` in it; without it the arguments
    are sent as JSON. `responses` (our own) is how many messages make the answer where the caller does not
    take events; absent: 1. `enforce_message_boundaries` (our own) false: arguments within a `message` of text
    may hold control characters.
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
        return cls.default_of(info.field_name) if value is None else value

    @field_validator("url")
    @classmethod
    def _begins_with_a_scheme(cls, value: str) -> str:
        url = value.strip()
        if not url.startswith("$") and not url.lower().startswith(("wss://", "ws://")):
            raise ValueError("The URL begins with wss:// (or ws://)")
        return url


class GrpcTemplate(CallTemplate):
    """UTCP 0.x's `grpc`. Without `service_name` and `method_name` a discovery makes a tool of every method.

    Of our own are `headers`, the metadata of each call, and `descriptors`, which a discovery writes: what the
    method needs, as base64 of a FileDescriptorSet. Without it the server is asked before the first call.
    """

    call_template_type: Literal["grpc"] = "grpc"
    host: str = Field(min_length=1, max_length=255)
    port: int = Field(ge=1, le=65535)
    service_name: str | None = Field(default=None, max_length=512)
    method_name: str | None = Field(default=None, max_length=512)
    use_ssl: bool = False
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    descriptors: str | None = Field(default=None, max_length=512 << 10, repr=False)

    @field_validator("use_ssl", "headers", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    @field_validator("service_name", "method_name", "descriptors", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None


class WebrtcTemplate(CallTemplate):
    """UTCP 0.x's `webrtc`. The signalling server takes an offer for the peer by HTTP (RFC 9725) or
    WebSocket. Of our own are `timeout` in milliseconds, and `tool_name`, what the peer calls the tool:
    without it what the manual calls it.
    """

    call_template_type: Literal["webrtc"] = "webrtc"
    signaling_server: str = Field(min_length=1, max_length=8192)
    peer_id: str = Field(min_length=1, max_length=512)
    data_channel_name: str = Field(default="tools", min_length=1, max_length=256)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    timeout: int = Field(default=30_000, ge=1, le=86_400_000)
    tool_name: str | None = Field(default=None, min_length=1, max_length=512)

    def of_tool(self, name: str) -> Self:
        """With the tool's name, where it has none."""
        return self if self.tool_name else self.model_copy(update={"tool_name": name})

    @field_validator("data_channel_name", "headers", "timeout", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value
