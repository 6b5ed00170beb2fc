"""`/events`, `/events.csv` and `/changes/stream`: the audit events of the control plane."""

from fastapi import FastAPI

from app.api.events import routes, routes_stream

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of audit events."""
    for part in (routes, routes_stream):
        app.include_router(part.router)
