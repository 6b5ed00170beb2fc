"""The data plane's edge: tools are listed, searched, changed and called here, and calls are looked up."""

from app.tools.endpoint import CALL_ROUTE, call_tool
from app.tools.operation import CALL_OPERATION
from app.tools.routes import router

__all__ = ["CALL_OPERATION", "CALL_ROUTE", "call_tool", "router"]
