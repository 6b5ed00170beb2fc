"""The HTTP resource `/providers`: providers, credentials, variables, imports, exports and custom tools."""

from fastapi import APIRouter, FastAPI

from app.api.providers import (
    routes,
    routes_credentials,
    routes_health,
    routes_imports,
    routes_tools,
    routes_variables,
)

router = APIRouter()
for _part in (routes, routes_credentials, routes_variables, routes_tools, routes_imports, routes_health):
    router.include_router(_part.router)

__all__ = ["install", "router"]


def install(app: FastAPI) -> None:
    """Add the routes of providers, credentials, variables and imports."""
    app.include_router(router)
