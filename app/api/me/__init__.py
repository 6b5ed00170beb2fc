"""`/me`: the key of the request."""

from fastapi import FastAPI

from app.api.me.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of the key of the request."""
    app.include_router(router)
