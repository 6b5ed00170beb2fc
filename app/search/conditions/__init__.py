"""What decides whether a call of a tool is likely to succeed now, and is no part of the tool."""

from app.search.conditions.conditions import ToolCondition, ToolConditions

__all__ = ["ToolCondition", "ToolConditions"]
