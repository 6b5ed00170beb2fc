"""`/plugins`: the catalogue of ready providers, and enabling them."""

from fastapi import FastAPI

from app.plugin_api.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of plugins to the application."""
    app.include_router(router)
