"""Request and response models of checks and health of providers, without any secret."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import PageModel, StrictModel, ToolName
from app.providers.checks.health import HealthFilters, HealthState
from app.providers.checks.records import CheckStatus, CredentialStatus


class ProviderHealthQuery(PageQuery):
    """Order and filters of the health of providers. `q` searches name and title."""

    sort: Literal["name", "-name"] = Field("name", description="Order of the items; `-` for descending.")
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only this provider.", examples=["library"]
    )
    state: Literal["ok", "degraded", "failed", "away", "paused", "unknown", "pending"] | None = Field(
        None,
        description="Only providers in this state; `pending`: those with changes to approve; "
        "`away`: those whose executor is not connected.",
    )

    def to_filters(self) -> HealthFilters:
        """Return which providers are listed."""
        return HealthFilters(self.q, self.provider, self.state)


class BreakerView(BaseModel):
    """The circuit breaker of one origin, in the worker that serves the request."""

    origin: str = Field(examples=["https://api.example.com"])
    state: Literal["closed", "open", "half_open"]
    retry_after: int | None = Field(
        description="Seconds until a call is let through again; null while it is closed."
    )


class LastError(BaseModel):
    """The last call of a provider that failed."""

    at: datetime = Field(description="The minute in which the call began.")
    outcome: str = Field(description="The slug of the problem type.", examples=["upstream-timeout"])


class LastCheck(BaseModel):
    """The last check of a provider (`POST /providers/{name}/check`)."""

    checked_at: datetime
    status: CheckStatus


class ProviderHealth(BaseModel):
    """The health of a provider: its breakers, its calls of the last hour and its last check."""

    name: str
    title: str = ""
    protocol: str = Field("", examples=["http"])
    tool_count: int = 0
    state: HealthState = Field(
        description="`paused`: it is disabled; `failed`: a breaker is not closed, the last check failed, a "
        "certificate has expired or no executor is connected (`available`); "
        "`degraded`: at least a tenth of the calls of the last hour are `failures`, "
        "the last check was degraded or a certificate expires within 14 days; `unknown`: neither called nor "
        "checked."
    )
    enabled: bool
    available: bool | None = Field(
        None,
        description="Whether an executor of it is connected; null for providers whose tools no executor "
        "executes.",
    )
    pending: bool = Field(description="Whether changes wait for `POST /providers/{name}/approve`.")
    breakers: list[BreakerView]
    calls: int = Field(description="Calls that began in the last hour, as `GET /stats` counts them.")
    errors: int = Field(
        description="Those of them that ended with an error, of the client or of the upstream."
    )
    error_rate: float | None = Field(description="`errors` / `calls`; null without calls.")
    failures: int = Field(
        description="Those of them that failed because of the upstream, its credential or the way to it; "
        "status codes that an upstream responded with are not among them."
    )
    p95_ms: float | None = Field(description="95% of these calls were at most so long, in milliseconds.")
    last_error: LastError | None = Field(description="Of the last 24 hours.")
    last_check: LastCheck | None
    certificate_expires_at: datetime | None = Field(
        description="When the first certificate that the last check found expires."
    )


class ProviderHealthPage(PageModel[ProviderHealth]):
    """A page of the health of providers."""


class CheckRequest(StrictModel):
    """What is checked beside the origins and the tokens."""

    probe: Annotated[bool, Field(strict=True)] = Field(
        False,
        description="Whether an operation without effects and without required arguments is called for each "
        "stored credential, to find out whether the upstream accepts it.",
    )
    tool: ToolName | None = Field(
        None, description="The tool to call for that; it must be safe and need no arguments."
    )


class CheckStep(BaseModel):
    """One step of reaching an origin."""

    step: Literal["resolution", "connection", "tls", "http"] = Field(
        description="For a provider of an executor, `connection`: whether one is connected to the gateway."
    )
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None = Field(description="The slug of the problem type; null where the step succeeded.")
    detail: str | None


class CertificateView(BaseModel):
    """The TLS certificate of an origin."""

    subject: str = Field(examples=["CN=api.example.com"])
    issuer: str
    valid_from: datetime
    valid_until: datetime
    days_left: int = Field(description="Whole days until it expires; negative where it has expired.")
    trusted: bool = Field(description="Whether the gateway accepts it; see the step `tls` otherwise.")


class OriginCheck(BaseModel):
    """Whether an origin can be reached from the gateway."""

    origin: str = Field(examples=["https://api.example.com"])
    status: Literal["ok", "failed", "not_checkable"] = Field(
        description="`not_checkable`: programs, files, texts, and datagrams, which no peer acknowledges."
    )
    steps: list[CheckStep] = Field(description="In their order; the one that failed is the last.")
    certificate: CertificateView | None
    http_status: int | None = Field(
        description="Of the response to HEAD /, without credentials; every status means that it is reachable."
    )


class CredentialCheck(BaseModel):
    """Whether the credential of a slot is usable."""

    slot: str
    kind: Literal["api_key", "basic", "bearer", "oauth2", "static"] | None = Field(
        description="Null where no credential is stored."
    )
    exact_kind: str | None = Field(
        description="The kind itself; `kind` is the most similar one of release 0.2.0."
    )
    status: CredentialStatus = Field(
        description="`accepted`, `rejected`: by the upstream, for `tool`; `unknown`: its response says "
        "nothing of the credential; `token_obtained`: from the token endpoint, but no tool was called; "
        "`failed`: no token, or it may not be sent to the origin; `missing`: none is stored, and a tool "
        "needs it; `not_checked`: it is stored."
    )
    tool: str | None = Field(description="The tool that was called with it.")
    upstream_status: int | None
    problem: str | None = Field(description="The slug of the problem type that a call would get.")
    detail: str | None


class ProtocolCheck(BaseModel):
    """Whether an upstream speaks its protocol: an exchange of the protocol itself, without a tool call."""

    tool: str = Field(description="The tool whose call template was used.")
    protocol: str
    status: Literal["ok", "failed"]
    milliseconds: float
    problem: str | None
    detail: str | None


class ProviderCheck(BaseModel):
    """The result of a check of a provider."""

    provider: str
    checked_at: datetime
    status: CheckStatus = Field(
        description="`failed`: no origin can be reached, or a credential is not usable; `degraded`: one of "
        "several origins, a missing credential, a certificate that expires within 14 days, or status 5xx."
    )
    probed: bool = Field(description="Whether tools were called.")
    origins: list[OriginCheck]
    credentials: list[CredentialCheck]
    protocols: list[ProtocolCheck] = Field(
        description="For protocols with a handshake of their own, and only where `probe` was requested."
    )
    hints: list[str] = Field(description="What to do next, a sentence for each finding.")
    complete: bool = Field(
        description="Whether all origins and credentials were checked: the first 20 of each are, within 20 s."
    )
