"""Meta-tools: tools that find, describe and call the other tools of a collection, for large catalogues."""

from app.toolsets.meta_tools.calls import CallTool, StoredRests, call_meta_tool, find_called_tool
from app.toolsets.meta_tools.definitions import META_TOOL_NAMES, meta_tool, meta_tools, read_more_tool
from app.toolsets.meta_tools.finding import FindAids
from app.toolsets.meta_tools.listed import listed_tools

__all__ = [
    "META_TOOL_NAMES",
    "CallTool",
    "FindAids",
    "StoredRests",
    "call_meta_tool",
    "find_called_tool",
    "listed_tools",
    "meta_tool",
    "meta_tools",
    "read_more_tool",
]
