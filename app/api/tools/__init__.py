"""`/tools`: tools are listed, read, changed and deleted."""

from fastapi import FastAPI

from app.api.tools.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of tools."""
    app.include_router(router)
