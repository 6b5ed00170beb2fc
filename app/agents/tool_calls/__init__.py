"""`/tool-calls`: takes the tool calls of a model in any dialect, and responds with the messages to append."""

from fastapi import FastAPI

from app.agents.tool_calls.endpoint import TOOL_CALLS_ROUTE, TOOLSET_TOOL_CALLS_ROUTE

__all__ = ["TOOLSET_TOOL_CALLS_ROUTE", "TOOL_CALLS_ROUTE", "install"]


def install(app: FastAPI) -> None:
    """Add its routes."""
    app.router.routes += [TOOL_CALLS_ROUTE, TOOLSET_TOOL_CALLS_ROUTE]
