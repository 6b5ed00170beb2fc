"""Request and response models of `/stats`."""

from collections.abc import Mapping
from dataclasses import asdict, fields
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final, Self

from pydantic import AwareDatetime, BaseModel, Field

from app.api.calls.schemas import FilterText, storable_time
from app.calls.log.entries import Interface
from app.calls.log.queries import CallFilters
from app.calls.stats.histogram import RELATIVE_ERROR
from app.calls.stats.queries import (
    INTERVALS,
    CallCounts,
    CallOrigin,
    CallStatistics,
    StatFilters,
    StatGroup,
    StatInterval,
    StatSeries,
    bucket_range,
)
from app.core.errors import FieldError, InvalidInput
from app.core.resource_names import PROVIDER_NAME, TOOL_NAME, TOOLSET_NAME
from app.core.schemas import Rfc3339DateTime
from app.core.upstream_mode import CallSource
from app.search.vectors import VectorState, VectorStatus

_MAX_POINTS: Final = 20_000
_DEFAULT_RANGES: Final[dict[StatInterval, timedelta]] = {
    "minute": timedelta(hours=1),
    "hour": timedelta(hours=24),
    "day": timedelta(days=30),
}


class StatsQuery(BaseModel):
    """What to count, and how to divide it."""

    group: StatGroup = Field("tool", description="What each series is for.")
    by: CallOrigin | None = Field(
        None, description="What each series is for in place of `group`: by what the calls came."
    )
    interval: StatInterval = Field("hour", description="The length of time of each point, in UTC.")
    since: Rfc3339DateTime | None = Field(
        None, description="Only calls that began at or after this time, rounded down to the interval."
    )
    until: Rfc3339DateTime | None = Field(
        None, description="Only calls that began before this time, rounded up to the interval. Default: now."
    )
    limit: int = Field(
        10,
        ge=0,
        le=50,
        description="Maximum number of series, most calls first; `other` has the rest. With 0, it has the "
        "counts of all calls together.",
    )
    tool: Annotated[str, Field(pattern=TOOL_NAME)] | None = Field(None, description="Canonical name.")
    provider: Annotated[str, Field(pattern=PROVIDER_NAME)] | None = Field(
        None, description="Only calls of this provider's tools."
    )
    key_id: FilterText | None = Field(None, description="Id of the client's API key.")
    outcome: FilterText | None = Field(None, description="As in `GET /calls`, except running.")
    error: bool | None = Field(
        None, description="true: only calls that count as `errors`; false: only other calls."
    )
    interface: Interface | None = Field(None, description="The interface by which the calls came.")
    toolset: Annotated[str, Field(pattern=TOOLSET_NAME)] | None = Field(
        None, description="Only calls by the addresses of this toolset."
    )
    source: CallSource | None = Field(None, description="What the responses came from.")

    def range(self) -> tuple[datetime, datetime]:
        """Return the range of whole buckets (UTC); raise InvalidInput for an empty or a too long one."""
        until = storable_time(self.until) or datetime.now(UTC)
        since = storable_time(self.since) or until - _DEFAULT_RANGES[self.interval]
        if since >= until:
            raise InvalidInput(
                "`since` must be before `until`.",
                errors=[FieldError("#/query/since", "Must be before `until`.")],
            )
        begin, end = bucket_range(since, until, self.interval)
        points = (end - begin) // INTERVALS[self.interval] * (self.limit + 1)
        if points > _MAX_POINTS:
            raise InvalidInput(
                f"The response could have {points} points, more than {_MAX_POINTS}: choose a longer interval,"
                " a shorter range or a smaller limit.",
                errors=[FieldError("#/query/since", "The range has too many intervals.")],
            )
        return begin, end

    def filters(self, visible: CallFilters) -> StatFilters:
        """Return these filters, further limited to the calls that the principal may see (`visible`)."""
        requested = self.model_dump(include={field.name for field in fields(StatFilters)})
        return StatFilters(**requested, providers=visible.providers, tools=visible.tools)


class Counts(BaseModel):
    """Counts of calls, and their durations in milliseconds: null where no duration is known."""

    calls: int = Field(ge=0)
    errors: int = Field(
        description="Calls with an outcome other than ok, invalid-response, cancelled, replayed and "
        "approval-pending.",
        ge=0,
    )
    mean_ms: float | None
    p50_ms: float | None
    p95_ms: float | None
    p99_ms: float | None
    max_ms: float | None
    request_bytes: int = Field(ge=0)
    response_bytes: int = Field(ge=0)


class StatPoint(Counts):
    """The counts of one interval."""

    at: AwareDatetime = Field(description="When the interval begins.")

    @classmethod
    def at_time(cls, at: datetime, counts: CallCounts) -> Self:
        """Return the point of the interval that begins at `at`."""
        return cls(at=at, **asdict(counts))


class Series(BaseModel):
    """The counts of one tool, provider, key, outcome, interface, toolset or source. Intervals without calls
    have no point.
    """

    value: str = Field(
        description="The name of the tool or provider (empty: calls of names that no tool had), the id of the"
        " key, the outcome, the interface, the toolset (empty: calls by no toolset's address), or the "
        "source.",
        examples=["library.searchBooks"],
    )
    totals: Counts
    points: list[StatPoint]
    key_name: str | None = Field(
        description="With `group=key`, the name of the key; null where the requesting key may not see it."
    )

    @classmethod
    def of(cls, value: str, found: StatSeries, *, key_name: str | None = None) -> Self:
        """Return the response model of a series."""
        return cls(value=value, totals=_counts(found.totals), points=_points(found), key_name=key_name)


class OtherSeries(BaseModel):
    """The counts of all values that are not listed, as one series."""

    values: int = Field(description="The number of these values.", ge=1)
    totals: Counts
    points: list[StatPoint]


class SearchVectorStats(BaseModel):
    """How far the encoding of tools for search by meaning is."""

    state: VectorState = Field(
        description="off: switched off, or no model is installed; unavailable: the model cannot be used (the"
        " log says why); starting: it is built or loaded; encoding: some tools have no vectors yet; ready:"
        " all have."
    )
    model: str | None = Field(description="The name of the model; null without one.")
    encoded: int = Field(description="Enabled tools that have their vectors.", ge=0)
    total: int = Field(description="Enabled tools.", ge=0)

    @classmethod
    def of(cls, status: VectorStatus) -> Self:
        """Return the response model of a status."""
        return cls(state=status.state, model=status.model, encoded=status.encoded, total=status.total)


class CallStats(BaseModel):
    """Statistics of calls: a series for each value, most calls first."""

    group: StatGroup = Field(description="What each series is for, unless `by` is set.")
    by: CallOrigin | None = Field(None, description="What each series is for in place of `group`.")
    interval: StatInterval
    since: AwareDatetime
    until: AwareDatetime
    percentile_error: float = Field(
        description="The maximum relative error of percentiles; those of few calls are exact."
    )
    totals: Counts
    series: list[Series]
    other: OtherSeries | None = Field(description="null where all values are listed.")
    search_vectors: SearchVectorStats | None = Field(
        description="The encoding of all tools for search by meaning; null for a key that is restricted to"
        " some providers or tags."
    )

    @classmethod
    def of(
        cls,
        found: CallStatistics,
        query: StatsQuery,
        *,
        since: datetime,
        until: datetime,
        key_names: Mapping[str, str],
        search_vectors: VectorStatus | None,
    ) -> Self:
        """Return the response to `query` for the range of whole buckets; `key_names` are names of keys by
        their ids, `search_vectors` is None where the key may not see it.
        """
        other = None
        if found.others:
            other = OtherSeries(
                values=found.others, totals=_counts(found.other.totals), points=_points(found.other)
            )
        return cls(
            group=query.group,
            by=query.by,
            interval=query.interval,
            since=since,
            until=until,
            percentile_error=round(RELATIVE_ERROR, 3),
            totals=_counts(found.totals),
            series=[
                Series.of(value, series, key_name=key_names.get(value))
                for value, series in found.series.items()
            ],
            other=other,
            search_vectors=None if search_vectors is None else SearchVectorStats.of(search_vectors),
        )


def _counts(counts: CallCounts) -> Counts:
    return Counts(**asdict(counts))


def _points(series: StatSeries) -> list[StatPoint]:
    return [StatPoint.at_time(at, counts) for at, counts in series.points]
