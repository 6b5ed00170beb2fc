"""`utcp-gateway calls`: the record of calls."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import orjson
import typer

from app.cli.completion import (
    complete_key_ids,
    complete_provider_names,
    complete_tool_names,
    complete_toolset_names,
)
from app.cli.output import OutputFormat
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
from app.cli.record_stream import follow
from app.cli.session import GatewayCommand, SessionContext
from app.cli.values import build_url_path, parse_time
from app.core import exact_json

commands = typer.Typer(name="calls", help="The record of calls.", no_args_is_help=True)


ToolOption = Annotated[
    str | None, typer.Option("--tool", autocompletion=complete_tool_names, help="Only calls of this tool.")
]
ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider", autocompletion=complete_provider_names, help="Only calls of this provider's tools."
    ),
]
KeyIdOption = Annotated[
    str | None,
    typer.Option("--key-id", autocompletion=complete_key_ids, help="Only calls with the key of this id."),
]
OutcomeOption = Annotated[
    str | None,
    typer.Option("--outcome", help="Only calls with this outcome: ok, upstream-timeout, unknown..."),
]
ErrorOption = Annotated[
    bool | None, typer.Option("--errors/--no-errors", help="Only calls that count as errors (or others).")
]
StatusOption = Annotated[int | None, typer.Option("--status", help="Only calls with this response status.")]
UpstreamStatusOption = Annotated[
    int | None,
    typer.Option("--upstream-status", help="Only calls with this response status of the upstream."),
]
InterfaceOption = Annotated[
    str | None,
    typer.Option(
        "--interface", help="Only calls by this interface: rest, utcp, mcp, tool-calls, agent-test, approval."
    ),
]
ToolsetOption = Annotated[
    str | None,
    typer.Option(
        "--toolset",
        autocompletion=complete_toolset_names,
        help="Only calls by the addresses of this toolset.",
    ),
]
SourceOption = Annotated[
    str | None, typer.Option("--source", help="Only calls with responses of: upstream, recording, mock.")
]
SafeOption = Annotated[
    bool | None,
    typer.Option("--safe/--effects", help="Only calls of tools without (or with) effects."),
]
SlowerThanOption = Annotated[
    float | None,
    typer.Option("--slower-than", min=0, help="Only calls of this many milliseconds or more."),
]


@dataclass(frozen=True, slots=True)
class CallFilter:
    """Which calls to list or to follow; the fields are query parameters of `GET /calls`."""

    tool: str | None
    provider: str | None
    key_id: str | None
    outcome: str | None
    error: bool | None
    interface: str | None
    toolset: str | None
    source: str | None
    status: int | None
    upstream_status: int | None
    safe: bool | None
    min_duration_ms: float | None


@commands.command("list", cls=GatewayCommand)
def list_calls(
    ctx: SessionContext,
    *,
    tool: ToolOption = None,
    provider: ProviderOption = None,
    key_id: KeyIdOption = None,
    outcome: OutcomeOption = None,
    error: ErrorOption = None,
    interface: InterfaceOption = None,
    toolset: ToolsetOption = None,
    source: SourceOption = None,
    status: StatusOption = None,
    upstream_status: UpstreamStatusOption = None,
    safe: SafeOption = None,
    min_duration_ms: SlowerThanOption = None,
    since: Annotated[
        str | None, typer.Option(help="Only calls at or after this time: 2h (ago), or a time.")
    ] = None,
    until: Annotated[
        str | None, typer.Option(help="Only calls before this time: 30m (ago), or a time.")
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the records of calls, newest first."""
    chosen = CallFilter(
        tool, provider, key_id, outcome, error, interface, toolset, source, status, upstream_status, safe,
        min_duration_ms,
    )  # fmt: skip
    times = {
        "since": None if since is None else parse_time(since, option="--since", ago=True),
        "until": None if until is None else parse_time(until, option="--until", ago=True),
    }
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        ctx.obj,
        "/calls",
        query=asdict(chosen) | times,
        paging=paging,
        columns=_COLUMNS,
        row=_build_row,
        importance=("TIME", "TOOL", "OUTCOME", "MS", "CALLER", "UPSTREAM", "ID"),
    )


@commands.command("tail", cls=GatewayCommand)
def tail_calls(
    ctx: SessionContext,
    *,
    tool: ToolOption = None,
    provider: ProviderOption = None,
    key_id: KeyIdOption = None,
    outcome: OutcomeOption = None,
    error: ErrorOption = None,
    interface: InterfaceOption = None,
    toolset: ToolsetOption = None,
    source: SourceOption = None,
    status: StatusOption = None,
    upstream_status: UpstreamStatusOption = None,
    safe: SafeOption = None,
    min_duration_ms: SlowerThanOption = None,
) -> None:
    """Write each call when it has ended, until Ctrl-C: a line, with `-o json` a JSON object on a line.

    A lost connection is opened again, and continues after the last call.
    """
    session = ctx.obj
    chosen = CallFilter(
        tool, provider, key_id, outcome, error, interface, toolset, source, status, upstream_status, safe,
        min_duration_ms,
    )  # fmt: skip
    try:
        records = follow(session.gateway, "/calls/stream", query=asdict(chosen), note=session.output.note)
        for call in records:
            if session.output.format is OutputFormat.JSON:
                session.output.write_raw(exact_json.dumps(call, option=orjson.OPT_APPEND_NEWLINE))
            elif session.output.is_structured:
                session.output.write_document([call])
            else:
                session.output.write_line(_COLUMNS, _build_row(call))
    except KeyboardInterrupt:
        return


@commands.command("show", cls=GatewayCommand)
def show_call(
    ctx: SessionContext,
    *,
    call_id: Annotated[str, typer.Argument(metavar="ID", help="The X-Call-Id of the response.")],
    bodies: Annotated[
        bool,
        typer.Option(
            "--bodies", help="Show the arguments and the response, where CALL_LOG_BODIES recorded them."
        ),
    ] = False,
) -> None:
    """Show one call, or the recorded arguments and response (scope calls:bodies; creates an event)."""
    session = ctx.obj
    path = build_url_path("calls", call_id, *(["bodies"] if bodies else []))
    session.output.write_document(session.gateway.get(path).json())


@commands.command("envelope", cls=GatewayCommand)
def envelope(ctx: SessionContext, *, call_id: Annotated[str, typer.Argument(help="The X-Call-Id.")]) -> None:
    """Write the evidence envelope of a call of a ToolClad tool, made of its record: the same bytes as in its
    response, and a line end (scope calls:bodies; creates an event).
    """
    session = ctx.obj
    session.output.write_raw(session.gateway.get(build_url_path("calls", call_id, "envelope")).body + b"\n")


_COLUMNS = ("TIME", "TOOL", "CALLER", "INTERFACE", "OUTCOME", "UPSTREAM", "ATTEMPTS", "MS", "BYTES", "ID")


def _build_row(call: Mapping[str, Any]) -> tuple[object, ...]:
    duration = f"{call['duration_ms']:.1f}"
    begin = (call["at"], call["tool"], call.get("key_name") or call["key_id"], call.get("interface", ""))
    end = (call["outcome"], call["upstream_status"], call["attempts"], duration, call["response_bytes"])
    return (*begin, *end, call["id"])
