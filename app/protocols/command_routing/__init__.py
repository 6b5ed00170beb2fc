"""Commands for executors: programs that connect to the gateway and execute what it sends (UBP).

An executor is connected to one worker; a command may arrive at any. `CommandRouter` selects the connection,
and `WorkerRelay` passes commands, results and events between workers.
"""

from app.protocols.command_routing.connection import ExecutorConnection, MessageNotSent, MessageSender
from app.protocols.command_routing.model import (
    Capability,
    CommandNotSent,
    ConnectedExecutor,
    ProgressListener,
)
from app.protocols.command_routing.router import CommandRouter

__all__ = [
    "Capability",
    "CommandNotSent",
    "CommandRouter",
    "ConnectedExecutor",
    "ExecutorConnection",
    "MessageNotSent",
    "MessageSender",
    "ProgressListener",
]
