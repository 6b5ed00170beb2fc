"""`utcp-gateway openapi check`: what an OpenAPI document would become, without a gateway."""

import math
from collections.abc import Mapping
from typing import Annotated, Any

import orjson
import typer

from app.cli.outcome import CommandFailed, ExitCode
from app.cli.output import Output
from app.cli.reports import operation_row
from app.cli.session import local
from app.cli.values import read_bytes
from app.errors import GatewayError
from app.openapi import Conversion, ConvertedTool, ConvertOptions, convert

commands = typer.Typer(name="openapi", help="OpenAPI documents.", no_args_is_help=True)


@commands.command("check")
@local
def check(
    output: Output,
    *,
    file: Annotated[str, typer.Argument(help="The document, JSON or YAML; '-' for standard input.")],
    document_url: Annotated[
        str | None,
        typer.Option("--document-url", help="Where it is published: relative servers start there."),
    ] = None,
    base_url: Annotated[
        str | None,
        typer.Option("--base-url", help="The API's address, where the document has none or a relative one."),
    ] = None,
    problems: Annotated[
        bool, typer.Option("--problems", help="List only operations that are skipped, renamed or have notes.")
    ] = False,
) -> None:
    """Convert a document and show the verdict on each operation; needs no gateway.

    TOKENS is about what a tool costs in a model's context: the length of its name, description and inputs as
    JSON, divided by four. Ends with 1 if the document cannot be used or an operation is skipped.
    """
    content = read_bytes(file)
    try:
        conversion = convert(content, options=ConvertOptions(url=document_url, base_url=base_url))
    except GatewayError as error:
        faults = [fault.as_json() for fault in error.errors]
        problem = {"title": error.title, "detail": error.detail, **({"errors": faults} if faults else {})}
        raise CommandFailed(problem) from None
    tokens = {tool.source_key: token_cost(tool) for tool in conversion.tools}
    if output.json:
        output.document(_as_json(conversion, tokens))
    else:
        _show(output, conversion, tokens, only_problems=problems)
    if conversion.report["counts"]["skipped"]:
        raise typer.Exit(ExitCode.REFUSED)


def token_cost(tool: ConvertedTool) -> int:
    """About how many tokens a model reads for this tool: JSON bytes / 4, rounded up."""
    shown = {"name": tool.name, "description": tool.description, "inputs": tool.inputs}
    return math.ceil(len(orjson.dumps(shown)) / 4)


def _as_json(conversion: Conversion, tokens: Mapping[str, int]) -> dict[str, Any]:
    report = conversion.report
    operations = [
        {**operation, "tokens": tokens.get(operation["source_key"])} for operation in report["operations"]
    ]
    return {
        "title": conversion.title,
        "version": conversion.version,
        "origins": list(conversion.origins),
        "slots": list(conversion.slots),
        "tokens": sum(tokens.values()),
        "report": {**report, "operations": operations},
    }


def _show(output: Output, conversion: Conversion, tokens: Mapping[str, int], *, only_problems: bool) -> None:
    report = conversion.report
    rows = [
        _row(operation, tokens)
        for operation in report["operations"]
        if not only_problems or operation["verdict"] != "accepted" or operation.get("notes")
    ]
    if rows:
        output.table(("VERDICT", "OPERATION", "TOOL", "TOKENS", "REMARKS"), rows)
        output.text("")
    for warning in report["warnings"]:
        output.warn(f"Warning: {warning['pointer']}: {warning['detail']}".replace("Warning: :", "Warning:"))
    counts = report["counts"]
    output.facts(
        [
            ("document", f"{conversion.title} {conversion.version}".strip()),
            ("operations", counts["operations"]),
            ("accepted", f"{counts['accepted']} ({counts['renamed']} renamed)"),
            ("skipped", str(counts["skipped"])),
            ("warnings", str(len(report["warnings"]))),
            ("tokens, about", f"{sum(tokens.values()):,} in all"),
            ("origins", conversion.origins),
            ("credentials", [f"{slot['slot']} ({slot['kind']})" for slot in conversion.slots]),
        ]
    )


def _row(operation: Mapping[str, Any], tokens: Mapping[str, int]) -> tuple[object, ...]:
    verdict, key, name, remarks = operation_row(operation)
    return (verdict, key, name, tokens.get(str(key)), remarks)
