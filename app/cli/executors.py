"""`utcp-gateway executors`: the programs that are connected to execute commands (UBP)."""

from collections.abc import Mapping
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

commands = typer.Typer(
    name="executors", help="Connected programs that execute commands.", no_args_is_help=True
)


@commands.command("list", cls=GatewayCommand)
def list_executors(
    ctx: SessionContext,
    *,
    executor: Annotated[str | None, typer.Option("--executor", help="Only this executor.")] = None,
    state: Annotated[str | None, typer.Option("--state", help="idle, busy or full.")] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the connections of executors, at all workers, with their commands."""
    show_list(
        ctx.obj,
        "/executors",
        query={"executor": executor, "state": state},
        paging=Paging(limit, everything, cursor, sort, q),
        columns=("EXECUTOR", "STATE", "OPEN", "AT ONCE", "TRANSPORT", "KEY", "CONNECTED", "COMMANDS"),
        row=_build_row,
        importance=("EXECUTOR", "STATE", "COMMANDS", "OPEN", "CONNECTED"),
    )


def _build_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    members = (
        "executor", "state", "open_commands", "max_commands", "transport", "key_id", "connected_at",
        "commands",
    )  # fmt: skip
    return tuple(item[member] for member in members)
