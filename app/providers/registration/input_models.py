"""Request bodies of the control plane: pydantic models. Secrets are accepted here and never returned."""

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, SecretStr, field_validator

from app.core.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    Keywords,
    LanguageTag,
    Number,
    ProviderName,
    RateLimitInput,
    ShortText,
    StrictModel,
    Text,
    ToolName,
    UrlText,
)
from app.providers.credentials.input_models import (
    NO_NUL,
    NO_OTHER_KEYS,
    CredentialInput,
    HttpOrigin,
    Origin,
    OverlayText,
    SlotName,
    Tags,
    VariableName,
    secret_line,
    secret_text,
)
from app.providers.credentials.origins import origin_of

ServerName = Annotated[str, Field(min_length=1, max_length=500, pattern=NO_NUL["pattern"])]
ServerVariableName = Annotated[str, Field(min_length=1, max_length=200, pattern=r"^[^{}\x00-\x1f]+$")]
ServerVariableValue = Annotated[str, Field(max_length=2_000, pattern=NO_NUL["pattern"])]
# What upstreams call such a header (Idempotency-Key, PayPal-Request-Id); never one of HTTP itself.
HEADER_NAME = r"^[A-Za-z0-9-]{0,30}([Ii]dempotency|[Rr]equest)[A-Za-z0-9-]{0,30}$"


AllowedOrigins = Annotated[list[Origin], Field(min_length=1, max_length=50)]


class VariableInput(StrictModel):
    """The value of a variable `${NAME}`. A secret value can be replaced but not read."""

    value: Annotated[
        SecretStr,
        Field(max_length=65_536, json_schema_extra=dict(NO_NUL)),
        AfterValidator(secret_text),
    ]
    secret: bool = Field(default=True, strict=True)
    allowed_origins: AllowedOrigins | None = Field(
        default=None,
        description="The only origins to which a secret that all providers share is sent. Default: those "
        "that it has, and for a new one those of its first use. Other variables have none.",
    )


class VariablePatch(StrictModel):
    """What changes of a shared secret variable, whose value stays."""

    allowed_origins: AllowedOrigins = Field(description="The only origins to which it is sent from now on.")


class VariablesInput(StrictModel):
    """Several variables, by name."""

    variables: Annotated[
        dict[VariableName, VariableInput],
        Field(min_length=1, max_length=1000, json_schema_extra=dict(NO_OTHER_KEYS)),
    ]


class CacheInput(StrictModel):
    """How responses are cached, within what the upstream allows by Cache-Control and Expires."""

    seconds: Annotated[Number, Field(gt=0, le=604_800)] = Field(
        description="Longest time for which a cached response is used without a request to the upstream."
    )
    default_seconds: Annotated[Number, Field(ge=0, le=604_800)] | None = Field(
        None,
        description="The same for responses without a lifetime from the upstream; without it each use is "
        "validated with the upstream.",
    )
    stale_if_error: Annotated[Number, Field(ge=0, le=604_800)] | None = Field(
        None, description="How much longer a response is used while the upstream fails (RFC 5861)."
    )
    tools: Annotated[list[ToolName], Field(max_length=1000)] | None = Field(
        None, description="Only these tools, by canonical name; without it all that have no effects."
    )


class ResponsesInput(StrictModel):
    """What is done with the responses of tools, unless the client of a call prefers otherwise."""

    decode: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="XML, forms, lines of JSON and text are decoded to JSON, with the types of the tool's "
        "output schema where it has one.",
    )
    validate_outputs: Annotated[bool, Field(strict=True)] | None = Field(
        None,
        description="Responses are compared with the output schema: `X-Response-Violations` says where they "
        "differ, and the outcome of such calls is `invalid-response`.",
    )
    tools: Annotated[list[ToolName], Field(max_length=1000)] | None = Field(
        None, description="Only these tools, by canonical name; without it all."
    )


class LimitsInput(StrictModel):
    """Overrides of the gateway's limits for calls of one provider; times in seconds.

    The last four hold per origin and worker: see "Upstreams that fail" in docs/operations.md.
    """

    connect: Annotated[Number, Field(gt=0, le=300)] | None = None
    first_byte: Annotated[Number, Field(gt=0, le=3600)] | None = None
    idle: Annotated[Number, Field(gt=0, le=3600)] | None = None
    total: Annotated[Number, Field(gt=0, le=3600)] | None = None
    response_bytes: Annotated[int, Field(ge=1, le=1 << 40, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = None
    concurrency: Annotated[int, Field(ge=1, le=10_000, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        default=None, description="Calls of one origin that run at once."
    )
    breaker_failures: Annotated[int, Field(ge=0, le=1000, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        default=None, description="Failures in a row that pause calls; 0 turns the breaker off."
    )
    attempts: Annotated[int, Field(ge=1, le=3, strict=True), ACCEPT_INTEGRAL_FLOAT] | None = Field(
        default=None, description="How often one call is sent at most; 1 turns retries off."
    )
    retry_idempotent: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="PUT and DELETE may be sent again where nobody knows their outcome.",
    )
    rate: RateLimitInput | None = Field(
        None, description="How often its tools may be called, by all clients together."
    )
    cache: CacheInput | None = Field(
        None, description="Cache responses of tools without effects, as far as the upstream allows."
    )
    idempotency_header: Annotated[str, Field(pattern=HEADER_NAME)] | None = Field(
        None,
        description="Header in which the upstream takes a key of a call; sent where the client sent an "
        "`Idempotency-Key`.",
        examples=["Idempotency-Key"],
    )
    stream: Annotated[Number, Field(gt=0, le=86400)] | None = Field(
        default=None, description="In place of `total` where the client takes the response as events."
    )

    def stored(self) -> dict[str, Any]:
        """Return the limits that are set, by name."""
        return self.model_dump(exclude_none=True)


class OptionsInput(StrictModel):
    """How a provider's source is read, and how its upstream is reached."""

    base_url: UrlText | None = Field(
        default=None,
        description="For OpenAPI documents whose servers are relative or missing; it stands in for server "
        "URLs with variables, too.",
    )
    server: Annotated[int, Field(ge=0, le=999, strict=True)] | ServerName | None = Field(
        default=None,
        description="Which of an OpenAPI document's servers is called: its index in the document's list, its "
        "description, or its URL as the document has it. Default: the first that can be called.",
        examples=["Production"],
    )
    server_variables: (
        Annotated[
            dict[ServerVariableName, ServerVariableValue],
            Field(max_length=100, json_schema_extra=dict(NO_OTHER_KEYS)),
        ]
        | None
    ) = Field(
        default=None,
        description="Values of the variables in the server URLs of an OpenAPI document, by name; each that "
        "is left out has the document's default.",
        examples=[{"tenant": "acme"}],
    )
    allow_empty: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether a source without any tool that can be called is registered. Default: false, "
        "such a registration is rejected.",
    )
    proxy_url: Annotated[SecretStr, Field(max_length=2048), AfterValidator(secret_line)] | None = Field(
        default=None, description="An HTTP proxy for all requests to this upstream. Write-only."
    )
    proxy_resolves: Annotated[bool, Field(strict=True)] | None = None
    ca_bundle: Text | None = Field(
        default=None,
        description="PEM certificates that replace the system's; an https proxy is believed by both.",
    )
    client_certificate: Text | None = Field(default=None, description="PEM chain for mutual TLS.")
    unix_socket: Annotated[str, Field(pattern=r"^/[^\x00]{1,106}$")] | None = Field(
        default=None,
        description="Path of a Unix socket to which requests to the host localhost go, in place of TCP. The "
        "operator must allow it (UNIX_SOCKETS).",
        examples=["/run/docker.sock"],
    )
    http_version: Literal["1.1", "2"] | None = Field(
        default=None,
        description="`2`: HTTP/2 only, with http:// by prior knowledge. `1.1`: never HTTP/2. "
        "Default: HTTP/1.1, and HTTP/2 where the TLS handshake shows that the upstream accepts nothing else.",
    )
    reuse: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="`false`: a new connection for each call, for an upstream whose responses get out of "
        "step with its requests. Default: connections are reused for the same credentials.",
    )
    direct: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether `/utcp?mode=direct` names its upstream, for clients with credentials of their "
        "own. Default: only while no credential of it is stored, and without `unix_socket`.",
    )
    mask_responses: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether the secrets of a call are masked in its response. Default: true. To turn it off "
        "takes the scope `credentials:write`.",
    )
    responses: ResponsesInput | None = Field(
        default=None, description="Whether responses are decoded and validated. Default: neither."
    )
    redirect_origin: HttpOrigin | None = Field(
        default=None,
        description="The origin to which the URL of the source redirects, and to which credentials may go, "
        "too. Default: credentials go to the origin of the URL only.",
        examples=["https://docs.example.com"],
    )
    client_key: Annotated[SecretStr, Field(max_length=20_000), AfterValidator(secret_text)] | None = Field(
        default=None, description="PEM key of the client certificate. Write-only."
    )

    @field_validator("base_url")
    @classmethod
    def _absolute(cls, value: str | None) -> str | None:
        if value is not None and (origin_of(value) is None or "@" in value):
            msg = "must be an absolute https:// (or http://) URL without userinfo"
            raise ValueError(msg)
        return value

    def stored(self) -> dict[str, Any]:
        """Return the options that are set, without the secrets."""
        return self.model_dump(exclude_none=True, exclude={"proxy_url", "client_key"})

    def secrets(self) -> dict[str, str]:
        """Return the secret options that are set, by name, in plain text. They are stored sealed."""
        pairs = (("proxy_url", self.proxy_url), ("client_key", self.client_key))
        return {name: secret.get_secret_value() for name, secret in pairs if secret is not None}


class RegistrationFields(StrictModel):
    """The members of a registration other than its name and source."""

    description: Text | None = None
    tags: Tags = Field(default_factory=list)
    language: LanguageTag | None = Field(
        default=None,
        description="The language of the texts of its tools (BCP 47), by which search stems their words. "
        "Default: what the document says, or the response with it (`Content-Language`).",
    )
    limits: LimitsInput = Field(default_factory=LimitsInput)
    options: OptionsInput = Field(default_factory=OptionsInput)
    credentials: Annotated[
        dict[SlotName, CredentialInput], Field(max_length=100, json_schema_extra=dict(NO_OTHER_KEYS))
    ] = Field(default_factory=dict)
    variables: Annotated[
        dict[VariableName, VariableInput], Field(max_length=200, json_schema_extra=dict(NO_OTHER_KEYS))
    ] = Field(default_factory=dict)


class DocumentOptionsInput(StrictModel):
    """How an uploaded OpenAPI document is read."""

    root: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Path of the document in a zip archive that holds several."
    )
    overlay: OverlayText | None = Field(
        default=None, description="An OpenAPI Overlay 1.0 document; it is applied at each refresh, too."
    )


class SourceInput(StrictModel):
    """Exactly one of url, document, manual, call_template and manifests; `headers` and `auth` go with a url,
    `root`, `overlay` and `follow_references` with an OpenAPI document.
    """

    url: Annotated[str, Field(min_length=1, max_length=8192)] | None = None
    headers: dict[str, Any] | None = None
    auth: dict[str, Any] | None = None
    auth_tools: dict[str, Any] | None = None
    document: dict[str, Any] | str | None = None
    manual: dict[str, Any] | None = None
    call_template: dict[str, Any] | None = None
    manifests: (
        Annotated[
            dict[
                Annotated[str, Field(max_length=200)],
                dict[str, Any] | Annotated[str, Field(max_length=262_144)],
            ],
            Field(min_length=1, max_length=1000),
        ]
        | None
    ) = Field(
        default=None,
        description="ToolClad manifests (`NAME.clad.toml`) as texts by the names of their files; beside them "
        "`toolclad.toml`, and `mcp.json` as text or object.",
    )
    root: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Path of the document in a zip archive that holds several."
    )
    overlay: dict[str, Any] | OverlayText | None = Field(
        default=None, description="An OpenAPI Overlay 1.0 document; it is applied at each refresh, too."
    )
    follow_references: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether files that the document refers to are fetched from its origin. Default: "
        "true without, false with headers or auth for the url.",
    )


class RegistrationInput(RegistrationFields):
    """The canonical registration."""

    name: ProviderName | None = None
    source: SourceInput


class UrlRegistrationInput(RegistrationFields):
    """The short form: the URL of an OpenAPI document or a UTCP manual."""

    name: ProviderName | None = None
    url: Annotated[str, Field(min_length=1, max_length=8192)] = Field(
        description="URL of an OpenAPI document or a UTCP manual; the same as `source.url`.",
        examples=["https://api.example.com/openapi.json"],
    )


KeyId = Annotated[str, Field(pattern=r"^[A-Za-z0-9:_-]{1,100}$", examples=["a1b2c3d4e5f6"])]


class ProviderPatch(StrictModel):
    """The members of a provider that can be changed. Omitted members are not changed."""

    description: Text | None = None
    tags: Tags | None = None
    language: LanguageTag | None = Field(
        default=None, description="The language of the texts of its tools (BCP 47); null: the document's."
    )
    limits: LimitsInput | None = None
    options: OptionsInput | None = None
    enabled: Annotated[bool, Field(strict=True)] | None = None
    executor_owner: KeyId | None = Field(
        default=None,
        description="The id of the API key to which the executor of this name belongs, also in the hands of "
        "the keys that succeed it by rotation; null: the next key that registers.",
    )
    executor_keys: Annotated[list[KeyId], Field(max_length=100)] | None = Field(
        default=None,
        description="The ids of further keys that may connect as this executor. What these add or change "
        "waits for approval.",
    )


class CustomToolInput(StrictModel):
    """A custom tool. Its call template is of protocol http unless it says otherwise."""

    provider: ProviderName
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["echo"])]
    description: Text = ""
    inputs: dict[str, Any] = Field(default_factory=dict, description="JSON Schema of the arguments.")
    outputs: dict[str, Any] = Field(default_factory=dict, description="JSON Schema of the result.")
    tags: Tags = Field(default_factory=list)
    keywords: Keywords = Field(default_factory=list, description="Further words by which search finds it.")
    call_template: dict[str, Any] = Field(
        json_schema_extra={
            "anyOf": [{"required": ["url"]}, {"required": ["call_template_type"]}],
            "properties": {
                "call_template_type": {
                    "type": "string",
                    "description": "Protocol; default http.",
                },
                "url": {"type": "string", "format": "uri-template"},
            },
        },
        examples=[
            {"call_template_type": "http", "http_method": "GET", "url": "https://api.example.com/echo"},
            {"call_template_type": "tcp", "host": "clock.example.com", "port": 7000},
        ],
    )
    variables: Annotated[
        dict[VariableName, VariableInput], Field(max_length=200, json_schema_extra=dict(NO_OTHER_KEYS))
    ] = Field(default_factory=dict)
