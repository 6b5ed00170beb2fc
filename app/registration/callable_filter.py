"""Tools that could never be called are not stored: they are skipped, and the report says why."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from app.credentials.model import Json
from app.credentials.variable_scope import VariableScope
from app.errors import InvalidInput
from app.protocols.variables import variables_of
from app.registration.model import ToolDraft, ToolSet
from app.registration.report import report

Prepare = Callable[[Mapping[str, Any]], str]
"""The origin of a template whose variables are written out; InvalidInput for one that cannot be called."""


def only_callable(tool_set: ToolSet, *, prepare: Prepare, scope: VariableScope | None = None) -> ToolSet:
    """The set without the tools that cannot be compiled; `scope` has the variables of hand-written ones."""
    reasons: dict[str, str] = {}
    for tool in tool_set.tools:
        reason = _problem(tool, prepare, scope)
        if reason is not None:
            reasons[tool.source_key] = reason
    if not reasons:
        return tool_set
    operations = [_skipped(one, reasons) for one in tool_set.report["operations"]]
    return replace(
        tool_set,
        tools=tuple(tool for tool in tool_set.tools if tool.source_key not in reasons),
        report={**tool_set.report, **report(operations, warnings=tool_set.report["warnings"])},
    )


def why(error: InvalidInput) -> str:
    """The reason of a skipped tool: what is wrong with its template, and where."""
    if not error.errors:
        return error.detail
    return f"{error.detail.rstrip('.')}: {error.errors[0].pointer}: {error.errors[0].detail}"


def _problem(tool: ToolDraft, prepare: Prepare, scope: VariableScope | None) -> str | None:
    template = tool.call_template
    if scope is not None:
        template = scope.resolved(template)
        if variables_of(template):
            return None
    try:
        prepare(template)
    except InvalidInput as error:
        return why(error)
    return None


def _skipped(one: Json, reasons: Mapping[str, str]) -> Json:
    if one["verdict"] == "skipped" or one["source_key"] not in reasons:
        return one
    return {**one, "name": "", "verdict": "skipped", "reason": reasons[one["source_key"]]}
