"""Servers of the Model Context Protocol: their tools and resources as tools."""

from app.protocols.mcp.adapter import McpAdapter

__all__ = ["McpAdapter"]
