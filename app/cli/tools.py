"""`utcp-gateway tools`: find tools and call them."""

import sys
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from app.cli.outcome import BadInput, Refused
from app.cli.output import shortened
from app.cli.pages import Paging, collect, show
from app.cli.session import Session, remote
from app.cli.streamed import ACCEPT, print_events
from app.cli.values import path, tool_arguments

commands = typer.Typer(name="tools", help="Find tools and call them.", no_args_is_help=True)

NameArgument = Annotated[str, typer.Argument(help="The tool: provider.tool, or its alias.")]


@commands.command("list")
@remote
def list_tools(
    session: Session,
    *,
    provider: Annotated[str | None, typer.Option("--provider", help="Only tools of this provider.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")] = None,
    enabled: Annotated[
        bool | None, typer.Option("--enabled/--disabled", help="Only those that can (or cannot) be called.")
    ] = None,
    paging: Paging,
) -> None:
    """List the tools that this key may see."""
    query = {"provider": provider, "tag": tag, "enabled": enabled}
    page = collect(session, "/tools", query=query, paging=paging)
    show(session, page, columns=("NAME", "DESCRIPTION", "TAGS", "ENABLED"), row=_row)


@commands.command("search")
@remote
def search(
    session: Session,
    *,
    words: Annotated[list[str], typer.Argument(help="What the tool should do, in any words.")],
    provider: Annotated[str | None, typer.Option("--provider", help="Only tools of this provider.")] = None,
    tag: Annotated[str | None, typer.Option("--tag", help="Only tools with this tag.")] = None,
    limit: Annotated[int, typer.Option("--limit", min=1, max=50, help="How many at most.")] = 10,
) -> None:
    """Search the tools that this key may call, the best first."""
    query = {"q": " ".join(words), "provider": provider, "tag": tag, "limit": limit}
    found = session.gateway.get("/tools/search", query=query).json()
    if session.output.json:
        session.output.document(found)
        return
    hits = found["items"]
    rows = ((f"{hit.get('score', 0):.2f}", hit["name"], shortened(hit.get("description"))) for hit in hits)
    session.output.table(("SCORE", "NAME", "DESCRIPTION"), rows)
    if hits:
        session.output.note(f"Next: utcp-gateway tools show {hits[0]['name']}")


@commands.command("show")
@remote
def show_tool(session: Session, *, name: NameArgument) -> None:
    """Show one tool and the arguments that it takes."""
    tool = session.gateway.get(path("tools", name)).json()
    if session.output.json:
        session.output.document(tool)
        return
    facts = ("name", "alias", "description", "provider", "tags", "enabled", "deprecated", "call_url")
    session.output.facts((fact.replace("_", " "), tool.get(fact)) for fact in facts)
    inputs = tool.get("inputs") or {}
    properties = inputs.get("properties") or {}
    session.output.text("")
    if properties:
        required = set(inputs.get("required") or ())
        rows = (
            (name, _type(schema, inputs), name in required, shortened(_member(schema, "description")))
            for name, schema in properties.items()
        )
        session.output.table(("ARGUMENT", "TYPE", "REQUIRED", "DESCRIPTION"), rows)
    else:
        session.output.text("It takes no arguments.")
    session.output.note(f"Call it: utcp-gateway tools call {tool['name']} {_example(inputs)}".rstrip())


@commands.command("call")
@remote
def call(
    session: Session,
    *,
    name: NameArgument,
    items: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME=TEXT|NAME:=JSON", help="Arguments: text after '=', JSON after ':='."),
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
        bool, typer.Option("--stream", help="One line for each event of the answer, as it comes.")
    ] = False,
    verbose: Annotated[
        bool, typer.Option("--verbose", "-v", help="The call's id, status and timing on standard error.")
    ] = False,
) -> None:
    """Call a tool; standard output is the answer's body as it is.

    With --json the answer is always JSON: text as a JSON string, binary as an object with base64. With
    --stream it is an event a line, JSON but for plain text (with --json all of it is).
    """
    body = tool_arguments(items or [], base=arguments)
    if stream and dry_run:
        raise BadInput("Give --stream or --dry-run, not both.")
    headers = {
        "Accept": ACCEPT if stream else "application/json" if session.output.json or dry_run else "*/*"
    }
    query = {"dry_run": True} if dry_run else None
    target = path("tools", name, "call")
    try:
        if dry_run:
            session.output.document(
                session.gateway.send("POST", target, query=query, json=body, headers=headers).json()
            )
            return
        _stream(session, target, body, headers=headers, verbose=verbose)
    except Refused as refused:
        if refused.slug == "invalid-arguments" and any(":=" not in item for item in items or []):
            refused.hint = "name=value gives text; for numbers, true, lists and objects write name:=value."
        raise


def _stream(
    session: Session, target: str, body: dict[str, Any], *, headers: dict[str, str], verbose: bool
) -> None:
    """Pass the body through as it arrives: an answer may be large, or an endless stream of events."""
    last = b"\n"
    with session.gateway.stream("POST", target, json=body, headers=headers) as response:
        if verbose:
            for header in ("X-Call-Id", "X-Upstream-Status", "Server-Timing", "Content-Type"):
                if header in response.headers:
                    session.output.note(f"{header}: {response.headers[header]}")
        if headers["Accept"] == ACCEPT:
            print_events(response.iter_bytes(), session.output, verbose=verbose)
            return
        for chunk in response.iter_bytes():
            session.output.raw(chunk)
            last = chunk or last
    if sys.stdout.isatty() and not last.endswith(b"\n"):
        session.output.raw(b"\n")


def _row(tool: Mapping[str, Any]) -> tuple[object, ...]:
    return (tool["name"], shortened(tool.get("description")), tool.get("tags"), tool.get("enabled"))


def _member(schema: Any, name: str) -> Any:
    return schema.get(name, "") if isinstance(schema, Mapping) else ""


def _type(schema: Any, root: Mapping[str, Any]) -> str:
    """A schema in a word or two, for a table; references are looked up in the `$defs` of `root`."""
    if not isinstance(schema, Mapping):
        return "any"
    if "$ref" in schema:
        name = str(schema["$ref"]).removeprefix("#/$defs/")
        target = (root.get("$defs") or {}).get(name)
        # A definition that refers on is named, which ends with cycles, too.
        return name if target is None or "$ref" in target else _type(target, {})
    if "enum" in schema:
        return "one of " + ", ".join(orjson.dumps(value).decode() for value in schema["enum"][:8])
    for combined in ("anyOf", "oneOf"):
        if isinstance(schema.get(combined), list):
            return " or ".join(dict.fromkeys(_type(one, root) for one in schema[combined]))
    kind = schema.get("type")
    if kind == "array":
        return f"list of {_type(schema.get('items'), root)}"
    if isinstance(kind, list):
        return " or ".join(str(one) for one in kind)
    return str(kind or "any")


def _example(inputs: Mapping[str, Any]) -> str:
    """The required arguments as they would be typed."""
    properties = inputs.get("properties") or {}
    words = []
    for name in inputs.get("required") or ():
        text = _member(properties.get(name), "type") == "string"
        words.append(f"{name}=..." if text else f"{name}:=...")
    return " ".join(words)
