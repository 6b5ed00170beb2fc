"""`utcp-gateway openapi check`: what an OpenAPI document would become, without a gateway."""

from collections.abc import Mapping
from typing import Annotated, Any

import typer

from app.cli.errors import CommandFailed, ExitCode
from app.cli.output import CommandOutput
from app.cli.reports import operation_row, show_lint
from app.cli.session import OfflineCommand, SessionContext
from app.cli.values import OverlayOption, RootOption, read_bytes, read_text
from app.errors import GatewayError
from app.openapi import Conversion, ConvertOptions, convert

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
    overlay: OverlayOption = None,
    root: RootOption = None,
    lint: Annotated[
        bool, typer.Option("--lint", help="List each tool that is hard for a model, not only how many.")
    ] = False,
    problems: Annotated[
        bool, typer.Option("--problems", help="List only operations that are skipped, renamed or have notes.")
    ] = False,
) -> None:
    """Convert a document and show the verdict on each operation; needs no gateway.

    TOKENS estimates what a tool costs in a model's context: the length of its name, description and inputs as
    JSON, divided by four. Exits with 1 if the document cannot be used or an operation is skipped.
    """
    output = ctx.obj.output
    content = read_bytes(file)
    text = None if overlay is None else read_text(overlay)
    options = ConvertOptions(url=document_url, base_url=base_url, root=root, overlay=text)
    try:
        with output.progress(f"Converting {file}") as progress:
            conversion = convert(content, options=options, progress=progress)
    except GatewayError as error:
        errors = [one.as_json() for one in error.errors]
        problem = {"title": error.title, "detail": error.detail, **({"errors": errors} if errors else {})}
        raise CommandFailed(problem) from None
    if output.json:
        output.document(_as_json(conversion))
    else:
        _show(output, conversion, only_problems=problems)
        if lint or not problems:
            show_lint(output, conversion.report, each=lint)
    if conversion.report["counts"]["skipped"]:
        raise typer.Exit(ExitCode.FAILED)


def _as_json(conversion: Conversion) -> dict[str, Any]:
    return {
        "title": conversion.title,
        "version": conversion.version,
        "origins": list(conversion.origins),
        "slots": list(conversion.slots),
        "tokens": conversion.report["tokens"],
        "report": conversion.report,
        "missing": list(conversion.missing),
    }


def _show(output: CommandOutput, conversion: Conversion, *, only_problems: bool) -> None:
    report = conversion.report
    rows = [
        _row(operation)
        for operation in report["operations"]
        if not only_problems
        or operation["verdict"] != "accepted"
        or operation.get("notes")
        or operation.get("slimmed")
    ]
    if rows:
        output.table(("VERDICT", "OPERATION", "TOOL", "TOKENS", "REMARKS"), rows)
        output.text("")
    for warning in report["warnings"]:
        output.warn(f"Warning: {warning['pointer']}: {warning['detail']}".replace("Warning: :", "Warning:"))
    for path in conversion.missing:
        output.warn(f"Warning: the file {path} is referred to and missing.")
    counts = report["counts"]
    slimmed = sum(bool(operation.get("slimmed")) for operation in report["operations"])
    output.fields(
        [
            ("document", f"{conversion.title} {conversion.version}".strip()),
            ("operations", counts["operations"]),
            ("accepted", f"{counts['accepted']} ({counts['renamed']} renamed)"),
            ("skipped", str(counts["skipped"])),
            ("slimmed", f"{slimmed} too large to be shown whole" if slimmed else None),
            ("warnings", str(len(report["warnings"]))),
            ("tokens, about", f"{report['tokens']:,} in all"),
            ("origins", conversion.origins),
            ("credentials", [f"{slot['slot']} ({slot['kind']})" for slot in conversion.slots]),
        ]
    )


def _row(operation: Mapping[str, Any]) -> tuple[object, ...]:
    verdict, key, name, remarks = operation_row(operation)
    return (verdict, key, name, operation.get("tokens"), remarks)
