"""Python functions as tools of a language model."""

from utcp_gateway_client.tools.arguments import InvalidArguments
from utcp_gateway_client.tools.collection import AnyTool, ToolCollection
from utcp_gateway_client.tools.previews import preview
from utcp_gateway_client.tools.progress import Progress, progress_to, report_progress
from utcp_gateway_client.tools.results import ArgumentError, ToolError, ToolResult
from utcp_gateway_client.tools.tool import JsonArguments, Tool, tool
from utcp_gateway_client.tools.traces import TraceContext, current_trace, traced_by

__all__ = [
    "AnyTool",
    "ArgumentError",
    "InvalidArguments",
    "JsonArguments",
    "Progress",
    "Tool",
    "ToolCollection",
    "ToolError",
    "ToolResult",
    "TraceContext",
    "current_trace",
    "preview",
    "progress_to",
    "report_progress",
    "tool",
    "traced_by",
]
