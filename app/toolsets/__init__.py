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

__all__ = [
    "AgentTool",
    "CallTarget",
    "CollectionOptions",
    "Listing",
    "ToolCollection",
    "ToolCollections",
    "condition_of",
    "with_names_here",
]
