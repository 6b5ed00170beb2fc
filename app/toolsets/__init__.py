"""The tools that an agent sees at one address: those of the registry, or of a toolset, a named view of it."""

from app.toolsets.agent_tool import AgentTool, condition_of, toolset_call_url
from app.toolsets.collection import AmbiguousTool, CallTarget, CollectionOptions, ToolCollection
from app.toolsets.collections import ToolCollections, schema_form, with_names_here
from app.toolsets.directory import Listing
from app.toolsets.found import FoundTools, ToolSearch, find_members

__all__ = [
    "AgentTool",
    "AmbiguousTool",
    "CallTarget",
    "CollectionOptions",
    "FoundTools",
    "Listing",
    "ToolCollection",
    "ToolCollections",
    "ToolSearch",
    "condition_of",
    "find_members",
    "schema_form",
    "toolset_call_url",
    "with_names_here",
]
