"""Checks of parsed tools: those that could never be called are skipped; large ones get a shorter form."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.credentials.variable_scope import VariableScope
from app.errors import InvalidInput
from app.openapi.judge import judge
from app.protocols.variables import variables_of
from app.registration.model import ParsedSource, ToolDraft

Prepare = Callable[[Mapping[str, Any]], str]
"""Returns the origin of a template whose variables are written out; raises InvalidInput for one that cannot
be called."""


def only_callable(
    parsed: ParsedSource, *, prepare: Prepare, scope: VariableScope | None = None
) -> ParsedSource:
    """Return the source without the tools that cannot be called; its report says why they are skipped.

    `scope` has the variables of templates that name some; a tool of which one has no value is not checked.
    """
    reasons: dict[str, str] = {}
    for tool in parsed.tools:
        reason = _problem(tool, prepare, scope)
        if reason is not None:
            reasons[tool.source_key] = reason
    if not reasons:
        return parsed
    return replace(
        parsed,
        tools=tuple(tool for tool in parsed.tools if tool.source_key not in reasons),
        report=parsed.report.with_skipped(reasons),
    )


def _problem(tool: ToolDraft, prepare: Prepare, scope: VariableScope | None) -> str | None:
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


def judged_source(parsed: ParsedSource) -> ParsedSource:
    """Return the source with what a model sees of large tools, and a judgement of each in its report.

    For tools that come from no OpenAPI document: the converter judges its own.
    """
    made = judge(parsed.tools)
    tools = tuple(
        tool if (shown := made[tool.source_key].shown) is None else replace(tool, shown=shown.to_json())
        for tool in parsed.tools
    )
    return replace(parsed, tools=tools, report=parsed.report.with_judgements(made))


def judged_tool(tool: ToolDraft) -> ToolDraft:
    """Return one tool with what a model sees of it."""
    shown = judge([tool])[tool.source_key].shown
    return tool if shown is None else replace(tool, shown=shown.to_json())
