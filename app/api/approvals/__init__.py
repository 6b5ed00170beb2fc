"""The edge of `/approvals`, what waits for the decision of another key, and of `/approval-requirements`."""

from fastapi import FastAPI

from app.api.approvals.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of approvals."""
    app.include_router(router)
