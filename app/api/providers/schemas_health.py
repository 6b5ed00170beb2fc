"""Query and response models of `GET /provider-health`."""

from datetime import datetime
from typing import Annotated, Literal

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME
from app.core.schemas import PageModel
from app.providers.checks.health import HealthFilters, HealthState
from app.providers.checks.records import CheckStatus


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
