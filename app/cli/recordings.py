"""`utcp-gateway recordings`: recorded calls, which keys and toolsets replay."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import orjson
import typer

from app.cli.completion import complete_key_ids, complete_tool_names
from app.cli.errors import InputError
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
from app.core import exact_json

commands = typer.Typer(
    name="recordings", help="Recorded calls, which keys and toolsets replay.", no_args_is_help=True
)

NameArgument = Annotated[str, typer.Argument(help="The name of the recording.")]
DescriptionOption = Annotated[str | None, typer.Option("--description", help="What it is for.")]
IgnoreOption = Annotated[
    list[str] | None,
    typer.Option(
        "--ignore",
        metavar="POINTER",
        help="A JSON pointer to arguments that do not count when calls are compared, `*` for each item; may "
        "be repeated.",
    ),
]
AfterLastOption = Annotated[
    str | None,
    typer.Option("--after-last", help="What follows the last recorded response: repeat-last or error."),
]
StrictOption = Annotated[
    bool | None,
    typer.Option("--strict/--lenient", help="Whether calls of tools that have changed since fail."),
]
IfMatchOption = Annotated[
    str | None, typer.Option("--if-match", metavar="ETAG", help="Fail unless it still has this version.")
]


@commands.command("list", cls=GatewayCommand)
def list_recordings(
    ctx: SessionContext,
    *,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the recordings."""
    columns = ("NAME", "CALLS", "BYTES", "OMITTED", "UPDATED", "USED", "DESCRIPTION")
    paging = Paging(limit, everything, cursor, sort, q)
    importance = ("NAME", "CALLS", "UPDATED", "BYTES")
    show_list(
        ctx.obj,
        "/recordings",
        query={},
        paging=paging,
        columns=columns,
        row=_build_row,
        importance=importance,
    )


@commands.command("show", cls=GatewayCommand)
def show(ctx: SessionContext, *, name: NameArgument) -> None:
    """Show a recording, without its calls."""
    _print(ctx.obj, ctx.obj.gateway.get(build_url_path("recordings", name)).json())


@commands.command("create", cls=GatewayCommand)
def create(
    ctx: SessionContext,
    *,
    name: NameArgument,
    description: DescriptionOption = None,
    ignore: IgnoreOption = None,
    after_last: AfterLastOption = None,
    strict: StrictOption = None,
) -> None:
    """Create an empty recording, for keys and toolsets that record."""
    body = {"name": name, **_build_members(description, ignore, after_last, strict)}
    _print(ctx.obj, ctx.obj.gateway.send("POST", "/recordings", json=body).json())


@commands.command("edit", cls=GatewayCommand)
def edit(
    ctx: SessionContext,
    *,
    name: NameArgument,
    description: DescriptionOption = None,
    ignore: IgnoreOption = None,
    after_last: AfterLastOption = None,
    strict: StrictOption = None,
    if_match: IfMatchOption = None,
) -> None:
    """Change a recording; what is not given stays as it is."""
    body = _build_members(description, ignore, after_last, strict)
    if not body:
        raise InputError("Give what is to be changed, e.g. --ignore or --after-last.")
    headers = {} if if_match is None else {"If-Match": if_match}
    changed = ctx.obj.gateway.send("PATCH", build_url_path("recordings", name), json=body, headers=headers)
    _print(ctx.obj, changed.json())


@commands.command("delete", cls=GatewayCommand)
def delete(
    ctx: SessionContext,
    *,
    name: NameArgument,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
    if_match: IfMatchOption = None,
) -> None:
    """Delete a recording with its calls; keys and toolsets that use it fail from then on."""
    session = ctx.obj
    if not yes:
        confirm(f"Delete the recording {name}?")
    headers = {} if if_match is None else {"If-Match": if_match}
    session.gateway.send("DELETE", build_url_path("recordings", name), headers=headers)
    _print_done(session, {"deleted": name}, f"Deleted {name}.")


@commands.command("export", cls=GatewayCommand)
def export(
    ctx: SessionContext,
    *,
    name: NameArgument,
    file: Annotated[str, typer.Argument(help="Where to write; '-' for standard output.")] = "-",
) -> None:
    """Write a recording as JSON, for a repository: it has no secret, and each gateway can import it."""
    session = ctx.obj
    document = session.gateway.get(build_url_path("recordings", name, "export")).json()
    content = exact_json.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_APPEND_NEWLINE)
    if file == "-":
        session.output.write_raw(content)
        return
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}.") from None
    calls = len(document.get("interactions") or ())
    _print_done(session, {"written": file, "interactions": calls}, f"Wrote {file} ({calls:,} calls).")


@commands.command("import", cls=GatewayCommand)
def import_recording(
    ctx: SessionContext,
    *,
    name: NameArgument,
    file: Annotated[str, typer.Argument(help="What `recordings export` wrote; '-' for standard input.")],
) -> None:
    """Create or replace a recording by what `recordings export` wrote."""
    document = read_json(read_text(file), option=file)
    _print(ctx.obj, ctx.obj.gateway.send("PUT", build_url_path("recordings", name), json=document).json())


@commands.command("calls", cls=GatewayCommand)
def calls(
    ctx: SessionContext,
    *,
    name: NameArgument,
    tool: Annotated[
        str | None,
        typer.Option("--tool", autocompletion=complete_tool_names, help="Only calls of this tool."),
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the calls of a recording, with their arguments."""
    columns = ("POSITION", "TOOL", "ARGUMENTS", "KIND", "STATUS", "BYTES", "RECORDED", "ID")
    paging = Paging(limit, everything, cursor, sort, q)
    path = build_url_path("recordings", name, "interactions")
    show_list(
        ctx.obj,
        path,
        query={"tool": tool},
        paging=paging,
        columns=columns,
        row=_call_row,
        importance=("ID", "TOOL", "STATUS", "ARGUMENTS"),
    )


@commands.command("call", cls=GatewayCommand)
def call(
    ctx: SessionContext,
    *,
    name: NameArgument,
    call_id: Annotated[str, typer.Argument(metavar="ID", help="As `recordings calls` shows it.")],
) -> None:
    """Show one call of a recording, with its arguments and its response."""
    session = ctx.obj
    session.output.write_document(
        session.gateway.get(build_url_path("recordings", name, "interactions", call_id)).json()
    )


@commands.command("delete-call", cls=GatewayCommand)
def delete_call(
    ctx: SessionContext,
    *,
    name: NameArgument,
    call_id: Annotated[str, typer.Argument(metavar="ID", help="As `recordings calls` shows it.")],
) -> None:
    """Delete one call of a recording."""
    session = ctx.obj
    session.gateway.delete(build_url_path("recordings", name, "interactions", call_id))
    _print_done(session, {"deleted": call_id}, f"Deleted {call_id}.")


@commands.command("run", cls=GatewayCommand)
def run(
    ctx: SessionContext,
    *,
    name: NameArgument,
    key_id: Annotated[
        str | None,
        typer.Option(
            "--key-id",
            autocompletion=complete_key_ids,
            help="Let the calls of this key that name no run begin anew.",
        ),
    ] = None,
) -> None:
    """Begin a run of replays, and print its name for the header X-Recording-Run."""
    session = ctx.obj
    body = {} if key_id is None else {"key_id": key_id}
    run_state = session.gateway.send("POST", build_url_path("recordings", name, "runs"), json=body).json()
    if session.output.is_structured:
        session.output.write_document(run_state)
        return
    session.output.write_text(run_state["run"])


def _build_members(
    description: str | None, ignore: list[str] | None, after_last: str | None, strict: bool | None
) -> dict[str, Any]:
    """Return the members of a request that the options give."""
    given = {"ignored": ignore or None, "after_last": after_last, "strict": strict}
    options = {member: value for member, value in given.items() if value is not None}
    body: dict[str, Any] = {} if description is None else {"description": description}
    return body | ({"options": options} if options else {})


def _print(session: ClientSession, recording: Mapping[str, Any]) -> None:
    if session.output.is_structured:
        session.output.write_document(recording)
        return
    options = recording.get("options") or {}
    names = ("name", "description", "interactions", "bytes", "omitted", "version")
    fields = [(name, recording.get(name)) for name in names]
    fields += [(name.replace("_", " "), options.get(name)) for name in ("ignored", "after_last", "strict")]
    times = ("created_at", "updated_at", "used_at")
    session.output.write_fields([*fields, *((name.replace("_", " "), recording.get(name)) for name in times)])


def _print_done(session: ClientSession, document: Mapping[str, Any], note: str) -> None:
    if session.output.is_structured:
        session.output.write_document(document)
        return
    session.output.note(note)


def _build_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    names = ("name", "interactions", "bytes", "omitted", "updated_at", "used_at")
    return (*(item.get(name) for name in names), shorten(item.get("description")))


def _call_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    text = item.get("arguments_text") or exact_json.dumps(item.get("arguments")).decode()
    begin = (item.get("position"), item.get("tool"), shorten(text))
    return (*begin, *(item.get(name) for name in ("kind", "status", "size", "recorded_at", "id")))
