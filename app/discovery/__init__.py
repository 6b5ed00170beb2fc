"""The HTTP resource `/utcp`: manuals for UTCP clients, rendered ahead of requests."""

from fastapi import FastAPI

from app.discovery.manuals import Manuals
from app.discovery.routes import router
from app.services import Services

__all__ = ["Manuals", "install", "open_manuals", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of manuals to the application."""
    app.include_router(router)


def open_manuals(services: Services) -> Manuals:
    """Return the manuals of these services, which follow the changes that the feed announces."""
    manuals = Manuals(services.database, base_url=services.settings.base_url, identity=services.identity)
    services.feed.subscribe(manuals.on_changes)
    return manuals
