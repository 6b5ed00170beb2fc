"""A connection of an executor to its gateway, whatever carries it."""

from collections.abc import Awaitable, Callable
from typing import Final, Protocol, TypeAlias

MAX_MESSAGE_BYTES: Final = 16 << 20
"""Of a message, in either direction."""


class GatewayRejected(Exception):
    """The gateway accepts neither this key nor these tools, which another attempt would not change."""


class Connection(Protocol):
    """A connection to a gateway. Messages are `UbpMessage` in proto3's JSON mapping.

    `send` and `receive` raise OSError or websockets' ConnectionClosed where the connection has ended, and
    GatewayRejected where the gateway has ended it because of the key.
    """

    async def send(self, text: str) -> None:
        """Send a message."""

    async def receive(self) -> str | bytes:
        """Return the next message; raise MalformedMessage for what is none."""

    async def close(self) -> None:
        """End the connection, after what has been sent."""


Opener: TypeAlias = Callable[[str, str | None], Awaitable[Connection]]
"""Opens a connection to an address, with an API key. Raises OSError, websockets' InvalidHandshake, or
GatewayRejected for a key that is not accepted.
"""
