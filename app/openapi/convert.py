"""`convert`: turns the bytes of an OpenAPI document into tools, one operation at a time.

    read -> operations -> for each: security, parameters, paths, bodies, schemas, servers, outputs -> judge

The document as a whole is never validated: a defect of one operation affects at most that operation, and is
in the report with a JSON pointer and a reason.
"""

from collections.abc import Callable
from dataclasses import replace

from app.openapi.archive import is_archive
from app.openapi.assemble import SizeBudget, assemble
from app.openapi.document import OpenApiDocument, open_document
from app.openapi.identifiers import may_have_identifiers
from app.openapi.judge import judged
from app.openapi.model import Conversion, ConvertedTool, ConvertOptions
from app.openapi.names import tool_names
from app.openapi.operations import Operation, list_operations
from app.openapi.report import OperationOutcome, OperationProblem, Warnings, report
from app.openapi.security import SecuritySlots
from app.openapi.servers import origin
from app.openapi.source import read
from app.openapi.text import TOOL_TEXT, clean, label

Progress = Callable[[int, int], None]

# Errors that a malformed document may still cause in a stage. The operation is skipped, as for other defects.
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_PROGRESS = 50
_SMALLEST_BUDGET = 24 * 2**20


def convert(
    document: bytes, *, options: ConvertOptions | None = None, progress: Progress | None = None
) -> Conversion:
    """Convert every operation of an OpenAPI document (Swagger 2.0, OpenAPI 3.0 or 3.1; JSON or YAML) into a
    tool.

    No I/O: the same bytes and options give the same tools. `progress` is called with the number of operations
    that are done, and their total.
    Raises InvalidDocument where the document cannot be read at all, or TooLarge at a limit of
    `options.limits`.
    """
    options = options or ConvertOptions()
    warnings = Warnings()
    found = read(document, options=options, warn=warnings.add)
    # Searching the bytes is a cheap test for identifiers; it is not possible in the packed bytes of an
    # archive.
    named = is_archive(document) or options.overlay is not None or may_have_identifiers(document)
    opened = open_document(found.raw, options=options, warnings=warnings, may_have_identifiers=named)
    limits = options.limits
    total = min(limits.output_size, max(_SMALLEST_BUDGET, limits.output_factor * found.size))
    budget = SizeBudget(
        left=total, full_budget_above=total // 2, tool=limits.tool_size, output=limits.output_schema_size
    )
    return replace(judged(_convert(opened, budget, progress)), missing=found.missing)


def _convert(document: OpenApiDocument, budget: SizeBudget, progress: Progress | None) -> Conversion:
    operations = list_operations(document)
    names = tool_names({one.source_key: one.given_name for one in operations})
    slots = SecuritySlots(document)
    tools: list[ConvertedTool] = []
    verdicts: list[OperationOutcome] = []
    for done, operation in enumerate(operations):
        if progress is not None and done % _PROGRESS == 0:
            progress(done, len(operations))
        name = names[operation.source_key]
        try:
            tool = assemble(document, operation, name=name, slots=slots, budget=budget)
        except OperationProblem as problem:
            verdicts.append(_skipped(operation, name, problem.reason, problem.pointer))
        except _UNREADABLE:
            verdicts.append(_skipped(operation, name, "is written in a way that cannot be read", ""))
        else:
            tools.append(tool)
            renamed = operation.given_name is not None and operation.given_name != name
            verdict = "renamed" if renamed else "accepted"
            verdicts.append(
                OperationOutcome(operation.source_key, name, verdict, operation.pointer, notes=tool.notes)
            )
    info = document.mapping("info")
    urls = [str(tool.call_template["url"]) for tool in tools]
    return Conversion(
        title=label(info.get("title")),
        version=label(info.get("version")),
        description=clean(info.get("description"), max_length=TOOL_TEXT)[0],
        tools=tuple(tools),
        slots=tuple(slots.used([(tool.security, url) for tool, url in zip(tools, urls, strict=True)])),
        origins=tuple(dict.fromkeys(map(origin, urls))),
        report=report(verdicts, document.warnings),
    )


def _skipped(operation: Operation, name: str, reason: str, pointer: str) -> OperationOutcome:
    return OperationOutcome(
        operation.source_key, name, "skipped", pointer or operation.pointer, reason=reason
    )
