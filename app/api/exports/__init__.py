"""`/tools/export` and `/toolsets/{name}/export`: tools in the dialects of models' clients."""

from fastapi import FastAPI

from app.api.exports.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of exports."""
    app.include_router(router)
