"""`utcp-gateway toolsets`: named views of the registry for agents."""

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

import orjson
import typer

from app.cli.completion import complete_provider_names, complete_tool_names, complete_toolset_names
from app.cli.errors import InputError, ProblemResponse
from app.cli.keys import MockSeedOption, RecordingOption, UpstreamModeOption, build_upstream_members
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
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import build_url_path, confirm, read_json, read_text

commands = typer.Typer(name="toolsets", help="Named views of the registry for agents.", no_args_is_help=True)

NameArgument = Annotated[
    str, typer.Argument(help="The name of the toolset.", autocompletion=complete_toolset_names)
]
IfMatchOption = Annotated[
    str | None, typer.Option("--if-match", metavar="ETAG", help="Fail unless it still has this version.")
]


@commands.command("list", cls=GatewayCommand)
def list_toolsets(
    ctx: SessionContext,
    *,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the toolsets that the key may use."""
    columns = ("NAME", "TITLE", "TOOLS", "UPDATED", "MCP")
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(ctx.obj, "/toolsets", query={}, paging=paging, columns=columns, row=_build_row)


@commands.command("show", cls=GatewayCommand)
def show(ctx: SessionContext, *, name: NameArgument) -> None:
    """Show a toolset: its tools, its addresses, and what of its definition has no effect."""
    _print(ctx.obj, ctx.obj.gateway.get(build_url_path("toolsets", name)).json())


@commands.command("set", cls=GatewayCommand)
def set_toolset(
    ctx: SessionContext,
    *,
    name: NameArgument,
    title: Annotated[str | None, typer.Option("--title", help="The title for people.")] = None,
    description: Annotated[str | None, typer.Option("--description", help="What it is for.")] = None,
    tool: Annotated[
        list[str] | None,
        typer.Option(
            "--tool", autocompletion=complete_tool_names, help="A tool, all of them; may be repeated."
        ),
    ] = None,
    provider: Annotated[
        list[str] | None,
        typer.Option(
            "--provider",
            autocompletion=complete_provider_names,
            help="All tools of this provider; may be repeated.",
        ),
    ] = None,
    tag: Annotated[
        list[str] | None,
        typer.Option("--tag", help="All tools with this tag of a registrar; may be repeated."),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option("--exclude", help="A tool that is no member; may be repeated.")
    ] = None,
    read_only: Annotated[
        bool | None, typer.Option("--read-only/--all-effects", help="Only tools that change nothing.")
    ] = None,
    search: Annotated[
        list[str] | None,
        typer.Option("--search", help="All tools that have each word of this text; may be repeated."),
    ] = None,
    mode: Annotated[
        str | None, typer.Option("--mode", help="Which tools an MCP client lists: all, search or auto.")
    ] = None,
    pin: Annotated[
        list[str] | None,
        typer.Option(
            "--pin",
            autocompletion=complete_tool_names,
            help="A tool that is listed in each mode; may be repeated.",
        ),
    ] = None,
    argument_repair: Annotated[
        str | None, typer.Option("--argument-repair", help="Repair of arguments: off, safe or on.")
    ] = None,
    schemas: Annotated[
        str | None,
        typer.Option("--schemas", help="How MCP shows schemas: portable, or full (with $defs)."),
    ] = None,
    max_bytes: Annotated[
        int | None, typer.Option("--max-bytes", min=1_000, help="The budget of a result in bytes.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=250, help="The budget of a result in tokens.")
    ] = None,
    rename: Annotated[
        list[str] | None,
        typer.Option("--rename", metavar="TOOL=NAME", help="The name that agents see; may be repeated."),
    ] = None,
    preset: Annotated[
        list[str] | None,
        typer.Option(
            "--preset",
            metavar="TOOL:INPUT=JSON",
            help="The value of an input, by its name or JSON pointer; text where it is no JSON; may be "
            "repeated.",
        ),
    ] = None,
    upstream_mode: UpstreamModeOption = None,
    recording: RecordingOption = None,
    mock_seed: MockSeedOption = None,
    file: Annotated[
        str | None,
        typer.Option("--file", "-f", help="A file with the whole definition as JSON; '-': standard input."),
    ] = None,
    if_match: IfMatchOption = None,
) -> None:
    """Create a toolset, or change it; what is not given stays as it is.

    Titles and descriptions of its tools are set by --file.
    """
    session = ctx.obj
    stored = _find_toolset(session, name)
    body = {member: (stored or {}).get(member, "") for member in ("title", "description")}
    definition: dict[str, Any] = dict((stored or {}).get("definition") or {})
    if file is not None:
        definition = read_json(read_text(file), option="--file")
    given = {
        "tools": tool, "providers": provider, "tags": tag, "exclude": exclude, "read_only": read_only,
        "search": search, "mode": mode, "pinned": pin, "argument_repair": argument_repair,
        "schemas": schemas,
    }  # fmt: skip
    definition |= {member: value for member, value in given.items() if value is not None}
    budget = {"max_bytes": max_bytes, "max_tokens": max_tokens}
    budget = {member: value for member, value in budget.items() if value is not None}
    if budget:
        definition["result_budget"] = (definition.get("result_budget") or {}) | budget
    definition |= build_upstream_members(upstream_mode, recording, mock_seed)
    _change_tools(definition, rename or (), preset or ())
    texts = {"title": title, "description": description}
    body |= {member: text for member, text in texts.items() if text is not None}
    if not definition and stored is None:
        raise InputError("Give its members, e.g. --tool, --provider, --tag or --file.")
    headers = {} if if_match is None else {"If-Match": if_match}
    sent = {**body, "definition": definition}
    response = session.gateway.send("PUT", build_url_path("toolsets", name), json=sent, headers=headers)
    _print(session, response.json())


@commands.command("remove", cls=GatewayCommand)
def remove(
    ctx: SessionContext,
    *,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    if_match: IfMatchOption = None,
) -> None:
    """Delete a toolset; keys that are limited to it can use nothing by its addresses any more."""
    session = ctx.obj
    if not yes:
        confirm(f"Delete the toolset {name}?")
    headers = {} if if_match is None else {"If-Match": if_match}
    session.gateway.send("DELETE", build_url_path("toolsets", name), headers=headers)
    if session.output.is_structured:
        session.output.write_document({"removed": name})
        return
    session.output.note(f"Removed {name}.")


@commands.command("export", cls=GatewayCommand)
def export(ctx: SessionContext) -> None:
    """Write the definitions of all toolsets as JSON to standard output, for `toolsets import`."""
    session = ctx.obj
    names: list[str] = []
    cursor = None
    while True:
        page = session.gateway.get("/toolsets", query={"limit": 200, "cursor": cursor}).json()
        names += (item["name"] for item in page["items"])
        cursor = page.get("next_cursor")
        if cursor is None:
            break
    toolsets = [session.gateway.get(build_url_path("toolsets", name)).json() for name in names]
    hidden = [one["name"] for one in toolsets if one.get("definition") is None]
    if hidden:
        raise InputError(f"The key may not read the definition of {hidden[0]}: it needs providers:read.")
    members = ("name", "title", "description", "definition")
    session.output.write_document({"toolsets": [{key: one[key] for key in members} for one in toolsets]})


@commands.command("import", cls=GatewayCommand)
def import_toolsets(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="What `toolsets export` wrote; '-' for standard input.")],
) -> None:
    """Create or replace the toolsets that `toolsets export` wrote. Importing them again changes nothing."""
    session = ctx.obj
    document = read_json(read_text(file), option=file)
    toolsets = document.get("toolsets") if isinstance(document, dict) else None
    if not isinstance(toolsets, list) or not all(
        isinstance(toolset, dict) and "name" in toolset for toolset in toolsets
    ):
        raise InputError(f"{file} is not what `toolsets export` wrote.")
    for toolset in toolsets:
        body = {member: value for member, value in toolset.items() if member != "name"}
        session.gateway.send("PUT", build_url_path("toolsets", str(toolset["name"])), json=body)
    if session.output.is_structured:
        session.output.write_document({"imported": [toolset["name"] for toolset in toolsets]})
        return
    session.output.note(f"Imported {len(toolsets)} toolsets.")


def _change_tools(definition: dict[str, Any], renames: Iterable[str], presets: Iterable[str]) -> None:
    """Set names and preset inputs of tools in a definition; raise InputError for what is not of the form."""
    changes = {tool: dict(change) for tool, change in (definition.get("changes") or {}).items()}
    for written in renames:
        tool, mark, name = written.partition("=")
        if not mark or not tool or not name:
            raise InputError(f"--rename {written!r}: write TOOL=NAME.")
        changes.setdefault(tool, {})["name"] = name
    for written in presets:
        target, mark, text = written.partition("=")
        tool, colon, name = target.partition(":")
        if not mark or not colon or not tool or not name:
            raise InputError(f"--preset {written!r}: write TOOL:INPUT=VALUE.")
        location = name if name.startswith("/") else f"/{name.replace('~', '~0').replace('/', '~1')}"
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            value = text
        change = changes.setdefault(tool, {})
        change["presets"] = (change.get("presets") or {}) | {location: value}
    if changes:
        definition["changes"] = changes


def _find_toolset(session: ClientSession, name: str) -> Mapping[str, Any] | None:
    try:
        toolset: Mapping[str, Any] = session.gateway.get(build_url_path("toolsets", name)).json()
    except ProblemResponse as error:
        if error.status != 404:
            raise
        return None
    return toolset


def _print(session: ClientSession, toolset: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(toolset)
        return
    fields = [(name, toolset.get(name)) for name in ("name", "title", "description", "version")]
    addresses = toolset.get("addresses") or {}
    session.output.write_fields(
        [*fields, *((name.replace("_", " "), url) for name, url in addresses.items())]
    )
    session.output.write_text("")
    rows = (
        (one["name"], one["tool"], one.get("read_only"), shorten(one.get("title")))
        for one in toolset.get("members") or ()
    )
    session.output.write_table(("NAME", "TOOL", "READ-ONLY", "TITLE"), rows)
    for problem in toolset.get("problems") or ():
        session.output.note(f"{problem['kind']} {problem['name']}: {problem['detail']}")


def _build_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    address = (item.get("addresses") or {}).get("mcp")
    return (item["name"], item.get("title"), item.get("tools"), item.get("updated_at"), address)
