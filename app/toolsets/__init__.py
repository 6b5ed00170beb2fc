"""The tools that an agent sees at one address: those of the registry, or of a toolset, a named view of it."""

from app.toolsets.collections import AgentTool, CallTarget, CollectionOptions, ToolCollection, ToolCollections

__all__ = ["AgentTool", "CallTarget", "CollectionOptions", "ToolCollection", "ToolCollections"]
