"""Request and response models of `/calls`."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Literal
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field

from app.calls.log.entries import Interface
from app.calls.log.queries import CallFilters, outcome_of
from app.core.pagination import PageQuery
from app.core.resource_names import PROVIDER_NAME, TOOL_NAME, TOOLSET_NAME
from app.core.schemas import Rfc3339DateTime, StreamedPage
from app.core.upstream_mode import CallSource
from app.storage.models import CallRecord

_EARLIEST = datetime(1, 1, 2, tzinfo=UTC)
_LATEST = datetime(9999, 12, 30, tzinfo=UTC)

FilterText = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")]


class CallSelection(BaseModel):
    """Filters of calls; a call must match every one that is given."""

    tool: Annotated[str, Field(pattern=TOOL_NAME)] | None = Field(None, description="Canonical name.")
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = None
    key_id: FilterText | None = Field(None, description="Id of the client's API key.")
    outcome: FilterText | None = Field(
        None,
        description="ok, invalid-response (validated, and not as the tool's outputs say), cancelled, "
        "running, unknown (its end was never recorded), or the slug of a problem.",
    )
    error: bool | None = Field(
        None, description="true: only calls that `GET /stats` counts as errors; false: only other calls."
    )
    interface: Interface | None = Field(None, description="The interface by which the call came.")
    toolset: Annotated[str, Field(pattern=TOOLSET_NAME)] | None = Field(
        None, description="Only calls by the addresses of this toolset."
    )
    source: CallSource | None = Field(None, description="What the response came from.")
    status: Annotated[int, Field(ge=100, le=599)] | None = Field(
        None, description="HTTP status of the response."
    )
    upstream_status: Annotated[int, Field(ge=100, le=599)] | None = Field(
        None, description="HTTP status of the upstream's response."
    )
    safe: bool | None = Field(
        None, description="true: only calls of tools without side effects (GET); false: only other calls."
    )
    min_duration_ms: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="Only calls that took at least this many milliseconds."
    )

    def filters(self, visible: CallFilters) -> CallFilters:
        """Return these filters, further limited to the calls that the principal may see (`visible`)."""
        return replace(visible, **self.model_dump(include=set(CallSelection.model_fields)))


class CallPeriod(CallSelection):
    """Filters of calls, and the period in which they began."""

    call_id: UUID | None = Field(None, description="The `X-Call-Id` of the call's response.")
    since: Rfc3339DateTime | None = Field(None, description="Only calls at or after this time, RFC 3339.")
    until: Rfc3339DateTime | None = Field(None, description="Only calls before this time, RFC 3339.")

    def filters(self, visible: CallFilters) -> CallFilters:
        """Return these filters, further limited to the calls that the principal may see (`visible`)."""
        return replace(
            super().filters(visible),
            since=storable_time(self.since),
            until=storable_time(self.until),
            call_id=self.call_id,
        )


class CallQuery(CallPeriod, PageQuery):
    """Order and filters of a list of calls. `q` searches the tool's name."""

    sort: Literal["at", "-at"] = Field("-at", description="Order of the items; `-` for descending.")
    total: bool = Field(default=False, description="Count the calls; else `total` is null.")

    def filters(self, visible: CallFilters) -> CallFilters:
        """Return these filters, further limited to the calls that the principal may see (`visible`)."""
        return replace(super().filters(visible), text=self.q)


class CallCsvQuery(CallPeriod):
    """The filters of a list of calls, and how many rows to export."""

    limit: int = Field(10_000, ge=1, le=100_000, description="Maximum number of rows.")
    cursor: UUID | None = Field(None, description="Only calls before the one with this id.")

    def filters(self, visible: CallFilters) -> CallFilters:
        """Return these filters, further limited to the calls that the principal may see (`visible`)."""
        return replace(super().filters(visible), before=self.cursor)


class CallView(BaseModel):
    """The record of one call."""

    id: UUID = Field(description="The `X-Call-Id` of its response.")
    at: AwareDatetime
    key_id: str
    provider: str
    tool: str
    outcome: str = Field(
        description="ok, invalid-response, cancelled, or the slug of the problem; running; unknown: its end "
        "was not recorded.",
        examples=["ok"],
    )
    status: int = Field(description="HTTP status of the response; 0 while it is not known.")
    upstream_status: int | None
    duration_ms: float
    request_bytes: int
    response_bytes: int
    attempts: int = Field(description="Number of requests that were started to the upstream.")
    safe: bool | None = Field(
        description="Whether the tool has no side effects; null where no tool was found."
    )
    key_name: str | None = Field(
        description="Name of the client's API key; null where the requesting key may not see that key."
    )
    interface: Interface = Field(
        description="The interface by which the call came: `rest`; `utcp` where it followed a manual's call "
        "template; `mcp`; `tool-calls`; `agent-test`; `approval` where it was made once another key had "
        "approved it."
    )
    toolset: str | None = Field(
        description="The toolset by whose address the call came; null for calls by other addresses."
    )
    source: CallSource = Field(
        description="What the response came from: `upstream`; `recording` where it was replayed; `mock` "
        "where it was made of examples and the schema."
    )

    @classmethod
    def of(cls, row: CallRecord, key_names: Mapping[str, str]) -> "CallView":
        """Return the response model of a stored record; `key_names` are the names of keys by their ids."""
        names = (name for name in cls.model_fields if name not in ("outcome", "key_name", "toolset"))
        fields = {name: getattr(row, name) for name in names}
        return cls(
            outcome=outcome_of(row),
            key_name=key_names.get(row.key_id),
            toolset=row.toolset or None,
            **fields,
        )


class CallBody(BaseModel):
    """The recorded part of a body: its beginning as text, or in base64 where it is not text."""

    model_config = ConfigDict(from_attributes=True)
    media_type: str
    bytes: int = Field(description="Length of the whole body.")
    truncated: bool = Field(description="Whether only the beginning was recorded (CALL_LOG_MAX_BODY_BYTES).")
    text: str | None
    base64: str | None


class CallBodies(BaseModel):
    """Recorded arguments and response of a call."""

    model_config = ConfigDict(from_attributes=True)
    id: UUID
    arguments: CallBody | None = Field(description="As the client gave them, or as they were repaired.")
    presets: CallBody | None = Field(
        None,
        description="The arguments that a toolset set, by JSON pointer; null without `providers:read`, and "
        "for a key that is restricted.",
    )
    result: CallBody | None = Field(description="null where there was no response.")


class CallPage(StreamedPage[CallView]):
    """A page of calls. They are counted only where `total=true` asks for it."""


def storable_time(moment: datetime | None) -> datetime | None:
    """Return the time in UTC, clamped to a day inside Python's calendar so that no offset leaves it."""
    if moment is None:
        return None
    return min(max(moment, _EARLIEST), _LATEST).astimezone(UTC)
