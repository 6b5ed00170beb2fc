"""`utcp-gateway search`: synonyms and pinned results of searches."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Any

import typer

from app.cli.completion import complete_tool_names, complete_toolset_names
from app.cli.errors import InputError
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
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import build_url_path, read_bytes, read_json, read_text

synonyms = typer.Typer(name="synonyms", help="Terms that mean the same.", no_args_is_help=True)
pins = typer.Typer(
    name="pins", help="Tools that come first in searches for the words of a query.", no_args_is_help=True
)

_TEXT_PATH = "/search/synonyms.txt"

IdArgument = Annotated[str, typer.Argument(metavar="ID", help="As `list` shows it.")]
TermsArgument = Annotated[list[str], typer.Argument(help="The terms, each as one argument.")]
ExpandToOption = Annotated[
    list[str] | None,
    typer.Option(
        "--expand-to",
        help="One-way: what is searched, too, for one of the terms, but not the other way round; may be "
        "repeated.",
    ),
]
QueryArgument = Annotated[str, typer.Argument(metavar="QUERY", help="The words of the search.")]
ToolOption = Annotated[
    list[str],
    typer.Option(
        "--tool",
        autocompletion=complete_tool_names,
        help="A tool that comes first, in the order given; may be repeated.",
    ),
]
ToolsetOption = Annotated[
    str | None,
    typer.Option(
        "--toolset",
        autocompletion=complete_toolset_names,
        help="Only in searches of this toolset; otherwise in all.",
    ),
]
ToolsetFilter = Annotated[
    str | None,
    typer.Option("--toolset", autocompletion=complete_toolset_names, help="Only those of this toolset."),
]
IfMatchOption = Annotated[
    str | None, typer.Option("--if-match", metavar="ETAG", help="Fail unless it still has this version.")
]


@synonyms.command("list", cls=GatewayCommand)
def list_synonyms(
    ctx: SessionContext,
    *,
    toolset: ToolsetFilter = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the sets of synonyms."""
    paging = Paging(limit, everything, cursor, sort, q)
    columns = ("TERMS", "TOOLSET", "UPDATED", "ID")
    query = {"toolset": toolset}
    show_list(
        ctx.obj,
        "/search/synonyms",
        query=query,
        paging=paging,
        columns=columns,
        row=_build_synonyms_row,
        importance=("ID", "TERMS", "TOOLSET"),
    )


@synonyms.command("show", cls=GatewayCommand)
def show_synonyms(ctx: SessionContext, *, set_id: IdArgument) -> None:
    """Show a set of synonyms."""
    _print_synonyms(ctx.obj, ctx.obj.gateway.get(build_url_path("search", "synonyms", set_id)).json())


@synonyms.command("add", cls=GatewayCommand)
def add_synonyms(
    ctx: SessionContext,
    *,
    terms: TermsArgument,
    expand_to: ExpandToOption = None,
    toolset: ToolsetOption = None,
) -> None:
    """Add a set of synonyms, e.g. `add voucher coupon 'gift card'`, or `add k8s --expand-to kubernetes`."""
    body = _build_synonyms_body(terms, expand_to, toolset)
    _print_synonyms(ctx.obj, ctx.obj.gateway.send("POST", "/search/synonyms", json=body).json())


@synonyms.command("replace", cls=GatewayCommand)
def replace_synonyms(
    ctx: SessionContext,
    *,
    set_id: IdArgument,
    terms: TermsArgument,
    expand_to: ExpandToOption = None,
    toolset: ToolsetOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Replace a set of synonyms by these terms."""
    body = _build_synonyms_body(terms, expand_to, toolset)
    path = build_url_path("search", "synonyms", set_id)
    changed = ctx.obj.gateway.send("PUT", path, json=body, headers=_build_if_match(if_match))
    _print_synonyms(ctx.obj, changed.json())


@synonyms.command("remove", cls=GatewayCommand)
def remove_synonyms(ctx: SessionContext, *, set_id: IdArgument, if_match: IfMatchOption = None) -> None:
    """Delete a set of synonyms."""
    _remove(ctx.obj, build_url_path("search", "synonyms", set_id), set_id, if_match)


@synonyms.command("export", cls=GatewayCommand)
def export_synonyms(ctx: SessionContext, *, toolset: ToolsetOption = None) -> None:
    """Write the synonyms of all searches, or those of one toolset, as text: a set on each line, as in the
    files of Solr and Elasticsearch.
    """
    session = ctx.obj
    text = session.gateway.get(_TEXT_PATH, query={"toolset": toolset}).body.decode()
    if session.output.is_structured:
        session.output.write_document({"synonyms": text})
        return
    for line in text.splitlines():
        session.output.write_text(line)


@synonyms.command("import", cls=GatewayCommand)
def import_synonyms(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="A file of synonyms; '-' for standard input.")],
    toolset: ToolsetOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Replace the synonyms of all searches, or those of one toolset, by those of a file, as `export` writes
    it. Importing it again changes nothing.
    """
    session = ctx.obj
    headers = {"Content-Type": "text/plain", **_build_if_match(if_match)}
    result = session.gateway.send(
        "PUT", _TEXT_PATH, query={"toolset": toolset}, content=read_bytes(file), headers=headers
    ).json()
    if session.output.is_structured:
        session.output.write_document(result)
        return
    session.output.note(
        f"Created {result['created']} sets of synonyms, deleted {result['deleted']}; "
        f"{result['unchanged']} were there already."
    )


@pins.command("list", cls=GatewayCommand)
def list_pins(
    ctx: SessionContext,
    *,
    toolset: ToolsetFilter = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the pinned results."""
    paging = Paging(limit, everything, cursor, sort, q)
    columns = ("QUERY", "TOOLS", "TOOLSET", "PROBLEMS", "UPDATED", "ID")
    query = {"toolset": toolset}
    show_list(
        ctx.obj,
        "/search/pins",
        query=query,
        paging=paging,
        columns=columns,
        row=_pin_row,
        importance=("ID", "QUERY", "TOOLS", "PROBLEMS"),
    )


@pins.command("show", cls=GatewayCommand)
def show_pin(ctx: SessionContext, *, pin_id: IdArgument) -> None:
    """Show a pinned result, and which of its tools have no effect now."""
    _print_pin(ctx.obj, ctx.obj.gateway.get(build_url_path("search", "pins", pin_id)).json())


@pins.command("add", cls=GatewayCommand)
def add_pin(
    ctx: SessionContext, *, query: QueryArgument, tool: ToolOption, toolset: ToolsetOption = None
) -> None:
    """Let tools come first in searches for exactly the words of a query."""
    body = {"query": query, "tools": tool, "toolset": toolset}
    _print_pin(ctx.obj, ctx.obj.gateway.send("POST", "/search/pins", json=body).json())


@pins.command("replace", cls=GatewayCommand)
def replace_pin(
    ctx: SessionContext,
    *,
    pin_id: IdArgument,
    query: QueryArgument,
    tool: ToolOption,
    toolset: ToolsetOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Replace a pinned result by this query and these tools."""
    body = {"query": query, "tools": tool, "toolset": toolset}
    path = build_url_path("search", "pins", pin_id)
    changed = ctx.obj.gateway.send("PUT", path, json=body, headers=_build_if_match(if_match))
    _print_pin(ctx.obj, changed.json())


@pins.command("remove", cls=GatewayCommand)
def remove_pin(ctx: SessionContext, *, pin_id: IdArgument, if_match: IfMatchOption = None) -> None:
    """Delete a pinned result."""
    _remove(ctx.obj, build_url_path("search", "pins", pin_id), pin_id, if_match)


@pins.command("export", cls=GatewayCommand)
def export_pins(ctx: SessionContext) -> None:
    """Write all pinned results as JSON to standard output, for `pins import`."""
    session = ctx.obj
    members = ("query", "tools", "toolset")
    session.output.write_document(
        {"pins": [{name: pin[name] for name in members} for pin in _list_all_pins(session)]}
    )


@pins.command("import", cls=GatewayCommand)
def import_pins(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="What `pins export` wrote; '-' for standard input.")],
) -> None:
    """Create or replace the pinned results that `pins export` wrote. Importing them again changes nothing."""
    session = ctx.obj
    document = read_json(read_text(file), option=file)
    given = document.get("pins") if isinstance(document, dict) else None
    if not isinstance(given, list) or not all(isinstance(one, dict) and "query" in one for one in given):
        raise InputError(f"{file} is not what `pins export` wrote.")
    stored = {(pin["toolset"], pin["query"]): pin for pin in _list_all_pins(session)}
    changed = 0
    for one in given:
        known = stored.get((one.get("toolset"), one["query"]))
        if known is None:
            session.gateway.send("POST", "/search/pins", json=one)
        elif known["tools"] != one.get("tools"):
            session.gateway.send("PUT", build_url_path("search", "pins", known["id"]), json=one)
        else:
            continue
        changed += 1
    if session.output.is_structured:
        session.output.write_document({"imported": len(given), "changed": changed})
        return
    session.output.note(f"Imported {len(given)} pinned results; {len(given) - changed} were there already.")


def _list_all_pins(session: ClientSession) -> Iterator[Mapping[str, Any]]:
    cursor = None
    while True:
        page = session.gateway.get("/search/pins", query={"limit": 200, "cursor": cursor}).json()
        yield from page["items"]
        cursor = page.get("next_cursor")
        if cursor is None:
            return


def _build_synonyms_body(
    terms: list[str], expand_to: list[str] | None, toolset: str | None
) -> dict[str, Any]:
    return {"terms": terms, "expand_to": expand_to or None, "toolset": toolset}


def _build_if_match(tag: str | None) -> dict[str, str]:
    return {} if tag is None else {"If-Match": tag}


def _remove(session: ClientSession, path: str, removed: str, if_match: str | None) -> None:
    session.gateway.send("DELETE", path, headers=_build_if_match(if_match))
    if session.output.is_structured:
        session.output.write_document({"removed": removed})
        return
    session.output.note(f"Removed {removed}.")


def _write_synonyms(item: Mapping[str, Any]) -> str:
    """Return a set of synonyms as a line of their text form."""
    terms = ", ".join(item["terms"])
    expand_to = item.get("expand_to")
    return terms if expand_to is None else f"{terms} => {', '.join(expand_to)}"


def _build_synonyms_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    return (_write_synonyms(item), item.get("toolset"), item.get("updated_at"), item["id"])


def _pin_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    problems = ", ".join(problem["name"] for problem in item.get("problems") or ())
    return (
        item["query"], ", ".join(item["tools"]), item.get("toolset"), problems, item.get("updated_at"),
        item["id"],
    )  # fmt: skip


def _print_synonyms(session: ClientSession, synonyms: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(synonyms)
        return
    others = tuple((name, synonyms.get(name)) for name in ("toolset", "version", "id"))
    session.output.write_fields((("synonyms", _write_synonyms(synonyms)), *others))


def _print_pin(session: ClientSession, pin: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(pin)
        return
    others = tuple((name, pin.get(name)) for name in ("toolset", "version", "id"))
    session.output.write_fields((("query", pin["query"]), ("tools", ", ".join(pin["tools"])), *others))
    for problem in pin.get("problems") or ():
        session.output.note(f"{problem['name']}: {problem['detail']}")
