"""Request bodies of the control plane: pydantic models. Secrets go in here and never come out."""

from typing import Annotated, Any

from pydantic import AfterValidator, Field, SecretStr, field_validator

from app.credentials.input_models import (
    NO_NUL,
    NO_OTHER_KEYS,
    CredentialInput,
    OverlayText,
    SlotName,
    Tags,
    VariableName,
    secret_line,
    secret_text,
)
from app.credentials.origins import origin_of
from app.schemas import (
    ACCEPT_INTEGRAL_FLOAT,
    Number,
    ProviderName,
    RateLimitInput,
    ShortText,
    StrictModel,
    Text,
    ToolName,
    UrlText,
)

# What upstreams call such a header (Idempotency-Key, PayPal-Request-Id); never one of HTTP itself.
HEADER_NAME = r"^[A-Za-z0-9-]{0,30}([Ii]dempotency|[Rr]equest)[A-Za-z0-9-]{0,30}$"


class VariableInput(StrictModel):
    """The value of `${NAME}`; a secret one can be replaced but never read."""

    value: Annotated[
        SecretStr,
        Field(max_length=65_536, json_schema_extra=dict(NO_NUL)),
        AfterValidator(secret_text),
    ]
    secret: bool = Field(default=True, strict=True)


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
        """Only what is set."""
        return self.model_dump(exclude_none=True)


class OptionsInput(StrictModel):
    """How a provider's source is read, and how its upstream is reached."""

    base_url: UrlText | None = Field(
        default=None, description="For OpenAPI documents whose servers are relative or missing."
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
    reuse: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="`false`: a new connection for each call, for an upstream whose responses get out of "
        "step with its requests. Default: connections are reused for the same credentials.",
    )
    direct: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether `/utcp?mode=direct` names its upstream, for clients with credentials of their "
        "own. Default: only while no credential of it is stored.",
    )
    mask_responses: Annotated[bool, Field(strict=True)] | None = Field(
        default=None,
        description="Whether the secrets of a call are masked in its response. Default: true. To turn it off "
        "takes the scope `credentials:write`.",
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
        """What may be read again: everything set but the secrets."""
        return self.model_dump(exclude_none=True, exclude={"proxy_url", "client_key"})

    def secrets(self) -> dict[str, str]:
        """What is to be sealed."""
        pairs = (("proxy_url", self.proxy_url), ("client_key", self.client_key))
        return {name: secret.get_secret_value() for name, secret in pairs if secret is not None}


class RegistrationFields(StrictModel):
    """What every registration may say besides its source."""

    description: Text | None = None
    tags: Tags = Field(default_factory=list)
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
        default=None, description="An OpenAPI Overlay 1.0 document; it is laid over at each refresh, too."
    )


class SourceInput(StrictModel):
    """Exactly one of url, document, manual and call_template; `headers` and `auth` go with a url, `root`,
    `overlay` and `follow_references` with an OpenAPI document.
    """

    url: Annotated[str, Field(min_length=1, max_length=8192)] | None = None
    headers: dict[str, Any] | None = None
    auth: dict[str, Any] | None = None
    auth_tools: dict[str, Any] | None = None
    document: dict[str, Any] | str | None = None
    manual: dict[str, Any] | None = None
    call_template: dict[str, Any] | None = None
    root: Annotated[ShortText, Field(min_length=1)] | None = Field(
        default=None, description="Path of the document in a zip archive that holds several."
    )
    overlay: dict[str, Any] | OverlayText | None = Field(
        default=None, description="An OpenAPI Overlay 1.0 document; it is laid over at each refresh, too."
    )
    follow_references: bool = Field(
        default=False,
        strict=True,
        description="Whether files that the document refers to are fetched from its origin.",
    )


class RegistrationInput(RegistrationFields):
    """The canonical registration."""

    name: ProviderName | None = None
    source: SourceInput


class ProviderPatch(StrictModel):
    """What can be changed on a provider; what is left out stays."""

    description: Text | None = None
    tags: Tags | None = None
    limits: LimitsInput | None = None
    options: OptionsInput | None = None
    enabled: Annotated[bool, Field(strict=True)] | None = None


class CustomToolInput(StrictModel):
    """A custom tool. Its call template is of protocol http unless it says otherwise."""

    provider: ProviderName
    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$", examples=["echo"])]
    description: Text = ""
    inputs: dict[str, Any] = Field(default_factory=dict, description="JSON Schema of the arguments.")
    outputs: dict[str, Any] = Field(default_factory=dict, description="JSON Schema of the result.")
    tags: Tags = Field(default_factory=list)
    call_template: dict[str, Any] = Field(
        json_schema_extra={
            "anyOf": [{"required": ["url"]}, {"required": ["call_template_type"]}],
            "properties": {"url": {"type": "string", "format": "uri"}},
        },
        examples=[
            {"call_template_type": "http", "http_method": "GET", "url": "https://api.example.com/echo"},
            {"call_template_type": "tcp", "host": "clock.example.com", "port": 7000},
        ],
    )
    variables: Annotated[
        dict[VariableName, VariableInput], Field(max_length=200, json_schema_extra=dict(NO_OTHER_KEYS))
    ] = Field(default_factory=dict)
