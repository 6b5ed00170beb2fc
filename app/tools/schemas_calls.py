"""Bodies and pages of `/calls`."""

from datetime import UTC, datetime
from typing import Annotated
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.call_log.queries import CallFilters, outcome_of
from app.models import CallRecord
from app.schemas import PROVIDER_NAME, TOOL_NAME, Moment

_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)

Word = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")]


class CallQuery(BaseModel):
    """Which calls; each that is given must hold."""

    tool: Annotated[str, Field(pattern=TOOL_NAME)] | None = Field(None, description="Canonical name.")
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = None
    key_id: Word | None = Field(None, description="Id of the caller's key.")
    outcome: Word | None = Field(
        None,
        description="ok, cancelled, running, unknown (its end was never recorded), or the slug of a problem.",
    )
    status: Annotated[int, Field(ge=100, le=599)] | None = Field(None, description="Status of the answer.")
    upstream_status: Annotated[int, Field(ge=100, le=599)] | None = Field(
        None, description="Status of the upstream's answer."
    )
    safe: bool | None = Field(None, description="Only calls of tools without effects (GET), or only others.")
    min_duration_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="Only calls that took so long."
    )
    call_id: UUID | None = Field(None, description="The `X-Call-Id` of its answer.")
    since: Moment | None = Field(None, description="Not before this time, RFC 3339.")
    until: Moment | None = Field(None, description="Before this time, RFC 3339.")
    limit: int = Field(50, ge=1, le=200, description="Most items of the page.")
    cursor: UUID | None = Field(None, description="`next_cursor` of the page before.")

    def filters(self, reach: CallFilters) -> CallFilters:
        """The filters of the audit; `reach` has the limits of the principal."""
        return CallFilters(
            tool=self.tool,
            provider=self.provider,
            key_id=self.key_id,
            outcome=self.outcome,
            since=_storable_moment(self.since),
            until=_storable_moment(self.until),
            call_id=self.call_id,
            status=self.status,
            upstream_status=self.upstream_status,
            safe=self.safe,
            min_duration_ms=self.min_duration_ms,
            providers=reach.providers,
            tools=reach.tools,
        )


class CallOut(BaseModel):
    """One call that was made."""

    id: UUID = Field(description="The `X-Call-Id` of its answer.")
    at: AwareDatetime
    key_id: str
    provider: str
    tool: str
    outcome: str = Field(
        description="ok, cancelled, or the slug of the problem; running; unknown: its end was not recorded.",
        examples=["ok"],
    )
    status: int = Field(description="Status of the answer; 0 while it is not known.")
    upstream_status: int | None
    duration_ms: float
    request_bytes: int
    response_bytes: int
    attempts: int = Field(description="Requests that were begun to the upstream.")
    safe: bool | None = Field(description="Whether the tool has no effects; null where none was found.")

    @classmethod
    def of(cls, row: CallRecord) -> "CallOut":
        """The record as JSON."""
        names = (name for name in cls.model_fields if name != "outcome")
        return cls(outcome=outcome_of(row), **{name: getattr(row, name) for name in names})


class CallBody(BaseModel):
    """What was kept of a body: its beginning as text, or in base64 where it is no text."""

    model_config = ConfigDict(from_attributes=True)
    media_type: str
    bytes: int = Field(description="Length of the whole body.")
    truncated: bool = Field(description="Whether only the beginning was kept (AUDIT_BODY_BYTES).")
    text: str | None
    base64: str | None


class CallBodies(BaseModel):
    """Arguments and answer of a call."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    arguments: CallBody | None
    result: CallBody | None = Field(description="null where no answer came.")


class CallPage(BaseModel):
    """A page of calls, the newest first."""

    items: list[CallOut]
    next_cursor: UUID | None


def _storable_moment(moment: datetime | None) -> datetime | None:
    """In UTC; at the edges of the calendar another offset would leave it."""
    if moment is None:
        return None
    return min(max(moment, _FIRST_MOMENT), _LAST_MOMENT).astimezone(UTC)
