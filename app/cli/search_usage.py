"""`utcp-gateway search usage`: what the ranking of tools has learned from use."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.completion import complete_key_ids, complete_tool_names
from app.cli.output import shorten
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
from app.cli.values import confirm

commands = typer.Typer(
    name="usage", help="What the ranking of tools has learned from use.", no_args_is_help=True
)


@commands.command("show", cls=GatewayCommand)
def show(ctx: SessionContext) -> None:
    """Show how much was learned, and by which settings."""
    session = ctx.obj
    usage = session.gateway.get("/search/usage").json()
    if session.output.is_structured:
        session.output.write_document(usage)
        return
    session.output.write_fields([(name.replace("_", " "), value) for name, value in usage.items()])


@commands.command("delete", cls=GatewayCommand)
def delete(
    ctx: SessionContext,
    *,
    tool: Annotated[
        str | None,
        typer.Option(
            "--tool", autocompletion=complete_tool_names, help="Only what was learned of this tool."
        ),
    ] = None,
    key_id: Annotated[
        str | None,
        typer.Option(
            "--key-id", autocompletion=complete_key_ids, help="Only what was learned from the key of this id."
        ),
    ] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete what was learned, and the stored texts of searches."""
    session = ctx.obj
    given = [
        text for name, text in ((tool, f"of the tool {tool}"), (key_id, f"from the key {key_id}")) if name
    ]
    which = " ".join(["what was learned", *given])
    if not yes:
        confirm(f"Delete {which}?")
    query = {name: value for name, value in (("tool", tool), ("key_id", key_id)) if value is not None}
    session.gateway.send("DELETE", "/search/usage", query=query)
    if session.output.is_structured:
        session.output.write_document({"deleted": True, **query})
        return
    session.output.note(f"Deleted {which}.")


@commands.command("queries", cls=GatewayCommand)
def queries(
    ctx: SessionContext,
    *,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the texts of searches, where the gateway stores them, and what was called after them."""
    columns = ("TIME", "KEY", "QUERY", "SHOWN", "CALLED")
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(ctx.obj, "/search/usage/queries", query={}, paging=paging, columns=columns, row=_build_row)


def _build_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    shown, called = item.get("tools") or [], item.get("called") or []
    return item.get("at"), item.get("key_id"), shorten(item.get("query")), len(shown), ", ".join(called)
