"""`/calls`: records of calls, as pages, as CSV and as a stream."""

from fastapi import FastAPI

from app.api.calls import routes, routes_csv, routes_stream

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of records of calls."""
    # Fixed paths come before the path with an id.
    for part in (routes_csv, routes_stream, routes):
        app.include_router(part.router)
