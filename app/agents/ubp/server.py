"""What the transports of UBP share in one worker."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from app.agents.ubp.audit import ExecutorAudit
from app.agents.ubp.commands import CommandCaller
from app.services import Services


@dataclass(frozen=True, slots=True)
class ExecutorServer:
    """The services, what calls tools for commands, and what writes the audit events of executors.

    `draining` is set when the gateway begins to stop: connections take no new commands, and end once the open
    ones have. `streams` are the tasks of the streams of gRPC, for which the shutdown waits as for requests.
    """

    services: Services
    caller: CommandCaller
    audit: ExecutorAudit
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    streams: "set[asyncio.Task[Any]]" = field(default_factory=set)


@asynccontextmanager
async def open_server(services: Services) -> AsyncIterator[ExecutorServer]:
    """Yield the server of a worker; at the end of the block, write its audit events."""
    audit = ExecutorAudit(services.database)
    try:
        yield ExecutorServer(services, CommandCaller(services), audit)
    finally:
        await audit.aclose()
