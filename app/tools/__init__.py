"""The HTTP resources `/tools` (list, search, edit) and `/calls` (records of calls)."""

from fastapi import APIRouter, FastAPI

from app.tools import routes, routes_calls

router = APIRouter()
for _part in (routes, routes_calls):
    router.include_router(_part.router)

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of tools and of the record of calls."""
    app.include_router(router)
