"""`utcp-gateway events`: the audit events of the control plane."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.pagination import (
    LIMIT_DEFAULT,
    AllOption,
    CursorOption,
    LimitOption,
    Paging,
    QueryOption,
    SortOption,
    show_list,
)
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import parse_time

commands = typer.Typer(name="events", help="Audit events: who changed what.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Which events to list; the fields are query parameters of `GET /events`."""

    actor: str | None
    object_type: str | None
    object_name: str | None
    action: str | None
    since: str | None
    until: str | None


@commands.command("list", cls=GatewayCommand)
def list_events(
    ctx: SessionContext,
    *,
    actor: Annotated[str | None, typer.Option(help="Only changes with the key of this id.")] = None,
    object_type: Annotated[str | None, typer.Option(help="Only objects of this type, e.g. provider.")] = None,
    object_name: Annotated[str | None, typer.Option(help="Only objects of this name.")] = None,
    action: Annotated[str | None, typer.Option(help="Only changes of this kind, e.g. updated.")] = None,
    since: Annotated[
        str | None, typer.Option(help="Only changes at or after this time: 2h (ago), or a time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only changes before this time: 30m (ago), or a time.")
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List audit events, newest first."""
    chosen = EventFilter(
        actor,
        object_type,
        object_name,
        action,
        None if since is None else parse_time(since, option="--since", ago=True),
        None if until is None else parse_time(until, option="--until", ago=True),
    )
    columns = ("TIME", "ACTOR", "ACTION", "OBJECT", "NAME", "DETAIL")
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        ctx.obj,
        "/events",
        query=asdict(chosen),
        paging=paging,
        columns=columns,
        row=_build_row,
        importance=("TIME", "ACTION", "OBJECT", "NAME", "ACTOR"),
    )


def _build_row(event: Mapping[str, Any]) -> tuple[object, ...]:
    members = ("at", "actor", "action", "object_type", "object_name", "detail")
    return tuple(event.get(member) for member in members)
