"""`/session`: sessions of the web console."""

from fastapi import FastAPI

from app.api.session.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of sessions."""
    app.include_router(router)
