"""Call templates of `grpc`."""

from typing import Any, Literal, Self

from pydantic import Field, field_validator

from app.core.errors import FieldError, InvalidInput
from app.formats.utcp.call_template import CallTemplate


class GrpcTemplate(CallTemplate):
    """UTCP 0.x's `grpc`. Without `service_name` and `method_name` a discovery generates a tool per method.

    Not in UTCP are `headers`, the metadata of each call, and what a discovery sets: `descriptors`, those of
    the method as base64 of a FileDescriptorSet, without which the method is looked up by reflection, and
    `server_streaming`, by which manuals tell that the tool streams.
    """

    call_template_type: Literal["grpc"] = "grpc"
    host: str = Field(min_length=1, max_length=255)
    port: int = Field(ge=1, le=65535)
    service_name: str | None = Field(default=None, max_length=512)
    method_name: str | None = Field(default=None, max_length=512)
    use_ssl: bool = False
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    descriptors: str | None = Field(default=None, max_length=512 << 10, repr=False)
    server_streaming: bool | None = None

    def for_tool(self, name: str) -> Self:  # noqa: ARG002 - names of gRPC are no names of tools.
        """Return the template; raise InvalidInput where it names no method."""
        absent = [key for key in ("service_name", "method_name") if getattr(self, key) is None]
        if absent:
            errors = [FieldError(f"/{key}", "A tool names its service and its method.") for key in absent]
            raise InvalidInput("The tool names no method.", errors=errors)
        return self

    @field_validator("use_ssl", "headers", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value

    @field_validator("service_name", "method_name", "descriptors", mode="before")
    @classmethod
    def _empty_is_none(cls, value: Any) -> Any:
        return value or None
