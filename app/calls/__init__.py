"""The execution of calls, for every interface of the gateway: `execute(CallRequest) -> CallContext`."""

from app.calls.context import CallContext
from app.calls.execution import describe, execute
from app.calls.request import CallRequest, ClientDisconnected
from app.calls.services import CallServices

__all__ = ["CallContext", "CallRequest", "CallServices", "ClientDisconnected", "describe", "execute"]
