"""`/toolsets`: named views of the registry. Calls are in `app.agents.call`, manuals in `app.agents.utcp`."""

from fastapi import FastAPI

from app.api.toolsets.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of toolsets to the application."""
    app.include_router(router)
