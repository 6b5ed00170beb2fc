"""The edge of `/recordings`: recorded calls, which keys and toolsets replay."""

from fastapi import FastAPI

from app.api.recordings.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of recordings."""
    app.include_router(router)
