"""`utcp-gateway tools`: find tools and call them."""

import sys
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final

import typer

from app.cli import tool_changes
from app.cli.completion import complete_provider_names, complete_tool_names, complete_toolset_names
from app.cli.errors import EnvelopeResponse, ExitCode, InputError, ProblemResponse
from app.cli.event_stream import ACCEPT, print_events
from app.cli.output import OutputFormat, shorten
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
from app.cli.search_explanations import print_explained
from app.cli.session import ClientSession, GatewayCommand, SessionContext
from app.cli.values import ENVELOPE_TYPE, build_url_path, read_tool_arguments
from app.core import exact_json

# The status of a call that waits for approval.
_WAITS: Final = 202
# From here on, a search shows the health of a tool.
_NOTED_ERROR_RATE: Final = 0.03
_NOTED_P95_MS: Final = 5_000

commands = typer.Typer(name="tools", help="Find tools and call them.", no_args_is_help=True)
commands.add_typer(tool_changes.commands)

NameArgument = Annotated[
    str, typer.Argument(help="The tool: provider.tool, or its alias.", autocompletion=complete_tool_names)
]


@commands.command("list", cls=GatewayCommand)
def list_tools(
    ctx: SessionContext,
    *,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", autocompletion=complete_provider_names, help="Only tools of this provider."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--disabled", help="Only those that can (or cannot) be called.")
    ] = None,
    limit: LimitOption = LIMIT_DEFAULT,
    everything: AllOption = False,
    cursor: CursorOption = None,
    sort: SortOption = None,
    q: QueryOption = None,
) -> None:
    """List the tools that this key may see."""
    session = ctx.obj
    query = {"provider": provider, "tag": tag, "enabled": enabled}
    paging = Paging(limit, everything, cursor, sort, q)
    show_list(
        session,
        "/tools",
        query=query,
        paging=paging,
        columns=("NAME", "DESCRIPTION", "TAGS", "ENABLED"),
        row=_build_row,
        importance=("NAME", "ENABLED", "DESCRIPTION"),
    )


@commands.command("search", cls=GatewayCommand)
def search(
    ctx: SessionContext,
    *,
    words: Annotated[list[str], typer.Argument(help="What the tool should do, in any words.")],
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", autocompletion=complete_provider_names, help="Only tools of this provider."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")] = None,
    also: Annotated[
        list[str] | None,
        typer.Option("--also", help="Another task, whose matches are taken in turn; up to three times."),
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="Maximum number of results.")] = 10,
    toolset: Annotated[
        str | None,
        typer.Option("--toolset", autocompletion=complete_toolset_names, help="Only tools of this toolset."),
    ] = None,
    explain: Annotated[
        bool, typer.Option("--explain", help="Show what each word, the vectors and use contribute.")
    ] = False,
) -> None:
    """Search the tools that this key may call, the best match first."""
    session = ctx.obj
    query = {"q": [" ".join(words), *(also or ())], "provider": provider, "tag": tag, "limit": limit}
    if explain:
        query["explain"] = "true"
    path = "/tools/search" if toolset is None else build_url_path("toolsets", toolset, "search")
    response = session.gateway.get(path, query=query).json()
    if session.output.is_structured:
        session.output.write_document(response)
        return
    if explain:
        print_explained(session, response)
        return
    hits = response["items"]
    columns = [(name, [cell(hit) for hit in hits]) for name, cell in _HIT_COLUMNS.items()]
    # A column that says nothing of any hit is left out; without hits, the table has its usual head.
    shown = [(name, cells) for name, cells in columns if name in _ALWAYS or any(cells)]
    session.output.write_table(
        [name for name, _ in shown],
        zip(*(cells for _, cells in shown), strict=True),
        importance=("NAME", "SCORE", "NEEDS", "DESCRIPTION", "HEALTH"),
    )
    for line in _list_advice(response):
        session.output.note(line)
    if hits and toolset is None:
        session.output.note(f"Next: utcp-gateway tools show {hits[0]['name']}")


def _describe_health(hit: Mapping[str, Any]) -> str:
    """Return the health of a hit, where it needs attention."""
    health = hit.get("health")
    if not health:
        return ""
    parts = [f"{health['error_rate']:.0%} errors"] if health["error_rate"] >= _NOTED_ERROR_RATE else []
    if (health["p95_ms"] or 0) >= _NOTED_P95_MS:
        parts.append(f"p95 {health['p95_ms'] / 1_000:.0f} s")
    return ", ".join(parts)


def _needs(hit: Mapping[str, Any]) -> str:
    """Return what a call of a hit needs besides its arguments."""
    effects = hit.get("effects") or {}
    needs = [
        *(["credential"] if hit.get("missing_credential") else []),
        *(["approval"] if effects.get("requires_approval") else []),
        *(["executor"] if hit.get("available") is False else []),
    ]
    return ", ".join(needs)


_HIT_COLUMNS: Final[Mapping[str, Callable[[Mapping[str, Any]], str]]] = {
    "SCORE": lambda hit: f"{hit.get('score', 0):.2f}",
    "NAME": lambda hit: str(hit["name"]),
    "HEALTH": _describe_health,
    "NEEDS": _needs,
    "DESCRIPTION": lambda hit: shorten(hit.get("description")),
}
_ALWAYS: Final = ("SCORE", "NAME", "DESCRIPTION")


def _list_advice(response: Mapping[str, Any]) -> list[str]:
    """Return what to search for next, where the matches are weak."""
    suggestions = response.get("suggestions") or {}
    lines = []
    if response.get("weak"):
        unknown = ", ".join(suggestions.get("unknown_words") or ())
        lines.append(f"Weak match{f': no tool has the words {unknown}' if unknown else ''}.")
    meant = [one["suggestion"] for one in suggestions.get("did_you_mean") or ()]
    if meant:
        lines.append(f"Did you mean: {', '.join(meant)}?")
    for title, values in (
        ("Providers nearby", suggestions.get("providers")),
        ("Other words", suggestions.get("words")),
        ("Plugins that are off", [one["name"] for one in response.get("plugins") or ()]),
    ):
        if values:
            lines.append(f"{title}: {', '.join(values)}")
    return lines


@commands.command("export", cls=GatewayCommand)
def export_tools(
    ctx: SessionContext,
    *,
    names: Annotated[
        list[str] | None,
        typer.Argument(help="Only these tools, by any of their names.", autocompletion=complete_tool_names),
    ] = None,
    dialect: Annotated[
        str, typer.Option("--format", help="The dialect, like openai-chat, anthropic, gemini or mcp.")
    ] = "openai-chat",
    strict: Annotated[
        str, typer.Option("--strict", help="Constrained decoding: auto, true or false.")
    ] = "auto",
    toolset: Annotated[
        str | None,
        typer.Option("--toolset", autocompletion=complete_toolset_names, help="Only tools of this toolset."),
    ] = None,
    provider: Annotated[
        str | None,
        typer.Option(
            "--provider", autocompletion=complete_provider_names, help="Only tools of this provider."
        ),
    ] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")] = None,
    q: Annotated[
        list[str] | None,
        typer.Option("--q", help="Only the best matches of this search; up to four, taken in turn."),
    ] = None,
    limit: Annotated[int | None, typer.Option("--limit", min=1, help="Maximum number of tools.")] = None,
) -> None:
    """Export tools in the dialect of a model's client; standard output is what the client takes as its tools.

    With -o json or -o yaml it is the whole response, with the aliases and the report.
    """
    session = ctx.obj
    query = {
        "format": dialect, "strict": strict, "names": names or None, "provider": provider, "tag": tag,
        "q": q or None, "limit": limit,
    }  # fmt: skip
    path = "/tools/export" if toolset is None else build_url_path("toolsets", toolset, "export")
    export = session.gateway.get(path, query=query).json()
    report = export["report"]
    if session.output.is_structured:
        session.output.write_document(export)
    else:
        content = export["prompt"] if export.get("prompt") else exact_json.dumps(export["tools"]).decode()
        session.output.write_text(content)
    for name in report["unknown"]:
        session.output.warn(f"There is no tool {name}.")
    for tool in report["tools"]:
        if tool["grade"] in ("looser", "narrower", "unsupported"):
            session.output.warn(f"{tool['name']}: {tool['grade']}; -o json has the report.")
    if report["omitted"]:
        session.output.warn(f"{report['omitted']} further tools are left out: give --limit.")


@commands.command("show", cls=GatewayCommand)
def show_tool(ctx: SessionContext, *, name: NameArgument) -> None:
    """Show a tool and its arguments."""
    session = ctx.obj
    tool = session.gateway.get(build_url_path("tools", name)).json()
    if session.output.is_structured:
        session.output.write_document(tool)
        return
    names = (
        "name", "alias", "description", "provider", "tags", "keywords", "enabled", "deprecated",
        "requires_approval", "call_url",
    )  # fmt: skip
    session.output.write_fields((name.replace("_", " "), tool.get(name)) for name in names)
    inputs = tool.get("inputs") or {}
    properties = inputs.get("properties") or {}
    session.output.write_text("")
    if properties:
        required = set(inputs.get("required") or ())
        rows = (
            (
                name,
                _describe_type(schema, inputs),
                name in required,
                shorten(_get_member(schema, "description")),
            )
            for name, schema in properties.items()
        )
        session.output.write_table(("ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"), rows)
    else:
        session.output.write_text("It takes no arguments.")
    session.output.note(f"Call it: utcp-gateway tools call {tool['name']} {_write_example(inputs)}".rstrip())


@commands.command("call", cls=GatewayCommand)
def call(
    ctx: SessionContext,
    *,
    name: NameArgument,
    items: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME=VALUE|NAME:=JSON",
            help="Arguments: after '=' a value, which is read as the tool's inputs say; after ':=' JSON.",
        ),
    ] = None,
    arguments: Annotated[
        str | None,
        typer.Option(
            "--arguments", "-a", help="All arguments as a JSON object, '@FILE', or '-' for standard input."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the exact upstream request, secrets masked; send nothing.")
    ] = False,
    stream: Annotated[
        bool, typer.Option("--stream", help="Write each event of the response as it arrives.")
    ] = False,
    decode: Annotated[
        bool, typer.Option("--decode", help="XML, forms and text as JSON, by the tool's output schema.")
    ] = False,
    validate: Annotated[
        bool, typer.Option("--validate", help="Warn of values that do not fit the tool's output schema.")
    ] = False,
    envelope: Annotated[
        bool, typer.Option("--envelope", help="The evidence envelope of a ToolClad tool as the response.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="The call's id, status and timing on standard error.")
    ] = False,
) -> None:
    """Call a tool; standard output is the body of the response, unchanged.

    With -o json the response is always JSON: text as a JSON string, binary as an object with base64. With
    --stream it is one line for each event: JSON, or plain text where the event is text (with -o json, JSON).
    """
    session = ctx.obj
    if not dry_run and session.output.format in (OutputFormat.YAML, OutputFormat.NAME):
        raise InputError("The response of a tool is written as it is, or with -o json as JSON.")
    body = read_tool_arguments(items or [], base=arguments, read_inputs=lambda: _read_inputs(session, name))
    if stream and dry_run:
        raise InputError("Give --stream or --dry-run, not both.")
    as_json = session.output.is_structured or dry_run
    if envelope and (stream or dry_run):
        raise InputError("Give --envelope without --stream and --dry-run.")
    headers = {"Accept": ACCEPT if stream else "application/json" if as_json else "*/*"}
    preferences = [name for name, given in (("decode", decode), ("validate", validate)) if given]
    if preferences:
        headers["Prefer"] = ", ".join(f"{name}-response" for name in preferences)
    query = {"dry_run": True} if dry_run else None
    path = build_url_path("tools", name, "call")
    try:
        if dry_run:
            session.output.write_document(
                session.gateway.send("POST", path, query=query, json=body, headers=headers).json()
            )
            return
        if envelope:
            headers["Accept"] = ENVELOPE_TYPE
        _stream_body(session, path, body, headers=headers, verbose=verbose)
    except EnvelopeResponse as failed:
        session.output.write_raw(failed.envelope + b"\n")
        raise typer.Exit(ExitCode.FAILED) from None
    except ProblemResponse as error:
        if error.slug == "invalid-arguments":
            error.hint = f"utcp-gateway tools show {name} lists the arguments; name:=value passes JSON."
        raise


def _read_inputs(session: ClientSession, name: str) -> Mapping[str, Any]:
    """Return the inputs of a tool; {} where they cannot be read: the call itself says what is wrong."""
    try:
        return session.gateway.get(build_url_path("tools", name)).json().get("inputs") or {}
    except ProblemResponse:
        return {}


def _stream_body(
    session: ClientSession, path: str, body: dict[str, Any], *, headers: dict[str, str], verbose: bool
) -> None:
    """Write the body as it arrives: a response may be large, or an endless stream of events."""
    last = b"\n"
    with session.gateway.stream("POST", path, json=body, headers=headers) as response:
        if verbose:
            for header in ("X-Call-Id", "X-Upstream-Status", "Server-Timing", "Content-Type"):
                if header in response.headers:
                    session.output.note(f"{header}: {response.headers[header]}")
        violations = response.headers.get("X-Response-Violations", "count=0")
        if not violations.startswith("count=0"):
            session.output.warn(f"The response does not fit the output schema of the tool: {violations}")
        if headers["Accept"] == ACCEPT and response.status_code != _WAITS:
            print_events(response.iter_bytes(), session.output, verbose=verbose)
            return
        for chunk in response.iter_bytes():
            session.output.write_raw(chunk)
            last = chunk or last
        if response.status_code == _WAITS:
            where = response.headers.get("Location", "").rpartition("/")[2]
            session.output.warn(f"The call waits for approval: utcp-gateway approvals result {where}")
    is_line = session.output.is_structured or headers["Accept"] == ENVELOPE_TYPE or sys.stdout.isatty()
    if is_line and not last.endswith(b"\n"):
        session.output.write_raw(b"\n")


def _build_row(tool: Mapping[str, Any]) -> tuple[object, ...]:
    return (tool["name"], shorten(tool.get("description")), tool.get("tags"), tool.get("enabled"))


def _get_member(schema: Any, name: str) -> Any:
    return schema.get(name, "") if isinstance(schema, Mapping) else ""


def _describe_type(schema: Any, root: Mapping[str, Any]) -> str:
    """Return the type of a JSON schema in a few words; references are resolved in the `$defs` of `root`."""
    if not isinstance(schema, Mapping):
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        target = (root.get("$defs") or {}).get(name)
        # A definition that is a reference is named, which ends cycles, too.
        return name if target is None or "$ref" in target else _describe_type(target, {})
    if "enum" in schema:
        return "one of " + ", ".join(exact_json.dumps(value).decode() for value in schema["enum"][:8])
    for combined in ("anyOf", "oneOf"):
        if isinstance(schema.get(combined), list):
            return " or ".join(dict.fromkeys(_describe_type(one, root) for one in schema[combined]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_describe_type(schema.get('items'), root)}"
    if isinstance(kind, list):
        return " or ".join(str(one) for one in kind)
    return str(kind or "any")


def _write_example(inputs: Mapping[str, Any]) -> str:
    """Return the required arguments as they are typed on the command line."""
    return " ".join(f"{name}=..." for name in inputs.get("required") or ())
