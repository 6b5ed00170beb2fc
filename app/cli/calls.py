"""`utcp-gateway calls`: the record of calls."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.pagination import LIMIT_DEFAULT, AllOption, CursorOption, LimitOption, Paging, show_list
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import parse_time, url_path

commands = typer.Typer(name="calls", help="The record of calls.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls to list; the fields are query parameters of `GET /calls`."""

    tool: str | None
    provider: str | None
    key_id: str | None
    outcome: str | None
    status: int | None
    upstream_status: int | None
    safe: bool | None
    min_duration_ms: float | None
    since: str | None
    until: str | None


@commands.command("list", cls=GatewayCommand)
def list_calls(
    ctx: SessionContext,
    *,
    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None,
    provider: Annotated[str | None, typer.Option(help="Only calls of this provider's tools.")] = None,
    key_id: Annotated[
        str | None, typer.Option("--key-id", help="Only calls with the key of this id.")
    ] = None,
    outcome: Annotated[
        str | None, typer.Option(help="Only calls with this outcome: ok, upstream-timeout, unknown...")
    ] = None,
    status: Annotated[int | None, typer.Option(help="Only calls with this response status.")] = None,
    upstream_status: Annotated[
        int | None, typer.Option(help="Only calls with this response status of the upstream.")
    ] = None,
    safe: Annotated[
        bool | None, typer.Option("--safe/--effects", help="Only calls of tools without (or with) effects.")
    ] = None,
    min_duration_ms: Annotated[
        float | None,
        typer.Option("--slower-than", min=0, help="Only calls of this many milliseconds or more."),
    ] = None,
    since: Annotated[str | None, typer.Option(help="Not before: 2h (ago), or a time.")] = None,
    until: Annotated[str | None, typer.Option(help="Before: 30m (ago), or a time.")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
) -> None:
    """List calls, the newest first."""
    chosen = CallFilter(
        tool=tool,
        provider=provider,
        key_id=key_id,
        outcome=outcome,
        status=status,
        upstream_status=upstream_status,
        safe=safe,
        min_duration_ms=min_duration_ms,
        since=None if since is None else parse_time(since, option="--since", ago=True),
        until=None if until is None else parse_time(until, option="--until", ago=True),
    )
    columns = ("TIME", "TOOL", "KEY", "OUTCOME", "UPSTREAM", "TRIES", "MS", "BYTES", "ID")
    paging = Paging(limit, everything, cursor)
    show_list(ctx.obj, "/calls", query=asdict(chosen), paging=paging, columns=columns, row=_row)


@commands.command("show", cls=GatewayCommand)
def show_call(
    ctx: SessionContext,
    *,
    call_id: Annotated[str, typer.Argument(metavar="ID", help="The X-Call-Id of the response.")],
    bodies: Annotated[
        bool, typer.Option("--bodies", help="Arguments and response, where CALL_LOG_BODIES recorded them.")
    ] = False,
) -> None:
    """Show one call, or the recorded arguments and response (scope calls:bodies; creates an event)."""
    session = ctx.obj
    path = url_path("calls", call_id, *(["bodies"] if bodies else []))
    session.output.document(session.gateway.get(path).json())


def _row(call: Mapping[str, Any]) -> tuple[object, ...]:
    duration = f"{call['duration_ms']:.1f}"
    end = (call["outcome"], call["upstream_status"], call["attempts"], duration, call["response_bytes"])
    return (call["at"], call["tool"], call["key_id"], *end, call["id"])
