"""`/tools`: tools are listed, read, changed and deleted."""

from fastapi import FastAPI

from app.api.tools import routes, routes_batch

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of tools."""
    for part in (routes, routes_batch):
        app.include_router(part.router)
