"""The models of call templates that become one HTTP request."""

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from app.utcp.call_template import CallTemplate

Style = Literal[
    "simple", "label", "matrix", "form", "spaceDelimited", "pipeDelimited", "deepObject", "tabDelimited"
]  # fmt: skip # fmt: skip
Method = Literal["GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS"]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


class ParameterSpec(_Part):
    """One parameter of an OpenAPI operation: `input` is the argument's key, `name` is what is sent."""

    input: str
    name: str = Field(min_length=1)
    location: Literal["path", "query", "header", "cookie"] = Field(alias="in")
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    content_type: str | None = None
    required: bool = False


class EncodingSpec(_Part):
    """The OAS Encoding Object of one property of a form.

    Without a `style`, the encoding depends on the content type and the type of the value. With `text`, a
    string is sent as it is, whatever its content type, instead of being decoded from base64.
    """

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    text: bool = False


class BodySpec(_Part):
    """The request body of an OpenAPI operation, which is one argument."""

    input: str = "body"
    content_type: str = "application/json"
    required: bool = False
    encoding: dict[str, EncodingSpec] = Field(default_factory=dict)


class HttpBasedTemplate(CallTemplate):
    """The base of call templates with a URL, in which `{name}` is an argument."""

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


class RequestTemplate(HttpBasedTemplate):
    """A call template that describes a complete request: UTCP's `http`, or a converted OpenAPI operation.

    The latter has `parameters` and `body`: the request is built exactly as the document says, `header_fields`
    and `body_field` are ignored, and `${NAME}` is never a variable.
    """

    call_template_type: str = ""
    http_method: Method = "GET"
    content_type: str = "application/json"
    body_field: str | None = "body"
    parameters: list[ParameterSpec] | None = None
    body: BodySpec | None = None

    @field_validator("http_method", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value

    @field_validator("http_method", "content_type", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.default_of(info.field_name) if value is None else value

    def stored(self) -> dict[str, Any]:
        """Return the template as plain JSON; `body_field: null` is written out, as it is not the default."""
        return super().stored() | ({"body_field": None} if self.body_field is None else {})
