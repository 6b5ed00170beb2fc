"""A UDP peer."""

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

Address = tuple[str, int]
Handler = Callable[[bytes, Callable[[bytes], None], Address], Awaitable[None]]


@contextlib.asynccontextmanager
async def udp_server(handler: Handler) -> AsyncIterator[int]:
    """Run `handler(message, reply, address)` for each datagram, and yield the port of loopback."""
    tasks: set[asyncio.Future[None]] = set()

    class Server(asyncio.DatagramProtocol):
        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def datagram_received(self, data: bytes, addr: Address) -> None:
            coroutine = handler(data, lambda reply: self.transport.sendto(reply, addr), addr)
            task = asyncio.ensure_future(coroutine)
            tasks.add(task)
            task.add_done_callback(tasks.discard)

    loop = asyncio.get_running_loop()
    transport, _ = await loop.create_datagram_endpoint(Server, local_addr=("127.0.0.1", 0))
    try:
        yield transport.get_extra_info("sockname")[1]
    finally:
        for task in tasks:
            task.cancel()
        transport.close()


class UdpPeer:
    """A server that sends `replies` for each datagram, `interval` seconds apart; a reply that is None is lost."""

    def __init__(self) -> None:
        self.port = 0
        self.received: list[bytes] = []
        self.client: Address = ("", 0)
        """From where the last datagram came."""
        self.replies: list[bytes | None] = []
        self.interval = 0.0

    @property
    def template(self) -> dict[str, Any]:
        """The call template of this peer, with a timeout of 3 s."""
        return {"call_template_type": "udp", "host": "127.0.0.1", "port": self.port, "timeout": 3000}

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator["UdpPeer"]:
        """Listen on loopback until the block ends."""
        async with udp_server(self._handle) as self.port:
            yield self

    async def _handle(self, message: bytes, reply: Callable[[bytes], None], address: Address) -> None:
        self.received.append(message)
        self.client = address
        for one in self.replies:
            if one is not None:
                reply(one)
            await asyncio.sleep(self.interval)


def is_bound(address: Address) -> bool:
    """Whether a UDP socket of this machine has this address."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind(address)
        except OSError:
            return True
        return False
