"""The execution of calls, for every interface of the gateway: `execute(CallRequest) -> CallOutcome`."""

from app.calls.context import CallOutcome
from app.calls.execution import CallServices, describe, execute
from app.calls.request import CallRequest, ClientDisconnected

__all__ = ["CallOutcome", "CallRequest", "CallServices", "ClientDisconnected", "describe", "execute"]
