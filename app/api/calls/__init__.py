"""`/calls`: records of calls, as pages, as CSV and as a stream."""

from fastapi import FastAPI

from app.api.calls.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of records of calls."""
    app.include_router(router)
