"""The edge of `/approvals`, what waits for the decision of another key, and of `/approval-requirements`."""

from fastapi import FastAPI

from app.api.approvals.routes import router
from app.api.approvals.routes_requirements import router as requirements_router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of approvals."""
    app.include_router(router)
    app.include_router(requirements_router)
