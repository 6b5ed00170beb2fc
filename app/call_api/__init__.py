"""`POST /tools/{name}/call`: reads the request and writes the response (JSON, bytes or events)."""

from fastapi import FastAPI

from app.call_api.endpoint import CALL_ROUTE, call_tool

__all__ = ["CALL_ROUTE", "call_tool", "install"]


def install(app: FastAPI) -> None:
    """Add the route `POST /tools/{name}/call` to the application."""
    app.router.routes.append(CALL_ROUTE)
