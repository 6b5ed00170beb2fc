"""Bodies and pages of `/tools` and `/calls`."""

from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import UUID

from pydantic import AwareDatetime, BaseModel, Field
from sqlalchemy import Select

from app.access.schemas import Moment
from app.audit.queries import CallFilters
from app.catalog.tools import ToolView, call_url
from app.models import CallRecord
from app.schemas import PROVIDER_NAME, TOOL_NAME, Closed, Tag, Text
from app.search import Hit

_FIRST_MOMENT = datetime(1, 1, 2, tzinfo=UTC)
_LAST_MOMENT = datetime(9999, 12, 30, tzinfo=UTC)

Word = Annotated[str, Field(min_length=1, max_length=300, pattern=r"^[^\u0000-\u001F\u007F]+$")]


class ToolSummary(BaseModel):
    """A tool in a list."""

    name: str = Field(description="Canonical name, `provider.tool`.", examples=["library.searchBooks"])
    alias: str = Field(description="The name where a dot is not allowed.", examples=["library_searchBooks"])
    provider: str = Field(examples=["library"])
    description: str
    tags: list[str]
    enabled: bool = Field(description="Whether it can be called; false with a disabled provider, too.")
    deprecated: bool
    hand_made: bool = Field(description="Written by hand (`POST /tools`), not imported.")
    version: int = Field(description="Its ETag is this number in quotes.")
    call_url: str = Field(examples=["https://tools.example.com/tools/library_searchBooks/call"])
    updated_at: datetime

    @classmethod
    def of(cls, tool: ToolView, *, base_url: str) -> "ToolSummary":
        """The summary of a tool that this gateway serves at `base_url`."""
        return cls(**_summary(tool, base_url))


class ToolOut(ToolSummary):
    """A tool with its schemas and how it is called upstream (without secrets)."""

    inputs: dict[str, Any] = Field(description="JSON Schema of the arguments object.")
    outputs: dict[str, Any] = Field(description="JSON Schema of the answer, `{}` where unknown.")
    slimmed: list[str] = Field(description="How a large tool was brought to what models see of it.")
    call_template: dict[str, Any]
    security: list[list[dict[str, Any]]] = Field(
        description="Credential slots that it needs: alternatives of slots that go together."
    )
    average_response_size: int | None
    created_at: datetime

    @classmethod
    def of(cls, tool: ToolView, *, base_url: str) -> "ToolOut":
        """All of a tool that this gateway serves at `base_url`."""
        return cls(
            **_summary(tool, base_url),
            inputs=tool.inputs,
            outputs=tool.outputs,
            slimmed=tool.slimmed,
            call_template=tool.call_template,
            security=tool.security,
            average_response_size=tool.average_response_size,
            created_at=tool.created_at,
        )


class ToolPage(BaseModel):
    """A page of tools, by name."""

    items: list[ToolSummary]
    next_cursor: str | None


class ToolPatch(Closed):
    """What to change. What is left out stays; null is: as the source says."""

    description: Text | None = Field(None, examples=["Search the catalogue by words of the title."])
    tags: Annotated[list[Tag], Field(max_length=64)] | None = Field(None, examples=[["reading"]])
    enabled: Annotated[bool, Field(strict=True)] | None = None


class ToolHit(BaseModel):
    """A tool that was found."""

    score: float = Field(description="BM25, 100 more where the name was meant; 0 without words.", ge=0)
    name: str
    alias: str
    provider: str
    description: str
    inputs: dict[str, Any]
    tags: list[str]
    call_url: str

    @classmethod
    def of(cls, hit: Hit) -> "ToolHit":
        """The hit as JSON."""
        tool = hit.tool
        return cls(
            score=hit.score,
            name=tool.name,
            alias=tool.alias,
            provider=tool.provider,
            description=tool.description,
            inputs=tool.inputs,
            tags=tool.tags,
            call_url=hit.call_url,
        )


class ToolHits(BaseModel):
    """What a search found, the best first."""

    items: list[ToolHit]


class CallQuery(BaseModel):
    """Which calls; each that is given must hold."""

    tool: Annotated[str, Field(pattern=TOOL_NAME)] | None = Field(None, description="Canonical name.")
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = None
    key_id: Word | None = Field(None, description="Id of the caller's key.")
    outcome: Word | None = Field(None, description="ok, cancelled, or the slug of a problem.")
    since: Moment | None = Field(None, description="Not before this time, RFC 3339.")
    until: Moment | None = Field(None, description="Before this time, RFC 3339.")
    limit: int = Field(50, ge=1, le=200, description="Most items of the page.")
    cursor: UUID | None = Field(None, description="`next_cursor` of the page before.")

    def filters(self, providers: frozenset[str] | None, tools: Select[Any] | None) -> CallFilters:
        """The filters of the audit; `providers` and `tools` are the limits of the principal."""
        return CallFilters(
            tool=self.tool,
            provider=self.provider,
            key_id=self.key_id,
            outcome=self.outcome,
            since=_storable_moment(self.since),
            until=_storable_moment(self.until),
            providers=providers,
            tools=tools,
        )


class CallOut(BaseModel):
    """One call that was made."""

    id: UUID = Field(description="The `X-Call-Id` of its answer.")
    at: AwareDatetime
    key_id: str
    provider: str
    tool: str
    outcome: str = Field(description="ok, cancelled, or the slug of the problem.", examples=["ok"])
    status: int
    upstream_status: int | None
    duration_ms: float
    request_bytes: int
    response_bytes: int

    @classmethod
    def of(cls, row: CallRecord) -> "CallOut":
        """The record as JSON."""
        return cls.model_validate(row, from_attributes=True)


class CallPage(BaseModel):
    """A page of calls, the newest first."""

    items: list[CallOut]
    next_cursor: UUID | None


def _storable_moment(moment: datetime | None) -> datetime | None:
    """In UTC; at the edges of the calendar another offset would leave it."""
    if moment is None:
        return None
    return min(max(moment, _FIRST_MOMENT), _LAST_MOMENT).astimezone(UTC)


def _summary(tool: ToolView, base_url: str) -> dict[str, Any]:
    return {
        "name": tool.name,
        "alias": tool.alias,
        "provider": tool.provider,
        "description": tool.description,
        "tags": tool.tags,
        "enabled": tool.enabled,
        "deprecated": tool.deprecated,
        "hand_made": tool.hand_made,
        "version": tool.version,
        "call_url": call_url(base_url, tool.alias),
        "updated_at": tool.updated_at,
    }
