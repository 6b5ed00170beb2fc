"""`/tools/search`, and below `/search` the operator's words and what was learned from use."""

from fastapi import FastAPI

from app.api.search import routes, routes_pins, routes_synonyms, routes_usage

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of searches."""
    for part in (routes, routes_synonyms, routes_pins, routes_usage):
        app.include_router(part.router)
