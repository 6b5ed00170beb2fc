"""Checks of parsed tools: those that could never be called are skipped; large ones get a shorter form."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Final

from app.core.errors import FieldError, InvalidDocument, InvalidInput
from app.core.text import pointer
from app.formats.dialects.sanitize import UnusableSchema, sanitize_inputs
from app.openapi.assessment.assess import assess
from app.openapi.conversion.servers import UNKNOWN_BASE, UNSET_VARIABLE
from app.protocols.variables import variables_of
from app.providers.credentials.variable_scope import VariableScope
from app.providers.registration.model import ParsedSource, ToolDraft

_MAX_REASONS: Final = 10

Prepare = Callable[[Mapping[str, Any]], str]
"""Returns the origin of a template whose variables are written out; raises InvalidInput for one that cannot
be called."""


def keep_callable(
    parsed: ParsedSource, *, prepare: Prepare, scope: VariableScope | None = None
) -> ParsedSource:
    """Return the source without the tools that cannot be called; its report says why they are skipped.

    `scope` has the variables of templates that name some; a tool of which one has no value is not checked.
    """
    reasons: dict[str, str] = {}
    for tool in parsed.tools:
        reason = _find_problem(tool, prepare, scope)
        if reason is not None:
            reasons[tool.source_key] = reason
    if not reasons:
        return parsed
    return replace(
        parsed,
        tools=tuple(tool for tool in parsed.tools if tool.source_key not in reasons),
        report=parsed.report.with_skipped(reasons),
    )


def _find_problem(tool: ToolDraft, prepare: Prepare, scope: VariableScope | None) -> str | None:
    template = tool.call_template
    if scope is not None:
        template = scope.resolved(template)
        if variables_of(template):
            return None
    try:
        prepare(template)
    except InvalidInput as error:
        if not error.errors:
            return error.detail
        return f"{error.detail.rstrip('.')}: {error.errors[0].pointer}: {error.errors[0].detail}"
    return None


def reject_empty(parsed: ParsedSource, *, options: Mapping[str, Any], at: str) -> None:
    """Raise InvalidDocument for a source without a tool that can be called, unless `options.allow_empty`.

    `at` is the JSON pointer of the registration. The error names the option that helps, and up to ten of the
    reasons for which tools were skipped, and of the warnings about the source.
    """
    if parsed.tools or options.get("allow_empty"):
        return
    skipped = [one for one in parsed.report.operations if one.outcome == "skipped"]
    detail = "None of its tools can be called." if skipped else "It has no tools."
    lacks_base = [one for one in skipped if one.reason == UNKNOWN_BASE]
    problems = [FieldError(one.pointer, f"It {one.reason}") for one in skipped[:_MAX_REASONS]]
    if lacks_base:
        detail = "The document has no absolute server URL, so none of its operations can be called."
        given = [
            FieldError(pointer(at, "options", "base_url"), "Give the base URL of the API.", "https://...")
        ]
        problems = [*given, *(one for one in problems if one.detail != f"It {UNKNOWN_BASE}")]
    if any((one.reason or "").startswith(UNSET_VARIABLE) for one in skipped):
        detail = "Its server URL has a variable without a value, so none of its operations can be called."
        problems = [*_find_unset_variables(parsed, options, at), *problems]
    problems += [FieldError(one.pointer, one.detail) for one in parsed.report.warnings[:_MAX_REASONS]]
    allow = "Set it to true to register a provider without tools."
    problems.append(FieldError(pointer(at, "options", "allow_empty"), allow, expected=True))
    raise InvalidDocument(f"The source cannot be registered. {detail}", errors=problems)


def _find_unset_variables(
    parsed: ParsedSource, options: Mapping[str, Any], registration_pointer: str
) -> list[FieldError]:
    """Return an error for each variable of a server URL that has neither a value nor a default."""
    given = options.get("server_variables") or {}
    errors: dict[str, FieldError] = {}
    for server in parsed.report.servers:
        for variable in server.variables:
            if variable.default is None and variable.name not in given:
                sentence = f"Give a value: it is a variable of {server.url}. {variable.description}".strip()
                where = pointer(registration_pointer, "options", "server_variables", variable.name)
                errors[variable.name] = FieldError(where, sentence, "string")
    return list(errors.values())[:_MAX_REASONS]


def assess_source(parsed: ParsedSource) -> ParsedSource:
    """Return the source with its large tools slimmed, and the assessment of each tool in its report, which
    also says of which tools agents' clients do not accept the schema.

    Only for tools that come from no OpenAPI document: its conversion has assessed them already.
    """
    assessments = assess(parsed.tools)
    tools = tuple(replace(tool, slimmed=assessments[tool.source_key].slimmed) for tool in parsed.tools)
    unlisted = {
        tool.source_key: note for tool in parsed.tools if (note := _explain_unlisted(tool)) is not None
    }
    report = parsed.report.with_assessments(assessments).with_notes(unlisted)
    return replace(parsed, tools=tools, report=report)


def _explain_unlisted(tool: ToolDraft) -> str | None:
    """Return why agents do not see a tool; None for one whose schema their clients accept."""
    try:
        sanitize_inputs(tool.inputs)
    except UnusableSchema as error:
        return f"It is not offered to agents (MCP and exports): {error.reason}"
    return None


def slimmed_tool(tool: ToolDraft) -> ToolDraft:
    """Return the tool, slimmed where it is large."""
    return replace(tool, slimmed=assess([tool])[tool.source_key].slimmed)
