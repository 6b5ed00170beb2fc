"""`/explain`: whether a key may see and call a tool now, and why or why not."""

from fastapi import FastAPI

from app.api.explain.routes import router

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the route."""
    app.include_router(router)
