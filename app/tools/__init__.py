"""The HTTP resources `/tools` (list, search, edit), `/calls` (call records) and `/stats` (their counts)."""

from fastapi import APIRouter, FastAPI

from app.tools import (
    routes,
    routes_batch,
    routes_calls,
    routes_calls_csv,
    routes_calls_stream,
    routes_exports,
    routes_search,
    routes_stats,
)

router = APIRouter()
# Fixed paths come before the paths with a name or an id.
for _part in (
    routes_exports,
    routes_search,
    routes,
    routes_batch,
    routes_calls_csv,
    routes_calls_stream,
    routes_calls,
    routes_stats,
):
    router.include_router(_part.router)

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of `/tools`, `/calls` and `/stats` to the application."""
    app.include_router(router)
