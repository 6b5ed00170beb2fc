"""`POST /tools/{name}/call` and `POST /toolsets/{name}/tools/{tool}/call`: reads the request and writes the
response (JSON, bytes or events); and `GET /continuations/{handle}`, the rest of a result that was cut.
"""

from fastapi import FastAPI

from app.agents.call import continuations
from app.agents.call.endpoint import CALL_ROUTE, TOOLSET_CALL_ROUTE, call_tool, call_toolset_tool

__all__ = ["CALL_ROUTE", "TOOLSET_CALL_ROUTE", "call_tool", "call_toolset_tool", "install"]


def install(app: FastAPI) -> None:
    """Add the routes of calls, and of the rests of their results, to the application."""
    app.router.routes += (CALL_ROUTE, TOOLSET_CALL_ROUTE)
    app.include_router(continuations.router)
