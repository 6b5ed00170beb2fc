"""The meta-tools of an MCP server: `app.meta_tools` under the names that this package uses."""

from app.meta_tools import META_TOOL_NAMES, call_meta_tool, meta_tools

__all__ = ["META_TOOL_NAMES", "call_meta_tool", "meta_tools"]
