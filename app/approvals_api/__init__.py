"""The edge of `/approvals`: what waits for the decision of another key."""

from fastapi import FastAPI

from app.approvals_api.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of approvals."""
    app.include_router(router)
