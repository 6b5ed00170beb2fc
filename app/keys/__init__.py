"""`/keys`, `/me`, `/session`, `/events` and `/changes/stream`: API keys, sessions of the console, and the
events of the control plane.
"""

from fastapi import APIRouter, FastAPI

from app.keys import routes, routes_changes, routes_events, routes_me, routes_session

router = APIRouter()
for _part in (routes, routes_me, routes_session, routes_events, routes_changes):
    router.include_router(_part.router)

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of keys, sessions and events."""
    app.include_router(router)
