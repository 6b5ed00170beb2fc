"""`utcp-gateway openapi check`: what an OpenAPI document would become, without a gateway."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.errors import CommandFailed, ExitCode
from app.cli.output import CommandOutput
from app.cli.reports import build_operation_row, show_lint, show_servers, show_unread
from app.cli.session import OfflineCommand, SessionContext
from app.cli.values import (
    OverlayOption,
    RootOption,
    ServerOption,
    ServerVariableOption,
    read_bytes,
    read_server_options,
    read_text,
)

if TYPE_CHECKING:
    from app.openapi import Conversion

commands = typer.Typer(name="openapi", help="OpenAPI documents.", no_args_is_help=True)


@commands.command("check", cls=OfflineCommand)
def check(
    ctx: SessionContext,
    *,
    file: Annotated[
        str, typer.Argument(help="The document, JSON or YAML, or a zip of its files; '-' for standard input.")
    ],
    document_url: Annotated[
        str | None,
        typer.Option("--document-url", help="Where it is published: relative servers start there."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="The API's address, where the document has none or a relative one."),
    ] = None,
    server: ServerOption = None,
    server_variable: ServerVariableOption = None,
    overlay: OverlayOption = None,
    root: RootOption = None,
    lint: Annotated[
        bool, typer.Option("--lint", help="List each lint finding, not only their number by rule.")
    ] = False,
    problems: Annotated[
        bool, typer.Option("--problems", help="List only operations that are skipped, renamed or have notes.")
    ] = False,
) -> None:
    """Convert a document and show the outcome of each operation; needs no gateway.

    TOKENS estimates what a tool costs in a model's context: the length of its name, description and inputs as
    JSON, divided by four. Exits with 1 if the document cannot be used or an operation is skipped.
    """
    from app.core.errors import GatewayError
    from app.openapi import ConvertOptions
    from app.openapi.conversion.convert import convert

    output = ctx.obj.output
    content = read_bytes(file)
    text = None if overlay is None else read_text(overlay)
    chosen = read_server_options(server, server_variable)
    options = ConvertOptions(url=document_url, base_url=base_url, root=root, overlay=text, **chosen)
    try:
        with output.show_progress(f"Converting {file}") as progress:
            conversion = convert(content, options=options, progress=progress)
    except GatewayError as error:
        errors = [one.as_json() for one in error.errors]
        problem = {"title": error.title, "detail": error.detail, **({"errors": errors} if errors else {})}
        raise CommandFailed(problem) from None
    if output.is_structured:
        output.write_document(_as_json(conversion))
    else:
        _show(output, conversion, only_problems=problems)
        if lint or not problems:
            show_lint(output, conversion.report.to_json(), each=lint)
    if conversion.report.counts.skipped:
        raise typer.Exit(ExitCode.FAILED)


def _as_json(conversion: "Conversion") -> dict[str, Any]:
    return {
        "title": conversion.title,
        "version": conversion.version,
        "origins": list(conversion.origins),
        "slots": [slot.to_json() for slot in conversion.slots],
        "tokens": conversion.report.tokens,
        "report": conversion.report.to_json(),
        "missing": list(conversion.missing),
    }


def _show(output: CommandOutput, conversion: "Conversion", *, only_problems: bool) -> None:
    report = conversion.report
    operations = report.to_json()["operations"]
    rows = [
        _build_row(operation)
        for operation in operations
        if not only_problems
        or operation["outcome"] != "accepted"
        or operation.get("notes")
        or operation.get("slimmed")
    ]
    if rows:
        output.write_table(("OUTCOME", "OPERATION", "TOOL", "TOKENS", "REMARKS"), rows)
        output.write_text("")
    show_unread(output, [one.to_json() for one in report.unread])
    for warning in report.warnings:
        output.warn(f"Warning: {warning.pointer}: {warning.detail}".replace("Warning: :", "Warning:"))
    show_servers(output, report.to_json())
    for path in conversion.missing:
        output.warn(f"Warning: the file {path} is referred to and missing.")
    counts = report.counts
    slimmed = sum(bool(operation.slimming_steps) for operation in report.operations)
    output.write_fields(
        [
            ("document", f"{conversion.title} {conversion.version}".strip()),
            ("operations", counts.operations),
            ("accepted", f"{counts.accepted} ({counts.renamed} renamed)"),
            ("skipped", str(counts.skipped)),
            ("slimmed", f"{slimmed} too large for a model, shown slimmed" if slimmed else None),
            ("warnings", str(len(report.warnings))),
            ("tokens, about", f"{report.tokens or 0:,} in all"),
            ("origins", conversion.origins),
            ("credentials", [f"{slot.name} ({slot.kind})" for slot in conversion.slots]),
        ]
    )


def _build_row(operation: Mapping[str, Any]) -> tuple[object, ...]:
    outcome, key, name, remarks = build_operation_row(operation)
    return (outcome, key, name, operation.get("tokens"), remarks)
