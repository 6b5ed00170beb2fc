"""The edge of `/search/usage`: what the ranking of tools has learned from use."""

from fastapi import FastAPI

from app.search_usage_api.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of what was learned from use."""
    app.include_router(router)
