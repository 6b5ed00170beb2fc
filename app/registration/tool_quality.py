"""Tools that come from no OpenAPI document, judged as those of one are."""

from dataclasses import replace

from app.openapi.judge import judge, judged_report
from app.registration.model import ToolDraft, ToolSet


def judged_set(tool_set: ToolSet) -> ToolSet:
    """The set with what a model sees of large tools, and the judgements in its report."""
    made = judge(tool_set.tools)
    tools = tuple(
        tool if (shown := made[tool.source_key].shown) is None else replace(tool, shown=shown.to_json())
        for tool in tool_set.tools
    )
    return replace(tool_set, tools=tools, report=judged_report(tool_set.report, made))


def judged_tool(tool: ToolDraft) -> ToolDraft:
    """One tool with what a model sees of it."""
    shown = judge([tool])[tool.source_key].shown
    return tool if shown is None else replace(tool, shown=shown.to_json())
