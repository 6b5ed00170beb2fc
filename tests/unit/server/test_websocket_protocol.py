"""`WebSocketProtocol` at a real socket whose peer does not keep to the protocol, or does not read."""

import asyncio
import logging
import os
import socket
import struct
from contextlib import asynccontextmanager

import pytest
import uvicorn
from uvicorn.server import ServerState

from app.server.websocket_protocol import WebSocketProtocol
from tests.harness.cases import for_each

HEAD = (
    b"GET /ubp HTTP/1.1\r\nHost: gateway\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)
TEXT, BINARY, CONTINUATION, CLOSE, PING, PONG = 1, 2, 0, 8, 9, 10


def frame(opcode, payload=b"", *, fin=True, masked=True):
    """A frame of a client (RFC 6455 section 5.2), whose mask is zero."""
    size = len(payload)
    if size < 126:
        length = bytes([size | 0x80 * masked])
    else:
        length = bytes([127 | 0x80 * masked]) + struct.pack("!Q", size)
    return bytes([opcode | 0x80 * fin]) + length + bytes(4) * masked + payload


class Peer:
    """The client's end of a connection to a protocol, and the application behind it."""

    def __init__(self, sock):
        self.socket = sock
        self.protocol = None
        self.released = asyncio.Event()
        self.received = []
        self.admit = asyncio.Event()
        self.admit.set()
        self.reply = b""
        self.stop = asyncio.Event()
        self._buffer = b""

    async def application(self, scope, receive, send):
        """Accept the connection, and send `reply` for each message until the peer disconnects."""
        assert (await receive())["type"] == "websocket.connect"
        await self.admit.wait()
        await send({"type": "websocket.accept"})
        closing = asyncio.ensure_future(self._close(send))
        try:
            while (message := await receive())["type"] == "websocket.receive":
                self.received.append(message.get("text") or message.get("bytes"))
                if self.reply:
                    await send({"type": "websocket.send", "bytes": self.reply})
        except OSError:
            return
        finally:
            closing.cancel()

    async def _close(self, send):
        await self.stop.wait()
        await send({"type": "websocket.close", "code": 1008, "reason": "stopped"})

    async def send(self, data):
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def read(self, size):
        while len(self._buffer) < size:
            piece = await asyncio.get_running_loop().sock_recv(self.socket, 65536)
            if not piece:
                raise EOFError
            self._buffer += piece
        found, self._buffer = self._buffer[:size], self._buffer[size:]
        return found

    async def handshake(self):
        await self.send(HEAD)
        await self._response()

    async def early(self, data):
        """Send data before the response to the handshake."""
        self.admit.clear()
        await self.send(HEAD)
        await until(lambda: self.protocol.handshake_initiated)
        sending = asyncio.ensure_future(self.send(data))
        self.admit.set()
        await self._response()
        await sending

    async def _response(self):
        head = b""
        while not head.endswith(b"\r\n\r\n"):
            head += await self.read(1)
        assert head.startswith(b"HTTP/1.1 101 "), head

    async def frame(self):
        """The opcode and the payload of the next frame."""
        first, size = await self.read(2)
        if size == 126:
            (size,) = struct.unpack("!H", await self.read(2))
        elif size == 127:
            (size,) = struct.unpack("!Q", await self.read(8))
        return first & 15, await self.read(size)

    async def close_code(self):
        """Read up to the closing frame, and return its code."""
        while (found := await self.frame())[0] != CLOSE:
            pass
        return struct.unpack("!H", found[1][:2])[0]


@asynccontextmanager
async def connected(*, ping_seconds=20.0, pong_seconds=20.0, max_size=1024):
    """A peer at one end of a pair of sockets with small buffers, and a protocol at the other."""
    ours, theirs = socket.socketpair()
    for end in (ours, theirs):
        end.setblocking(False)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
            end.setsockopt(socket.SOL_SOCKET, option, 4096)
    peer = Peer(ours)
    config = uvicorn.Config(
        peer.application,
        interface="asgi3",
        lifespan="off",
        log_config=None,
        ws="none",
        ws_max_size=max_size,
        ws_per_message_deflate=False,
        ws_ping_interval=ping_seconds,
        ws_ping_timeout=pong_seconds,
    )
    state = ServerState()
    loop = asyncio.get_running_loop()
    peer.protocol = WebSocketProtocol(config, state, {}, released=peer.released.set, loop=loop)
    transport, _ = await loop.connect_accepted_socket(lambda: peer.protocol, theirs)
    try:
        yield peer
    finally:
        ours.close()
        transport.abort()
        await peer.released.wait()
        await asyncio.gather(*state.tasks)


async def until(condition):
    """Wait until a condition is true; the time limit of the test is its own."""
    while not condition():  # noqa: ASYNC110 - the protocol has no event for it.
        await asyncio.sleep(0.01)


async def test_pings_of_a_peer_that_does_not_read_take_no_memory():
    async with connected() as peer:
        await peer.handshake()
        pings = [frame(PING, os.urandom(125)) for _ in range(4096)]
        last = frame(PING, b"the last one")
        await peer.send(b"".join(pings) + last + frame(TEXT, b"behind"))
        await until(lambda: peer.received == ["behind"])
        high_water = peer.protocol.transport.get_write_buffer_limits()[1]
        one_read = 256 << 10
        assert peer.protocol.transport.get_write_buffer_size() < high_water + one_read
        assert peer.protocol.transport.get_write_buffer_size() < sum(map(len, pings)) / 2
        # When the peer reads again, it gets the pong to its last ping.
        while (found := await peer.frame()) != (PONG, b"the last one"):
            assert found[0] == PONG


async def test_a_peer_that_does_not_read_is_disconnected():
    async with connected(ping_seconds=0.1, pong_seconds=0.1) as peer:
        await peer.handshake()
        peer.reply = bytes(1 << 20)
        await peer.send(frame(TEXT, b"a") + frame(TEXT, b"b"))
        await peer.released.wait()


async def test_a_half_open_connection_is_noticed_by_its_pings():
    async with connected(ping_seconds=0.1, pong_seconds=0.1) as peer:
        await peer.handshake()
        # The peer reads, and does not respond to the ping.
        assert (await peer.frame())[0] == PING
        await peer.released.wait()


async def test_a_peer_that_responds_to_pings_stays():
    async with connected(ping_seconds=0.1) as peer:
        await peer.handshake()
        for _ in range(4):
            opcode, payload = await peer.frame()
            assert opcode == PING
            await peer.send(frame(PONG, payload))
        await peer.send(frame(TEXT, b"still here"))
        await until(lambda: peer.received == ["still here"])


@pytest.mark.parametrize("closes", ["peer", "gateway"])
async def test_a_closed_connection_whose_peer_does_not_read_ends(closes):
    async with connected() as peer:
        await peer.handshake()
        peer.protocol.close_timeout = 0.1
        # More than the sockets hold, and less than that at which the application has to wait.
        peer.reply = bytes(32 << 10)
        await peer.send(frame(TEXT, b"a"))
        await until(lambda: peer.protocol.transport.get_write_buffer_size() > 0)
        if closes == "peer":
            await peer.send(frame(CLOSE, struct.pack("!H", 1000)))
        else:
            peer.stop.set()
        await peer.released.wait()


async def test_a_message_of_very_many_empty_frames_is_too_large():
    async with connected() as peer:
        await peer.handshake()
        await peer.send(frame(TEXT, b"", fin=False))
        sending = asyncio.ensure_future(peer.send(frame(CONTINUATION, b"", fin=False) * 10_000))
        assert await peer.close_code() == 1009
        await asyncio.wait([sending])
        assert peer.received == []


async def test_a_message_of_several_frames_arrives_whole():
    async with connected() as peer:
        await peer.handshake()
        parts = [frame(TEXT, b"a", fin=False), *[frame(CONTINUATION, b"b", fin=False)] * 500]
        await peer.send(b"".join(parts) + frame(PING, b"between") + frame(CONTINUATION, b"c"))
        assert await peer.frame() == (PONG, b"between")
        await until(lambda: peer.received == ["a" + "b" * 500 + "c"])


async def test_frames_before_the_response_to_the_handshake_wait_for_it():
    async with connected() as peer:
        await peer.early(frame(PING, b"early") + frame(TEXT, b"early"))
        assert await peer.frame() == (PONG, b"early")
        await until(lambda: peer.received == ["early"])


BROKEN = {
    "an unmasked frame": (frame(TEXT, b"a", masked=False), 1002),
    "an unknown opcode": (frame(5), 1002),
    "a reserved bit": (bytes([0xC1]) + frame(TEXT, b"a")[1:], 1002),
    "a ping of several frames": (frame(PING, fin=False), 1002),
    "a long ping": (frame(PING, bytes(126)), 1002),
    "a continuation of nothing": (frame(CONTINUATION), 1002),
    "a closing frame of one byte": (frame(CLOSE, b"\x03"), 1002),
    "a closing frame with no text": (frame(CLOSE, struct.pack("!H", 1000) + b"\xff"), 1007),
    "text that is not UTF-8": (frame(TEXT, b"\xff"), 1007),
    "too much": (frame(BINARY, bytes(1025)), 1009),
}


@for_each("is_early", [False, True], ids=["open", "in the handshake"])
@for_each(("data", "code"), BROKEN.values(), ids=list(BROKEN))
async def test_a_frame_that_is_not_valid_ends_the_connection_and_is_no_error(data, code, is_early, caplog):
    caplog.set_level(logging.DEBUG)
    caplog.clear()
    async with connected() as peer:
        if is_early:
            await peer.early(data)
        else:
            await peer.handshake()
            await peer.send(data)
        assert await peer.close_code() == code
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
