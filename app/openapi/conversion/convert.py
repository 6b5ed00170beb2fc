"""`convert`: turns the bytes of an OpenAPI document into tools, one operation at a time.

    read -> operations -> for each: security, parameters, paths, bodies, schemas, servers, outputs -> assess

The document as a whole is never validated: a defect of one operation affects at most that operation, and is
in the report with a JSON pointer and a reason.
"""

from collections.abc import Callable
from dataclasses import replace

from app.core.language_tags import read_document_language
from app.formats.archive import is_archive
from app.openapi.assessment.assess import assess
from app.openapi.assessment.unread import find_unread
from app.openapi.conversion.assemble import SizeBudget, assemble
from app.openapi.conversion.declared_servers import MAX_SERVERS
from app.openapi.conversion.document_keywords import DocumentKeywords
from app.openapi.conversion.names import tool_names
from app.openapi.conversion.operations import Operation, list_operations
from app.openapi.conversion.results import Conversion, ConvertedTool
from app.openapi.conversion.security import SecuritySlots
from app.openapi.conversion.server_options import check_server_options, declared_servers
from app.openapi.conversion.servers import origin
from app.openapi.conversion.tags import TagHierarchy
from app.openapi.conversion.text import TOOL_TEXT, clean, label
from app.openapi.model import ConvertOptions
from app.openapi.reading.document import OpenApiDocument, open_document
from app.openapi.reading.identifiers import may_have_identifiers
from app.openapi.reading.source import read
from app.openapi.report import OperationOutcome, OperationProblem, Outcome, SourceReport, Warnings

Progress = Callable[[int, int], None]

# Errors that a malformed document may still cause in a stage. The operation is skipped, as for other defects.
_UNREADABLE = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)
_PROGRESS = 50
_SMALLEST_BUDGET = 24 * 2**20


def convert(
    document: bytes, *, options: ConvertOptions | None = None, progress: Progress | None = None
) -> Conversion:
    """Convert every operation of an OpenAPI document (Swagger 2.0, OpenAPI 3.0 or 3.1; JSON or YAML), of a
    Postman collection or of a Google Discovery document into a tool.

    No I/O: the same bytes and options give the same tools. `progress` is called with the number of operations
    that are done, and their total.
    Raises InvalidDocument where the document cannot be read at all, or TooLarge at a limit of
    `options.limits`.
    """
    options = options or ConvertOptions()
    warnings = Warnings()
    source = read(document, options=options, warn=warnings.add)
    # Searching the bytes is a cheap test for identifiers; it is not possible in the packed bytes of an
    # archive.
    named = is_archive(document) or options.overlay is not None or may_have_identifiers(document)
    opened = open_document(source.raw, options=options, warnings=warnings, may_have_identifiers=named)
    if source.translation is not None:
        opened.operation_notes = source.translation.notes
    servers = declared_servers(opened.raw, opened.references, version=opened.version)
    check_server_options(options, opened.raw, servers)
    limits = options.limits
    total = min(limits.output_size, max(_SMALLEST_BUDGET, limits.output_factor * source.size))
    budget = SizeBudget(
        left=total, full_budget_above=total // 2, tool=limits.tool_size, output=limits.output_schema_size
    )
    conversion = _assess_tools(_convert(opened, budget, progress))
    if source.translation is not None:
        report = conversion.report.with_pointers(source.translation.find_source_pointer)
        conversion = replace(conversion, report=report)
    if len(servers) > 1 or any(one.variables for one in servers):
        report = replace(conversion.report, servers=servers[:MAX_SERVERS])
        conversion = replace(conversion, report=report)
    return replace(conversion, missing=source.missing)


def _convert(document: OpenApiDocument, budget: SizeBudget, progress: Progress | None) -> Conversion:
    operations = list_operations(document)
    names = tool_names({one.source_key: one.given_name for one in operations})
    slots, tags, keywords = SecuritySlots(document), TagHierarchy(document), DocumentKeywords(document)
    tools: list[ConvertedTool] = []
    outcomes: list[OperationOutcome] = []
    for done, operation in enumerate(operations):
        if progress is not None and done % _PROGRESS == 0:
            progress(done, len(operations))
        name = names[operation.source_key]
        try:
            tool = assemble(
                document, operation, name=name, slots=slots, tags=tags, keywords=keywords, budget=budget
            )
        except OperationProblem as problem:
            outcomes.append(_report_skipped(operation, name, problem.reason, problem.pointer))
        except _UNREADABLE:
            outcomes.append(_report_skipped(operation, name, "is written in a way that cannot be read", ""))
        else:
            tools.append(tool)
            renamed = operation.given_name is not None and operation.given_name != name
            outcome: Outcome = "renamed" if renamed else "accepted"
            outcomes.append(
                OperationOutcome(operation.source_key, name, outcome, operation.pointer, notes=tool.notes)
            )
    find_unread(document, document.unread)
    info = document.get_mapping("info")
    language, unreadable = read_document_language(document.raw)
    for defect in unreadable:
        document.warnings.add(defect.pointer, defect.detail)
    urls = [str(tool.call_template["url"]) for tool in tools]
    return Conversion(
        title=label(info.get("title")),
        version=label(info.get("version")),
        description=clean(info.get("description") or info.get("summary"), max_length=TOOL_TEXT)[0],
        tools=tuple(tools),
        slots=slots.used([(tool.security, url) for tool, url in zip(tools, urls, strict=True)]),
        origins=tuple(dict.fromkeys(map(origin, urls))),
        report=SourceReport(
            tuple(outcomes), document.warnings.list_collected(), unread=document.unread.list_collected()
        ),
        language=language,
    )


def _assess_tools(conversion: Conversion) -> Conversion:
    """Return the conversion with its large tools slimmed, and the assessment of each tool in its report."""
    assessments = assess(conversion.tools)
    slimmed = {key: one.slimmed for key, one in assessments.items() if one.slimmed is not None}
    tools = tuple(
        replace(tool, slimmed=slimmed[tool.source_key]) if tool.source_key in slimmed else tool
        for tool in conversion.tools
    )
    return replace(conversion, tools=tools, report=conversion.report.with_assessments(assessments))


def _report_skipped(operation: Operation, name: str, reason: str, pointer: str) -> OperationOutcome:
    return OperationOutcome(
        operation.source_key, name, "skipped", pointer or operation.pointer, reason=reason
    )
