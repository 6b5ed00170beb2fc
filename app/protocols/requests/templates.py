"""The models of call templates that become one HTTP request."""

from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from app.formats.utcp.call_template import CallTemplate
from app.formats.utcp.headers import HEADER_NAME
from app.formats.xml.shape import XmlShape
from app.protocols.requests.output_spec import OutputSpec

Style = Literal[
    "simple", "label", "matrix", "form", "cookie",
    "spaceDelimited", "pipeDelimited", "tabDelimited", "deepObject",
]  # fmt: skip
METHODS: Final = frozenset({"GET", "POST", "PUT", "DELETE", "PATCH", "HEAD", "OPTIONS", "QUERY"})
"""The methods that every call template may have; that of an OpenAPI operation may be another token."""
_NEVER_SENT: Final = frozenset({"TRACE", "CONNECT"})


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, hide_input_in_errors=True, populate_by_name=True)


class PartHeader(_Part):
    """A header of a part: its value where the document gives it one."""

    value: str | int | float | bool | None = None
    required: bool = False


class EncodingSpec(_Part):
    """The OAS Encoding Object of one property of a form.

    Without a `style`, the encoding depends on the content type and the type of the value. With `text`, a
    string is sent as it is, whatever its content type, instead of being decoded from base64. `xml` is that of
    a part whose content type is XML. A `file` is base64, or an object with its contents, name and type; with
    `nested_files` there are such objects inside the value, which is sent as JSON. `content_type` may list
    several types; the first is sent unless a file chooses another of them.
    `item_styles` are those of the lists within a list, from the outside. A part with `prefix_encoding` or
    `item_encoding` is itself multipart, see BodySpec.
    """

    content_type: str | None = None
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    text: bool = False
    file: bool = False
    nested_files: bool = False
    headers: dict[str, PartHeader] = Field(default_factory=dict)
    xml: XmlShape | None = None
    item_styles: tuple[Style, ...] = ()
    prefix_encoding: tuple["EncodingSpec", ...] = ()
    item_encoding: "EncodingSpec | None" = None


class ParameterSpec(_Part):
    """One parameter of an OpenAPI operation: `input` is the argument's key, `name` is what is sent.

    That of the location `querystring` is the whole query string (OAS 3.2), in the form of its content type;
    `encoding` is that of its fields. `item_styles` are those of the lists within a list, from the outside.
    """

    input: str
    name: str = Field(min_length=1)
    location: Literal["path", "query", "querystring", "header", "cookie"] = Field(alias="in")
    style: Style | None = None
    explode: bool | None = None
    allow_reserved: bool = False
    content_type: str | None = None
    required: bool = False
    encoding: dict[str, EncodingSpec] = Field(default_factory=dict)
    item_styles: tuple[Style, ...] = ()


class BodySpec(_Part):
    """The request body of an OpenAPI operation, which is one argument.

    `xml` says how an object becomes XML; without it, XML is given as text. With `single_part` the value is
    that of the only part of a form, which has this name. `other_fields` is the encoding of fields that
    `encoding` does not have.

    The value of a multipart body with `prefix_encoding` or `item_encoding` is the list of its parts, which
    have no names: the encodings of the first ones, and that of all others.
    """

    input: str = "body"
    content_type: str = "application/json"
    required: bool = False
    encoding: dict[str, EncodingSpec] = Field(default_factory=dict)
    xml: XmlShape | None = None
    single_part: str | None = Field(default=None, min_length=1)
    other_fields: EncodingSpec | None = None
    prefix_encoding: tuple[EncodingSpec, ...] = ()
    item_encoding: EncodingSpec | None = None


class ResponseSpec(_Part):
    """What an OpenAPI document, or a call template, says of a response beyond the tool's output schema.

    `status` is that of the response which the output schema describes ("200", "2XX"), where the document has
    several. Of an operation without a response in JSON, `content_type`, `json_schema` and `xml` are those of
    its response in another form. `redirects` are the statuses of redirects ("302", "3XX") that are the result
    of a call, with their Location, instead of being followed. `output` is the shape of the result; the output
    schema of the tool, and `schema`, describe what comes of it.
    """

    status: str | None = None
    content_type: str | None = None
    json_schema: dict[str, Any] | None = Field(default=None, alias="schema")
    xml: XmlShape | None = None
    redirects: tuple[Annotated[str, Field(pattern="^3([0-9]{2}|XX)$")], ...] = ()
    output: OutputSpec | None = None


class HttpBasedTemplate(CallTemplate):
    """The base of call templates with a URL, in which `{name}` is an argument."""

    url: str = Field(min_length=1, max_length=8192)
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    header_fields: list[str] = Field(default_factory=list)

    @field_validator("headers", "header_fields", mode="before")
    @classmethod
    def _null_header_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value

    @field_validator("url")
    @classmethod
    def _begins_with_a_scheme(cls, value: str) -> str:
        url = value.strip()
        if not url.startswith("$") and not url.lower().startswith(("https://", "http://")):
            raise ValueError("The URL must begin with https:// (or http://)")
        return url


class RequestTemplate(HttpBasedTemplate):
    """A call template that describes a complete request: UTCP's `http`, or a converted OpenAPI operation.

    The latter has `parameters` and `body`: the request is built exactly as the document says, `header_fields`
    and `body_field` are ignored, and `${NAME}` is never a variable. `accept` is the value of its Accept
    header, for calls whose client asks for nothing else. `defaults` are the arguments of calls that do not
    give them.
    """

    sealed: ClassVar[tuple[str, ...]] = ("/secrets/*",)

    call_template_type: str = ""
    parameters: list[ParameterSpec] | None = None
    http_method: str = Field(default="GET", max_length=64)
    content_type: str = "application/json"
    body_field: str | None = "body"
    body: BodySpec | None = None
    response: ResponseSpec | None = None
    defaults: dict[str, Any] | None = None
    secrets: dict[str, str] | None = Field(default=None, repr=False)
    """The secrets of a ToolClad manifest's request, by name: each is a variable."""
    accept: str | None = Field(default=None, pattern=r"^[\x21-\x7e][\x20-\x7e]{0,1999}$")

    @field_validator("http_method", mode="before")
    @classmethod
    def _standard_case(cls, value: Any) -> Any:
        """Write the usual methods in upper case; others are case-sensitive (RFC 9110 section 9.1)."""
        if not isinstance(value, str):
            return value
        method = value.strip()
        return method.upper() if method.upper() in METHODS | _NEVER_SENT else method

    @field_validator("http_method")
    @classmethod
    def _can_be_sent(cls, value: str, info: ValidationInfo) -> str:
        if info.data.get("parameters") is None and value not in METHODS:
            raise ValueError(f"The method must be one of {', '.join(sorted(METHODS))}")
        if value in _NEVER_SENT or not HEADER_NAME.fullmatch(value):
            raise ValueError("This method cannot be sent")
        return value

    @field_validator("http_method", "content_type", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return cls.get_default(info.field_name) if value is None else value

    def stored(self) -> dict[str, Any]:
        """Return the template as plain JSON; `body_field: null` is written out, as it is not the default."""
        return super().stored() | ({"body_field": None} if self.body_field is None else {})
