"""The HTTP resource `/utcp`: manuals for UTCP clients, rendered ahead of requests."""

from fastapi import FastAPI

from app.agents.utcp.manuals import Manuals
from app.agents.utcp.protected_resource import ROUTES
from app.agents.utcp.routes import router
from app.agents.utcp.toolset_manuals import ToolsetManuals
from app.services import Services

__all__ = ["Manuals", "ToolsetManuals", "install", "open_manuals", "open_toolset_manuals", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of manuals, and of the metadata for OAuth 2.1, to the application."""
    app.include_router(router)
    app.router.routes.extend(ROUTES)


def open_manuals(services: Services) -> Manuals:
    """Return the manuals of these services, which follow the changes that the feed announces."""
    manuals = Manuals(services.database, base_url=services.settings.base_url, identity=services.identity)
    services.feed.subscribe(manuals.on_changes)
    return manuals


def open_toolset_manuals(services: Services) -> ToolsetManuals:
    """Return the manuals of toolsets of these services."""
    return ToolsetManuals(base_url=services.settings.base_url, identity=services.identity)
