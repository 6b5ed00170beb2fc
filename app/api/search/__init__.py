"""`/tools/search`, and below `/search` the operator's words and what was learned from use."""

from fastapi import FastAPI

from app.api.search import routes, routes_usage, routes_words

__all__ = ["install"]


def install(app: FastAPI) -> None:
    """Add the routes of searches."""
    for part in (routes, routes_words, routes_usage):
        app.include_router(part.router)
