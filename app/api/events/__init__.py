"""`/events`, `/events.csv` and `/changes/stream`: the audit events of the control plane."""

from fastapi import FastAPI

from app.api.events.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of audit events."""
    app.include_router(router)
