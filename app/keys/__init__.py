"""`/keys` and `/events`: API keys, and the events of the control plane."""

from fastapi import FastAPI

from app.keys.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of keys and events."""
    app.include_router(router)
