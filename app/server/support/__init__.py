"""`/settings`, `/health/details` and `/support-bundle`: what the gateway is configured with and how it does,
without secrets, for keys with the scope `admin`.
"""

from fastapi import FastAPI

from app.server.support.routes import router

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes."""
    app.include_router(router)
