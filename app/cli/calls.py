"""`utcp-gateway calls`: the record of calls."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.pages import Paging, collect, show
from app.cli.session import Session, remote
from app.cli.values import moment, path

commands = typer.Typer(name="calls", help="The record of calls.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Which:
    """The options that choose calls; the names of its fields are the gateway's query parameters."""

    tool: Annotated[str | None, typer.Option(help="Only calls of this tool.")] = None
    provider: Annotated[str | None, typer.Option(help="Only calls of this provider's tools.")] = None
    key_id: Annotated[str | None, typer.Option("--caller", help="Only calls with the key of this id.")] = None
    outcome: Annotated[
        str | None, typer.Option(help="Only those ended so: ok, upstream-timeout, unknown...")
    ] = None
    status: Annotated[int | None, typer.Option(help="Only those answered with this status.")] = None
    upstream_status: Annotated[
        int | None, typer.Option(help="Only those that the upstream answered with this status.")
    ] = None
    safe: Annotated[
        bool | None, typer.Option("--safe/--effects", help="Only tools without (or with) effects.")
    ] = None
    min_duration_ms: Annotated[
        float | None, typer.Option("--slower-than", min=0, help="Only those that took so many milliseconds.")
    ] = None
    since: Annotated[str | None, typer.Option(help="Not before: 2h (ago), or a time.")] = None
    until: Annotated[str | None, typer.Option(help="Before: 30m (ago), or a time.")] = None


@commands.command("list")
@remote
def list_calls(session: Session, *, which: Which, paging: Paging) -> None:
    """List calls, the newest first."""
    query = asdict(which)
    for bound in ("since", "until"):
        if query[bound]:
            query[bound] = moment(query[bound], option=f"--{bound}", ago=True)
    page = collect(session, "/calls", query=query, paging=paging)
    columns = ("TIME", "TOOL", "CALLER", "OUTCOME", "UPSTREAM", "TRIES", "MS", "BYTES", "ID")
    show(session, page, columns=columns, row=_row)


@commands.command("show")
@remote
def show_call(
    session: Session,
    *,
    call_id: Annotated[str, typer.Argument(metavar="ID", help="The X-Call-Id of its answer.")],
    bodies: Annotated[
        bool, typer.Option("--bodies", help="Arguments and answer, where AUDIT_BODIES kept them.")
    ] = False,
) -> None:
    """Show one call, or what was kept of its arguments and answer (scope calls:bodies; leaves an event)."""
    where = path("calls", call_id, *(["bodies"] if bodies else []))
    session.output.document(session.gateway.get(where).json())


def _row(call: Mapping[str, Any]) -> tuple[object, ...]:
    took = f"{call['duration_ms']:.1f}"
    ended = (call["outcome"], call["upstream_status"], call["attempts"], took, call["response_bytes"])
    return (call["at"], call["tool"], call["key_id"], *ended, call["id"])
