"""The tools that an agent sees at one address: those of the registry, or of a toolset, a named view of it."""

from app.toolsets.agent_tool import AgentTool, condition_of
from app.toolsets.collections import (
    CallTarget,
    CollectionOptions,
    ToolCollection,
    ToolCollections,
    with_names_here,
)
from app.toolsets.directory import Listing
from app.toolsets.found import FoundTools, ToolSearch, find_members

__all__ = [
    "AgentTool",
    "CallTarget",
    "CollectionOptions",
    "FoundTools",
    "Listing",
    "ToolCollection",
    "ToolCollections",
    "ToolSearch",
    "condition_of",
    "find_members",
    "with_names_here",
]
