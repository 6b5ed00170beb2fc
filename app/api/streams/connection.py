"""The client's connection: detection of its end, and writing as fast as the client reads."""

from typing import Final

from starlette.types import Receive, Send

from app.core.deadlines import Deadline, TimerQueue
from app.core.errors import ClientTimeout, UpstreamTimeout

MAX_PIECE: Final = 64 << 10
"""The maximum number of bytes of one ASGI message; the server waits for the client between messages."""

Headers = list[tuple[bytes, bytes]]
"""Header fields as in ASGI: names in lower case, and values."""


async def until_disconnected(receive: Receive) -> None:
    """Wait until the client has disconnected. The request body must have been read before."""
    while (await receive())["type"] != "http.disconnect":
        pass


class ResponseWriter:
    """Writes a response body, no faster than the client reads it.

    `stall` is the timeout in seconds for each piece of at most 64 KiB. `sent` is the number of bytes written,
    `waited` the number of seconds spent waiting for the client.
    """

    __slots__ = ("_clock", "_send", "_stall", "sent", "waited")

    def __init__(self, send: Send, *, clock: TimerQueue, stall: float) -> None:
        self._send = send
        self._clock = clock
        self._stall = stall
        self.sent = 0
        self.waited = 0.0

    async def write(self, piece: bytes, *, more: bool = True) -> None:
        """Write a piece of the body, the last one unless `more`. Raises ClientTimeout."""
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
        """Return the error to report for a call that took `seconds`.

        An UpstreamTimeout becomes a ClientTimeout where more than half of the time was spent waiting for the
        client: a client that reads slowly must not open the breaker of a healthy upstream.
        """
        if isinstance(error, UpstreamTimeout) and self.waited > seconds / 2:
            return ClientTimeout(
                "The client read the response too slowly for the time that the call may take."
            )
        return error
