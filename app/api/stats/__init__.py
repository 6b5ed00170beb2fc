"""`/stats`: counts, error counts and durations of calls over time."""

from fastapi import FastAPI

from app.api.stats.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of statistics."""
    app.include_router(router)
