"""`/plugins`: the catalogue of ready providers, and enabling them."""

from fastapi import FastAPI

from app.api.plugins.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of plugins to the application."""
    app.include_router(router)
