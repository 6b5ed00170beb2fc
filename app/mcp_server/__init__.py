"""The registry and its toolsets as MCP servers: `/mcp` and `/toolsets/{name}/mcp`."""

from fastapi import FastAPI


def install(app: FastAPI) -> None:
    """Add its routes."""
    del app
