"""`utcp-gateway tools enable|disable|edit|history`: change tools, and show what changed."""

from collections.abc import Mapping
from typing import Annotated, Any, Final

import typer

from app.cli.completion import complete_provider_names, complete_tool_names
from app.cli.errors import ExitCode, InputError
from app.cli.output import format_cell, shorten, write_sentences
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
from app.cli.values import build_url_path, read_json

commands = typer.Typer()
_REVERTIBLE: Final = (
    "description", "tags", "keywords", "enabled", "annotations", "publish_output_schema", "response_options"
)  # fmt: skip
_REVERTIBLE_TEXT: Final = f"{', '.join(_REVERTIBLE[:-1])} or {_REVERTIBLE[-1]}"

NameArgument = Annotated[
    str, typer.Argument(help="The tool: provider.tool, or its alias.", autocompletion=complete_tool_names)
]
NamesArgument = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="NAME...", help="The tools: provider.tool, or aliases.", autocompletion=complete_tool_names
    ),
]
ProviderOption = Annotated[
    str | None,
    typer.Option(
        "--provider",
        autocompletion=complete_provider_names,
        help="All tools of this provider, instead of names.",
    ),
]
TagOption = Annotated[str | None, typer.Option("--tag", help="All tools with this tag, instead of names.")]
DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Show what would change; change nothing.")]


@commands.command("enable", cls=GatewayCommand)
def enable(
    ctx: SessionContext,
    *,
    names: NamesArgument = None,
    provider: ProviderOption = None,
    tag: TagOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Enable tools by names, or all of a provider or tag. Exits with 4 if some failed, with 1 if all did."""
    _change(ctx.obj, names or [], {"provider": provider, "tag": tag}, enabled=True, dry_run=dry_run)


@commands.command("disable", cls=GatewayCommand)
def disable(
    ctx: SessionContext,
    *,
    names: NamesArgument = None,
    provider: ProviderOption = None,
    tag: TagOption = None,
    dry_run: DryRunOption = False,
) -> None:
    """Disable tools: calls are rejected, and agents do not see them. Exit codes as of `enable`."""
    _change(ctx.obj, names or [], {"provider": provider, "tag": tag}, enabled=False, dry_run=dry_run)


@commands.command("edit", cls=GatewayCommand)
def edit(
    ctx: SessionContext,
    *,
    name: NameArgument,
    description: Annotated[str | None, typer.Option("--description", help="Another description.")] = None,
    tag: Annotated[
        list[str] | None, typer.Option("--tag", help="A tag; may be repeated. They replace all its tags.")
    ] = None,
    no_tags: Annotated[bool, typer.Option("--no-tags", help="Remove all its tags.")] = False,
    keyword: Annotated[
        list[str] | None,
        typer.Option(
            "--keyword", help="A word by which search finds it; may be repeated. They replace its keywords."
        ),
    ] = None,
    no_keywords: Annotated[bool, typer.Option("--no-keywords", help="Remove all its keywords.")] = False,
    requires_approval: Annotated[
        bool | None,
        typer.Option(
            "--requires-approval/--no-requires-approval",
            help="Whether another key must approve each call; the latter needs approvals:decide.",
        ),
    ] = None,
    read_only: Annotated[
        bool | None,
        typer.Option("--read-only/--not-read-only", help="Tell agents whether calls change anything."),
    ] = None,
    destructive: Annotated[
        bool | None,
        typer.Option("--destructive/--not-destructive", help="Tell agents if calls may delete or overwrite."),
    ] = None,
    header_input: Annotated[
        list[str] | None,
        typer.Option(
            "--header-input",
            metavar="INPUT=TOKEN",
            help="Let MCP clients repeat an input in the header Mcp-Param-TOKEN; may be repeated.",
        ),
    ] = None,
    publish_output_schema: Annotated[
        bool | None,
        typer.Option(
            "--publish-output-schema/--no-publish-output-schema",
            help="Whether agents see the schema of its responses.",
        ),
    ] = None,
    response_options: Annotated[
        str | None,
        typer.Option(
            "--response-options",
            metavar="JSON",
            help="How responses are completed: all pages, polling; JSON, '@FILE' or '-' as in the API.",
        ),
    ] = None,
    revert: Annotated[
        list[str] | None,
        typer.Option("--revert", help=f"Use the source's: {_REVERTIBLE_TEXT}; may be repeated."),
    ] = None,
    if_match: Annotated[
        str | None, typer.Option("--if-match", metavar="ETAG", help="Fail unless it still has this version.")
    ] = None,
) -> None:
    """Change a tool: description, tags, keywords, approval. Refreshes of its provider preserve it."""
    session = ctx.obj
    body: dict[str, Any] = {}
    for field in revert or []:
        if field not in _REVERTIBLE:
            raise InputError(f"--revert takes {_REVERTIBLE_TEXT}.")
        body[field] = None
    if description is not None:
        body["description"] = description
    body |= _replace_list("tags", tag, removes_all=no_tags)
    body |= _replace_list("keywords", keyword, removes_all=no_keywords)
    if requires_approval is not None:
        body["requires_approval"] = requires_approval
    annotations = {
        "read_only": read_only,
        "destructive": destructive,
        "header_inputs": _read_header_inputs(header_input) if header_input else None,
    }
    if any(value is not None for value in annotations.values()):
        body["annotations"] = {name: value for name, value in annotations.items() if value is not None}
    if publish_output_schema is not None:
        body["publish_output_schema"] = publish_output_schema
    if response_options is not None:
        body["response_options"] = read_json(response_options, option="--response-options")
    if not body:
        raise InputError("Give what is to change, e.g. --description, --tag, --read-only or --revert.")
    headers = {} if if_match is None else {"If-Match": if_match}
    response = session.gateway.send("PATCH", build_url_path("tools", name), json=body, headers=headers)
    changed = response.json()
    if session.output.is_structured:
        session.output.write_document(changed)
        return
    shown = (
        "name",
        "description",
        "tags",
        "keywords",
        "enabled",
        "requires_approval",
        "publish_output_schema",
        "response_options",
    )
    session.output.write_fields(
        [
            *((field.replace("_", " "), changed.get(field)) for field in shown),
            *list_annotation_fields(changed.get("annotations") or {}),
        ]
    )


def _replace_list(field: str, given: list[str] | None, *, removes_all: bool) -> dict[str, list[str]]:
    """Return the member of a patch that replaces a list, without a member where no option names it; raise
    InputError where the options contradict each other.
    """
    if given and removes_all:
        raise InputError(f"Give --{field.removesuffix('s')} or --no-{field}, not both.")
    return {field: given or []} if given or removes_all else {}


def _read_header_inputs(given: list[str]) -> dict[str, str]:
    """Return the tokens by input of INPUT=TOKEN; raise InputError for what has no equals sign."""
    tokens: dict[str, str] = {}
    for header_input in given:
        # A token has no equals sign (RFC 9110 section 5.6.2), but the name of an input may.
        name, separator, token = header_input.rpartition("=")
        if not separator:
            raise InputError("--header-input takes INPUT=TOKEN, e.g. tenant=Tenant.")
        tokens[name] = token
    return tokens


def list_annotation_fields(annotations: Mapping[str, Any]) -> list[tuple[str, object]]:
    """Return what agents are told about a tool, as rows of a name and a value."""
    return [
        (
            name.replace("_", " "),
            " ".join(f"{key}={one}" for key, one in value.items()) if isinstance(value, Mapping) else value,
        )
        for name, value in annotations.items()
    ]


@commands.command("history", cls=GatewayCommand)
def history(
    ctx: SessionContext,
    *,
    name: NameArgument,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """Show what imports, approvals and people changed on a tool, newest first."""
    show_list(
        ctx.obj,
        build_url_path("tools", name, "history"),
        query={},
        paging=Paging(limit, everything, cursor, sort, q),
        columns=("AT", "ACTION", "BY", "EFFECT", "WHAT"),
        row=_build_history_row,
    )


def _change(
    session: ClientSession,
    names: list[str],
    selection: dict[str, str | None],
    *,
    enabled: bool,
    dry_run: bool,
) -> None:
    """Enable or disable tools by one request; exit with 4 if some failed, with 1 if all did."""
    chosen = {key: value for key, value in selection.items() if value is not None}
    if bool(names) is bool(chosen):
        raise InputError("Give names of tools, or --provider or --tag.")
    patch = {"enabled": enabled}
    operations: list[dict[str, Any]] = [{"tool": name, "patch": patch} for name in names]
    if chosen:
        operations = [{"filter": chosen, "patch": patch}]
    body = {"operations": operations, "dry_run": dry_run}
    result = session.gateway.send("POST", "/tools:batch", json=body).json()
    items = result["items"]
    if session.output.is_structured:
        session.output.write_document(result)
    else:
        session.output.write_table(("NAME", "OUTCOME", "WHY"), map(_build_batch_row, items))
        if dry_run:
            session.output.note("Nothing was changed: this was a dry run.")
    failed = [item["outcome"] == "failed" for item in items]
    if failed and all(failed):
        raise typer.Exit(ExitCode.FAILED)
    if any(failed):
        raise typer.Exit(ExitCode.PARTIAL)


def _build_batch_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    problem = item.get("problem")
    return (item["name"], item["outcome"], " ".join(write_sentences(problem)) if problem else "")


def _build_history_row(item: Mapping[str, Any]) -> tuple[object, ...]:
    differences = [one["detail"] for one in item["differences"]]
    changes = [
        f"{one['field']}: {shorten(one['before'], length=40) or '-'} -> "
        f"{shorten(one['after'], length=40) or '-'}"
        for one in item["changes"]
    ]
    return (
        item["at"],
        item["action"],
        item.get("actor"),
        item["compatibility"] if differences else "",
        format_cell("; ".join([*differences, *changes])),
    )
