"""Calls on a data channel, matched by their ids, and the pool of such channels."""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.deadlines import Deadline, timer_queue
from app.errors import GatewayError, InvalidArguments, UpstreamTimeout, UpstreamUnreachable, clone_error

_IDLE_SECONDS: Final = 60.0
_MAX_CHANNELS: Final = 64
_MAX_CHANNELS_OF_PEER: Final = 16
_OVERHEAD: Final = 128


class PendingCall:
    """One call on a channel. `close` it; that may be done again, and tells the peer if it has not ended."""

    def __init__(self, channel: "PeerChannel", number: str) -> None:
        self._channel = channel
        self.id = number
        self._waiting: deque[str | bytes] = deque()
        self._error: GatewayError | None = None
        self._arrived = asyncio.Event()
        self._ended = False

    async def next(self, *, by: float) -> tuple[dict[str, Any], int]:
        """The next message and its bytes. Raises UpstreamTimeout, and what ended the channel."""
        try:
            with Deadline(timer_queue(), by):
                while not self._waiting:
                    if self._error is not None:
                        raise clone_error(self._error)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise UpstreamTimeout("The peer did not answer in time.") from None
        text = self._waiting.popleft()
        self._channel.peer.release(len(text) + _OVERHEAD)
        return orjson.loads(text), len(text)

    def heard(self, text: str | bytes, *, last: bool) -> None:
        """A message of the peer for this call; it is kept as text, which is smaller than its values."""
        self._ended = last
        self._waiting.append(text)
        self._channel.peer.hold(len(text) + _OVERHEAD)
        self._arrived.set()

    def failed(self, error: GatewayError) -> None:
        """The channel ended."""
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        """Nobody waits for it any more."""
        self._channel.left(self, tell=not self._ended and self._error is None)
        while self._waiting:
            self._channel.peer.release(len(self._waiting.popleft()) + _OVERHEAD)


class PeerChannel:
    """A peer's channel with the calls on it."""

    def __init__(self) -> None:
        self.peer: Any = None
        self.exclusive = False
        self.since = 0.0
        self.farewell: Callable[[], Coroutine[Any, Any, None]] | None = None
        """What is done when it has ended."""
        self._calls: dict[str, PendingCall] = {}

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    @property
    def usable(self) -> bool:
        return self.peer is not None and bool(self.peer.usable)

    async def ask(self, message: dict[str, Any], *, by: float) -> PendingCall:
        """Send a request. Raises InvalidArguments for one that is too long, and what sending raises."""
        asked = PendingCall(self, secrets.token_urlsafe(12))
        self._calls[asked.id] = asked
        try:
            text = orjson.dumps({"id": asked.id, **message}).decode()
            await self.peer.send(text, by=by)
        except BaseException as error:
            asked.failed(UpstreamUnreachable("It was not sent.", request_sent=False))
            asked.close()
            if isinstance(error, ValueError):
                raise InvalidArguments("The arguments are larger than the peer takes.") from None
            raise
        return asked

    def heard(self, text: str | bytes) -> None:
        """A message of the peer; one that belongs to no call is dropped."""
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        number = message.get("id") if isinstance(message, dict) else None
        asked = self._calls.get(number) if isinstance(number, str) else None
        if asked is not None:
            asked.heard(text, last="event" not in message)

    def lost(self, error: GatewayError) -> None:
        """All calls fail."""
        for asked in list(self._calls.values()):
            asked.failed(error)

    def left(self, asked: PendingCall, *, tell: bool) -> None:
        """The call is over for us; `tell` the peer."""
        if self._calls.pop(asked.id, None) is None:
            return
        self.since = asyncio.get_running_loop().time()
        if not self._calls:
            self.exclusive = False
        if tell and self.usable:
            self.peer.send_text(orjson.dumps({"id": asked.id, "type": "cancel"}).decode())


@dataclass(slots=True, eq=False)
class _PeerPool:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    channels: list[PeerChannel] = field(default_factory=list)


class ChannelPool:
    """Open channels by key; use it in one event loop, and `aclose()` it there.

    A call that takes events has a channel for itself, because a client that reads them slowly shuts the
    window of the whole connection; other calls share one.
    """

    def __init__(self) -> None:
        self._pools: OrderedDict[bytes, _PeerPool] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def ask(
        self,
        key: bytes,
        message: dict[str, Any],
        *,
        connect: Callable[[PeerChannel], Awaitable[Any]],
        exclusive: bool,
        by: float,
    ) -> PendingCall:
        """Send a request on a channel, which `connect` makes where there is none. Raises what both raise."""
        pool = self._pools.setdefault(key, _PeerPool())
        self._pools.move_to_end(key)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_IDLE_SECONDS / 2, self._swept)
        channel = self._free(pool, exclusive=exclusive)
        if channel is None:
            try:
                with Deadline(timer_queue(), by):
                    await pool.lock.acquire()
            except TimeoutError:
                raise UpstreamTimeout(
                    "No connection to the peer was made in time.", request_sent=False
                ) from None
            try:
                channel = self._free(pool, exclusive=exclusive) or await self._opened(pool, connect)
            finally:
                pool.lock.release()
        channel.exclusive = exclusive
        return await channel.ask(message, by=by)

    def __len__(self) -> int:
        """How many are open."""
        return sum(len(pool.channels) for pool in self._pools.values())

    async def aclose(self) -> None:
        """Close all of them, which fails their calls."""
        if self._sweep is not None:
            self._sweep.cancel()
        for pool in self._pools.values():
            for channel in pool.channels:
                channel.lost(UpstreamUnreachable("The gateway is stopping."))
                self._close(channel)
        self._pools.clear()
        while self._closing:
            await asyncio.wait(self._closing)

    def _free(self, pool: _PeerPool, *, exclusive: bool) -> PeerChannel | None:
        for channel in [one for one in pool.channels if not one.usable]:
            pool.channels.remove(channel)
            self._close(channel)
        for channel in pool.channels:
            if not channel.exclusive and not (exclusive and channel.busy):
                return channel
        return None

    async def _opened(self, pool: _PeerPool, connect: Callable[[PeerChannel], Awaitable[Any]]) -> PeerChannel:
        if len(pool.channels) >= _MAX_CHANNELS_OF_PEER:
            raise UpstreamUnreachable("Too many streams of the peer are under way.", request_sent=False)
        if len(self) >= _MAX_CHANNELS:
            self._make_room()
        channel = PeerChannel()
        await connect(channel)
        channel.since = asyncio.get_running_loop().time()
        pool.channels.append(channel)
        return channel

    def _make_room(self) -> None:
        for pool in self._pools.values():
            for channel in pool.channels:
                if not channel.busy:
                    pool.channels.remove(channel)
                    self._close(channel)
                    return
        raise UpstreamUnreachable("Too many peers are connected already.", request_sent=False)

    def _swept(self) -> None:
        loop = asyncio.get_running_loop()
        for key, pool in list(self._pools.items()):
            for channel in list(pool.channels):
                if not channel.usable or (not channel.busy and channel.since < loop.time() - _IDLE_SECONDS):
                    pool.channels.remove(channel)
                    self._close(channel)
            if not pool.channels and not pool.lock.locked():
                del self._pools[key]
        self._sweep = loop.call_later(_IDLE_SECONDS / 2, self._swept) if self._pools else None

    def abandon(self, channel: PeerChannel, peer: Any) -> None:
        """Close a channel that did not come to be."""
        channel.peer = peer
        self._close(channel)

    def _close(self, channel: PeerChannel) -> None:
        ending = [channel.peer.close()]
        if channel.farewell is not None:
            ending.append(asyncio.get_running_loop().create_task(channel.farewell()))
            channel.farewell = None
        for task in ending:
            if not task.done():
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
