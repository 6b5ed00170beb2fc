"""Call templates (1.x) and providers (0.x), read tolerantly and normalised to the spelling of 1.x.

Only `http` is typed; the others keep every field as it came, so that their adapters can read them one day
and the registry can say meanwhile, entry by entry, that the protocol is not served yet.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from app.errors import Fault, InvalidInput
from app.utcp.auth import Auth, faults_of, read_auth
from app.utcp.text import clean_text, pointer, refuse_unstorable

# The twelve of 0.x in 1.x spelling, and `file`, which 1.1 split off from `text`.
PROTOCOLS: Final = frozenset({
    "http", "sse", "streamable_http", "cli", "websocket", "grpc", "graphql", "tcp", "udp", "webrtc", "mcp",
    "text", "file",
})  # fmt: skip
_TYPE_KEYS: Final = ("call_template_type", "provider_type", "transport_type")
_RENAMED: Final = {"http_stream": "streamable_http", "streamablehttp": "streamable_http", "ws": "websocket"}

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


class HttpTemplate(BaseModel):
    """UTCP's `http` call template, and what tools from OpenAPI add: `parameters` and `body`.

    Where `parameters` is present the request is built exactly as the document says; `header_fields` and
    `body_field` are ignored then, and `${NAME}` is never a variable.
    """

    model_config = ConfigDict(
        extra="ignore", frozen=True, hide_input_in_errors=True, coerce_numbers_to_str=True
    )

    name: str | None = None
    call_template_type: Literal["http"] = "http"
    http_method: Method = "GET"
    url: str = Field(min_length=1, max_length=8192)
    content_type: str = "application/json"
    headers: dict[str, str] = Field(default_factory=dict, repr=False)
    body_field: str | None = "body"
    header_fields: list[str] = Field(default_factory=list)
    auth: Auth | None = Field(default=None, repr=False)
    auth_tools: Auth | None = Field(default=None, repr=False)
    allowed_communication_protocols: list[str] | None = None
    parameters: list[ParameterSpec] | None = None
    body: BodySpec | None = None

    @field_validator("http_method", mode="before")
    @classmethod
    def _upper(cls, value: Any) -> Any:
        return value.strip().upper() if isinstance(value, str) else value

    @field_validator("http_method", "content_type", "headers", "header_fields", mode="before")
    @classmethod
    def _null_is_default(cls, value: Any, info: Any) -> Any:
        return (
            cls.model_fields[info.field_name].get_default(call_default_factory=True)
            if value is None
            else value
        )

    @field_validator("url")
    @classmethod
    def _is_http(cls, value: str) -> str:
        url = value.strip()
        if not url.startswith("$") and not url.lower().startswith(("https://", "http://")):
            raise ValueError("The URL begins with https:// (or http://)")
        return url

    def stored(self) -> dict[str, Any]:
        """The template as plain JSON without auth, which becomes a credential, and without what is not
        set.
        """
        return self.model_dump(
            mode="json", by_alias=True, exclude={"auth", "auth_tools"}, exclude_none=True
        ) | ({"body_field": None} if self.body_field is None else {})


@dataclass(frozen=True, slots=True)
class Template:
    """A call template in 1.x spelling. `fields` is all of it, `http` its typed form where the protocol is
    http.
    """

    name: str | None
    protocol: str
    fields: dict[str, Any] = field(repr=False)
    http: HttpTemplate | None = None
    notes: tuple[str, ...] = ()


def read_template(raw: Any, *, at: str = "") -> Template:
    """Reads a call template or provider of any protocol and version.

    Raises InvalidInput, with pointers below `at`, for an unknown protocol and for an http template that is
    not valid.
    """
    if not isinstance(raw, Mapping):
        raise InvalidInput("A call template must be an object", errors=[Fault(at, "Give an object.")])
    refuse_unstorable(dict(raw), at=at)
    protocol = _protocol(raw, at=at)
    fields = {key: value for key, value in raw.items() if key not in _TYPE_KEYS and key != "type"}
    if "type" in raw and any(key in raw for key in _TYPE_KEYS):
        fields["type"] = raw["type"]
    protocol, fields, notes = _respelled(protocol, fields)
    name = fields.get("name")
    if name is not None and not isinstance(name, str):
        raise InvalidInput("A name must be text", errors=[Fault(pointer(at, "name"), "Give text.", "string")])
    name = clean_text(name, at=pointer(at, "name")).strip() or None if name else None
    fields = {**fields, "name": name, "call_template_type": protocol}
    if name is None:
        del fields["name"]
    http = _http(fields, at=at) if protocol == "http" else None
    return Template(name, protocol, fields, http, notes)


def _protocol(raw: Mapping[str, Any], *, at: str) -> str:
    key = next((key for key in (*_TYPE_KEYS, "type") if isinstance(raw.get(key), str)), None)
    if key is None:
        fault = Fault(pointer(at, "call_template_type"), "Name the protocol.", expected=sorted(PROTOCOLS))
        raise InvalidInput("call_template_type (or provider_type) is missing", errors=[fault])
    given = str(raw[key]).strip().lower().replace("-", "_")
    protocol = _RENAMED.get(given, given)
    if protocol not in PROTOCOLS:
        fault = Fault(pointer(at, key), "UTCP knows no such protocol.", expected=sorted(PROTOCOLS))
        raise InvalidInput("The protocol is not known", errors=[fault])
    return protocol


def _respelled(protocol: str, fields: dict[str, Any]) -> tuple[str, dict[str, Any], tuple[str, ...]]:
    if protocol == "text" and "file_path" in fields and "content" not in fields:
        return "file", fields, ("text with file_path is called file since UTCP 1.1.",)
    if protocol == "cli" and isinstance(fields.get("command_name"), str) and "commands" not in fields:
        # `command_name` is kept: 0.x appends the arguments as `--key value`, which `commands` cannot say.
        commands = [{"command": fields["command_name"], "append_to_final_output": True}]
        return protocol, {**fields, "commands": commands}, ("command_name became commands.",)
    return protocol, fields, ()


def _http(fields: dict[str, Any], *, at: str) -> HttpTemplate:
    auths = {
        key: None if fields.get(key) is None else read_auth(fields[key], at=pointer(at, key))
        for key in ("auth", "auth_tools")
    }
    try:
        return HttpTemplate.model_validate({**fields, **auths})
    except ValidationError as error:
        raise InvalidInput("The http call template is not valid", errors=faults_of(error, at=at)) from None
