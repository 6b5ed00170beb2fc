"""The data plane's edge: tools are listed, searched, changed and called here, and calls are looked up."""

from fastapi import APIRouter

from app.calls.execution import Rooms
from app.tools import routes, routes_calls
from app.tools.endpoint import CALL_ROUTE, call_tool
from app.tools.operation import CALL_OPERATION

router = APIRouter()
for _part in (routes, routes_calls):
    router.include_router(_part.router)

__all__ = ["CALL_OPERATION", "CALL_ROUTE", "Rooms", "call_tool", "router"]
