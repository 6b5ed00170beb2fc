"""One request to an MCP server as the door out sees it: how long, how much, and what became of it.

The SDK sends in tasks of its own, but in the context of who asked; so it is found by a context variable.
"""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass, field

from app.errors import GatewayError
from app.outbound.limits import Limits
from app.outbound.response import OutboundResponse


class SessionExpired(GatewayError):
    """The server does not know the session any more (status 404); nothing was done."""


@dataclass(eq=False)
class PendingRequest:
    """`deadline` is a `loop.time()`. `failure` is why nothing comes, and `failed` tells of it."""

    deadline: float
    limits: Limits
    headers: tuple[tuple[str, str], ...] = ()
    failure: GatewayError | None = None
    failed: asyncio.Event = field(default_factory=asyncio.Event)
    closed: bool = False
    responses: set[OutboundResponse] = field(default_factory=set, repr=False)

    def fail(self, error: GatewayError) -> None:
        """The first failure counts."""
        self.failure = self.failure or error
        self.failed.set()

    def close(self) -> None:
        """Let go of its connections. May be called again."""
        self.closed = True
        for response in list(self.responses):
            response.close()


CURRENT: ContextVar[PendingRequest | None] = ContextVar("mcp_attempt", default=None)
