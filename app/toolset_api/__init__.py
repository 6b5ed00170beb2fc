"""`/toolsets`: named views of the registry. Calls are in `app.call_api`, manuals in `app.discovery`."""

from fastapi import FastAPI

from app.toolset_api.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of toolsets to the application."""
    app.include_router(router)
