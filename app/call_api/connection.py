"""The client's connection: when it has gone, and how much it takes at a time."""

from typing import Final

from starlette.types import Receive, Send

from app.deadlines import Deadline, TimerQueue
from app.errors import ClientTimeout, UpstreamTimeout

MAX_PIECE: Final = 64 << 10
"""Bytes that are handed to the server in one go; it waits for the client before it takes the next."""

Headers = list[tuple[bytes, bytes]]
"""As ASGI has them."""


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client has left; its request body must have been read."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ResponseWriter:
    """Hands pieces of a response body to the server. Back-pressure comes from awaiting it.

    `stall` are the seconds that a client may take over each 64 KiB; after that, ClientTimeout is raised.
    `sent` counts bytes, `waited` the seconds that the client was waited for.
    """

    __slots__ = ("_clock", "_send", "_stall", "sent", "waited")

    def __init__(self, send: Send, *, clock: TimerQueue, stall: float) -> None:
        self._send = send
        self._clock = clock
        self._stall = stall
        self.sent = 0
        self.waited = 0.0

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        """Write a piece, which is the last one unless there is `more`."""
        if len(piece) <= MAX_PIECE:
            await self._write(piece, more)
            return
        for start in range(0, len(piece), MAX_PIECE):
            await self._write(piece[start : start + MAX_PIECE], more or start + MAX_PIECE < len(piece))

    async def _write(self, piece: bytes, more: bool) -> None:
        now = self._clock.loop.time
        began = now()
        try:
            with Deadline(self._clock, began + self._stall):
                await self._send({"type": "http.response.body", "body": piece, "more_body": more})
        except TimeoutError:
            raise ClientTimeout("The client stopped reading the response.") from None
        self.waited += now() - began
        self.sent += len(piece)

    def attribute(self, error: BaseException, *, seconds: float) -> BaseException:
        """Return the error that ended a call of so many seconds: a timeout is the upstream's, or that of a
        client that read slowly.

        Else clients that read slowly would open the breaker of a healthy upstream.
        """
        if isinstance(error, UpstreamTimeout) and self.waited > seconds / 2:
            return ClientTimeout(
                "The client read the response too slowly for the time that the call may take."
            )
        return error
