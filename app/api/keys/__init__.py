"""`/keys`: API keys."""

from fastapi import FastAPI

from app.api.keys.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of keys."""
    app.include_router(router)
