"""The edge of `/search`: the operator's words, synonyms and pinned results."""

from fastapi import FastAPI

from app.search_words_api import routes_pins, routes_synonyms

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of synonyms and pinned results."""
    app.include_router(routes_synonyms.router)
    app.include_router(routes_pins.router)
