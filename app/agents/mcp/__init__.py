"""The registry and its toolsets as MCP servers: `/mcp` and `/toolsets/{name}/mcp`."""

from fastapi import FastAPI

from app.agents.mcp.endpoint import FAST_ROUTES, ROUTES
from app.agents.mcp.server import McpServer, open_server

__all__ = ["FAST_ROUTES", "ROUTES", "McpServer", "install", "open_server"]


def install(app: FastAPI) -> None:
    """Add its routes, which find the server in `request.state.mcp`."""
    app.router.routes.extend(ROUTES)
