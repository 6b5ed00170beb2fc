"""The HTTP resources `/tools` (list, search, edit) and `/calls` (records of calls)."""

from fastapi import APIRouter

from app.tools import routes, routes_calls

router = APIRouter()
for _part in (routes, routes_calls):
    router.include_router(_part.router)

__all__ = ["router"]
