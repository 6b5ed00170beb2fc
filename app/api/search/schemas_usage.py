"""Request and response models of `/search/usage`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Annotated, Literal, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.core.pagination import PageQuery
from app.core.schemas import PageModel
from app.core.settings.search_usage import UsageMode
from app.search.usage.service import UsageOptions
from app.search.usage.store import UsageStatistics
from app.storage.models import SearchQuery

Count = Annotated[int, Field(ge=0)]


class SearchUsageView(BaseModel):
    """How the ranking learns from use, and how much it has learned."""

    mode: UsageMode = Field(
        description="`key`: searches of a key are ranked by its own calls only; `tenant`: also by those of"
        " others."
    )
    half_life_days: float = Field(description="After how many days a call counts half.", gt=0)
    retention_days: Count = Field(description="How long it is retained after it was last confirmed.")
    stores_queries: bool = Field(description="Whether the texts of searches are stored.")
    counts: Count = Field(description="Stored counts: each of a word, a tool and a key.")
    labels: Count = Field(
        description="The sum of the counts: calls that followed a search, once for each word of the search."
    )
    words: Count
    tools: Count
    keys: Count = Field(description="Keys whose calls followed searches.")
    queries: Count = Field(description="Stored texts of searches.")
    pending: Count = Field(description="Searches of the last minutes, which calls may still follow.")
    since: datetime | None = Field(description="When the oldest count began.")
    updated_at: datetime | None = Field(description="When the newest of the calls began.")

    @classmethod
    def of(cls, found: UsageStatistics, options: UsageOptions) -> Self:
        """Return the view of the statistics under the settings."""
        return cls(
            mode=options.mode,
            half_life_days=options.half_life_days,
            retention_days=options.retention_days,
            stores_queries=options.stores_queries,
            counts=found.counts,
            labels=found.labels,
            words=found.stems,
            tools=found.tools,
            keys=found.keys,
            queries=found.queries,
            pending=found.pending,
            since=found.since,
            updated_at=found.updated_at,
        )


class SearchQueryView(BaseModel):
    """The text of a search, and what followed."""

    id: UUID
    at: datetime
    key_id: str = Field(description="The public id of the key, or of the identity of an access token.")
    toolset: str | None = Field(description="The toolset to which the key is limited, null without one.")
    query: str = Field(description="Its first 2,000 characters; known secrets are `***`.")
    tools: list[str] = Field(description="The names of the tools that were shown, best first.")
    called: list[str] = Field(description="Those of them that were called within ten minutes.")

    @classmethod
    def of(cls, row: SearchQuery, names: Mapping[UUID, str]) -> Self:
        """Return the view of a stored search; tools that were deleted since are left out."""
        return cls(
            id=row.id,
            at=row.at,
            key_id=row.key_id,
            toolset=row.toolset or None,
            query=row.query,
            tools=[names[tool] for tool in row.tools if tool in names],
            called=[names[tool] for tool in row.called if tool in names],
        )


class SearchQueryPage(PageModel[SearchQueryView]):
    """A page of searches."""


class SearchQueryQuery(PageQuery):
    """Order and filter of a list of searches. `q` searches their text."""

    sort: Literal["at", "-at"] = Field("-at", description="Order of the items; `-` for descending.")
