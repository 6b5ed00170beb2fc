"""`utcp-gateway stats`: counts and durations of calls as a table."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from typing import Annotated, Any

import typer

from app.cli.completion import (
    complete_key_ids,
    complete_provider_names,
    complete_tool_names,
    complete_toolset_names,
)
from app.cli.session import SessionContext
from app.cli.values import parse_time


class Group(StrEnum):
    """What a row of the table is for."""

    TOOL = "tool"
    PROVIDER = "provider"
    KEY = "key"
    OUTCOME = "outcome"
    INTERFACE = "interface"
    TOOLSET = "toolset"
    SOURCE = "source"


class Interval(StrEnum):
    """The length of time of a point."""

    MINUTE = "minute"
    HOUR = "hour"
    DAY = "day"


@dataclass(frozen=True, slots=True)
class StatsFilter:
    """Which calls to count, and how; the fields are query parameters of `GET /stats`."""

    group: str | None
    by: str | None
    interval: str
    since: str | None
    until: str | None
    limit: int
    tool: str | None
    provider: str | None
    key_id: str | None
    outcome: str | None
    error: bool | None
    interface: str | None
    toolset: str | None
    source: str | None


_ORIGINS = (Group.INTERFACE, Group.TOOLSET, Group.SOURCE)
_COUNTS = ("calls", "errors", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "max_ms", "response_bytes")
_HEADINGS = ("CALLS", "ERRORS", "MEAN MS", "P50", "P95", "P99", "MAX", "BYTES")


def stats(
    ctx: SessionContext,
    *,
    group: Annotated[Group, typer.Option(help="What each row is for.")] = Group.TOOL,
    interval: Annotated[
        Interval, typer.Option(help="The length of time of a point; the range is whole intervals.")
    ] = Interval.HOUR,
    since: Annotated[
        str | None, typer.Option(help="Only calls from this time on: 7d (ago), or a time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only calls before this time: 30m (ago), or a time.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="Maximum number of values.")] = 10,
    tool: Annotated[
        str | None, typer.Option(help="Only calls of this tool.", autocompletion=complete_tool_names)
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(help="Only calls of this provider's tools.", autocompletion=complete_provider_names),
    ] = None,
    key_id: Annotated[
        str | None,
        typer.Option("--key-id", autocompletion=complete_key_ids, help="Only calls with the key of this id."),
    ] = None,
    outcome: Annotated[str | None, typer.Option(help="Only calls with this outcome.")] = None,
    error: Annotated[
        bool | None,
        typer.Option("--errors/--no-errors", help="Only calls that count as errors (or others)."),
    ] = None,
    interface: Annotated[
        str | None,
        typer.Option(help="Only calls by this interface: rest, utcp, mcp, tool-calls, agent-test, approval."),
    ] = None,
    toolset: Annotated[
        str | None,
        typer.Option(
            help="Only calls by the addresses of this toolset.", autocompletion=complete_toolset_names
        ),
    ] = None,
    source: Annotated[
        str | None, typer.Option(help="Only calls with responses of: upstream, recording, mock.")
    ] = None,
    points: Annotated[bool, typer.Option("--points", help="Show a row for each interval, too.")] = False,
) -> None:
    """Count calls by tool, provider, key, outcome, interface, toolset or source: errors, durations and bytes.

    By default of the last 24 hours (--interval minute: 1 hour, day: 30 days).
    """
    session = ctx.obj
    chosen = StatsFilter(
        group=None if group in _ORIGINS else group.value,
        by=group.value if group in _ORIGINS else None,
        interval=interval.value,
        since=None if since is None else parse_time(since, option="--since", ago=True),
        until=None if until is None else parse_time(until, option="--until", ago=True),
        limit=limit,
        tool=tool,
        provider=provider,
        key_id=key_id,
        outcome=outcome,
        error=error,
        interface=interface,
        toolset=toolset,
        source=source,
    )
    statistics = session.gateway.get("/stats", query=asdict(chosen)).json()
    if session.output.is_structured:
        session.output.write_document(statistics)
        return
    columns = (group.value.upper(), *(("TIME",) if points else ()), *_HEADINGS)
    importance = (*columns[: -len(_HEADINGS)], "CALLS", "ERRORS", "P50", "P95", "P99", "MEAN MS")
    session.output.write_table(columns, _build_rows(statistics, points=points), importance=importance)
    vectors = statistics.get("search_vectors")
    if vectors is not None and vectors["model"] is not None:
        session.output.note(
            f"Search by meaning ({vectors['model']}): {vectors['state']},"
            f" {vectors['encoded']} of {vectors['total']} tools encoded."
        )


def _build_rows(statistics: Mapping[str, Any], *, points: bool) -> Iterator[tuple[object, ...]]:
    nameless = "(no toolset)" if statistics.get("by") == Group.TOOLSET else "(no such tool)"
    series = [
        (series_entry.get("key_name") or series_entry["value"] or nameless, series_entry)
        for series_entry in statistics["series"]
    ]
    if statistics["other"] is not None:
        series.append((f"({statistics['other']['values']} others)", statistics["other"]))
    if not series:
        return
    for name, series_entry in [*series, ("(total)", {"totals": statistics["totals"], "points": []})]:
        yield (name, *(("",) if points else ()), *_format_cells(series_entry["totals"]))
        if points:
            yield from ((name, point["at"], *_format_cells(point)) for point in series_entry["points"])


def _format_cells(counts: Mapping[str, Any]) -> Iterator[object]:
    for name in _COUNTS:
        value = counts[name]
        yield f"{value:.1f}" if isinstance(value, float) else value
