"""A bounded relay between an upstream and a library that opens its sockets by itself.

The library gets one end of a socket pair. What the upstream sends is passed on up to a number of bytes: most
libraries hold a whole message in memory, of whatever size.
"""

import asyncio
import contextlib
import socket

_PIECE = 64 << 10


class ByteRelay:
    """Passes bytes between a connected socket and `socket`, the end for the library, in both directions.

    Both ends here are closed when either side ends, and by `close`; the library closes its own.
    """

    def __init__(self, upstream: socket.socket, *, max_bytes: int) -> None:
        self.socket, self._inner = socket.socketpair()
        self.socket.setblocking(False)
        self._inner.setblocking(False)
        self._upstream = upstream
        self._left = max_bytes
        self.has_exceeded = False
        """Whether the upstream has sent more than `max_bytes`, which ended the connection."""
        self._task = asyncio.create_task(self._run())

    def close(self) -> None:
        """End the connection. Idempotent."""
        self._task.cancel()

    async def _run(self) -> None:
        directions = [
            asyncio.create_task(self._pass_on(self._upstream, self._inner, counted=True)),
            asyncio.create_task(self._pass_on(self._inner, self._upstream, counted=False)),
        ]
        try:
            await asyncio.wait(directions, return_when=asyncio.FIRST_COMPLETED)
        finally:
            # The sockets are closed once nothing waits for them any more.
            for task in directions:
                task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait(directions)
            self._upstream.close()
            self._inner.close()

    async def _pass_on(self, source: socket.socket, target: socket.socket, *, counted: bool) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(OSError):
            while piece := await loop.sock_recv(source, _PIECE):
                if counted:
                    self._left -= len(piece)
                    if self._left < 0:
                        self.has_exceeded = True
                        return
                await loop.sock_sendall(target, piece)
