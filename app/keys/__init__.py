"""`/keys`, `/me`, `/events` and `/changes/stream`: API keys, and the events of the control plane."""

from fastapi import APIRouter, FastAPI

from app.keys import routes, routes_changes, routes_events, routes_me

router = APIRouter()
for _part in (routes, routes_me, routes_events, routes_changes):
    router.include_router(_part.router)

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of keys and events."""
    app.include_router(router)
