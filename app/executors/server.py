"""What the transports of UBP share in one worker."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from app.executors.commands import CommandCaller
from app.services import Services


@dataclass(frozen=True, slots=True)
class ExecutorServer:
    """The services, and what calls tools for commands.

    `draining` is set when the gateway begins to stop: connections take no new commands, and end once the open
    ones have. `streams` are the tasks of the streams of gRPC, for which the shutdown waits as for requests.
    """

    services: Services
    caller: CommandCaller
    draining: asyncio.Event = field(default_factory=asyncio.Event)
    streams: "set[asyncio.Task[Any]]" = field(default_factory=set)


def open_server(services: Services) -> ExecutorServer:
    """Return the server of a worker."""
    return ExecutorServer(services, CommandCaller(services))
