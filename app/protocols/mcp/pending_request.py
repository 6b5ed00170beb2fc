"""One attempt of a request to an MCP server: its deadline, limits and failure.

The SDK sends in tasks of its own, but in the context of the code that calls it: a context variable holds the
attempt.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field

from app.core.errors import GatewayError
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse


class SessionExpired(GatewayError):
    """The server does not know the session any more (status 404); the request was not processed."""


@dataclass(eq=False)
class PendingRequest:
    """One attempt. `deadline` is a `loop.time()`; `failure` is its error, and `failed` is set with it."""

    deadline: float
    limits: Limits
    headers: tuple[tuple[str, str], ...] = ()
    failure: GatewayError | None = None
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    responses: set[OutboundResponse] = field(default_factory=set, repr=False)
    refused: list[str] = field(default_factory=list)
    """The methods of requests that the server sent meanwhile, each of which got the error -32601."""

    def fail(self, error: GatewayError) -> None:
        """Record the error of the attempt, unless there is an earlier one."""
        self.failure = self.failure or error
        self.failed.set()

    def close(self) -> None:
        """Close the connections of the attempt. Idempotent."""
        self.closed = True
        for response in list(self.responses):
            response.close()


CURRENT: ContextVar[PendingRequest | None] = ContextVar("mcp_attempt", default=None)
