"""Calls on a data channel, matched by their ids, and the pool of such channels."""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import orjson
from app.protocols.extension import (
    Deadline,
    GatewayError,
    InvalidArguments,
    UpstreamTimeout,
    UpstreamUnreachable,
    clone_error,
    exact_json,
    get_timer_queue,
)

_IDLE_SECONDS: Final = 60.0
_MAX_CHANNELS: Final = 64
_MAX_CHANNELS_OF_PEER: Final = 16
_OVERHEAD: Final = 128


class PendingCall:
    """One call on a channel. It must be closed; `close` is idempotent and cancels an unfinished call."""

    def __init__(self, channel: "PeerChannel", call_id: str) -> None:
        self._channel = channel
        self.id = call_id
        self._waiting: deque[str | bytes] = deque()
        self._error: GatewayError | None = None
        self._arrived = asyncio.Event()
        self._ended = False

    async def receive(self, *, deadline: float) -> tuple[dict[str, Any], int]:
        """Return the next message and its length; raise UpstreamTimeout or the error of the channel."""
        try:
            with Deadline(get_timer_queue(), deadline):
                while not self._waiting:
                    if self._error is not None:
                        raise clone_error(self._error)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise UpstreamTimeout("The peer did not respond in time.") from None
        text = self._waiting.popleft()
        self._channel.peer.remove_unread(len(text) + _OVERHEAD)
        return orjson.loads(text), len(text)

    def on_message(self, text: str | bytes, *, last: bool) -> None:
        """Buffer a message of the peer as text, which is smaller than its parsed value."""
        self._ended = last
        self._waiting.append(text)
        self._channel.peer.add_unread(len(text) + _OVERHEAD)
        self._arrived.set()

    def fail(self, error: GatewayError) -> None:
        """Record the error that ended the channel."""
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        """Remove the call from its channel; send a cancellation to the peer where it has not ended."""
        self._channel.remove(self, notify_peer=not self._ended and self._error is None)
        while self._waiting:
            self._channel.peer.remove_unread(len(self._waiting.popleft()) + _OVERHEAD)


class PeerChannel:
    """A peer's channel with the calls on it."""

    def __init__(self) -> None:
        self.peer: Any = None
        self.exclusive = False
        self.idle_since = 0.0
        self.on_close: Callable[[], Coroutine[Any, Any, None]] | None = None
        """Called when the channel has ended."""
        self._calls: dict[str, PendingCall] = {}

    @property
    def is_busy(self) -> bool:
        return bool(self._calls)

    @property
    def is_usable(self) -> bool:
        return self.peer is not None and bool(self.peer.is_usable)

    async def send(self, message: dict[str, Any], *, deadline: float) -> PendingCall:
        """Send a request; raise InvalidArguments for one that is too long, and what `Peer.send` raises."""
        pending = PendingCall(self, secrets.token_urlsafe(12))
        self._calls[pending.id] = pending
        try:
            text = exact_json.dumps({"id": pending.id, **message}).decode()
            await self.peer.send(text, deadline=deadline)
        except BaseException as error:
            pending.fail(UpstreamUnreachable("It was not sent.", request_sent=False))
            pending.close()
            if isinstance(error, ValueError):
                raise InvalidArguments("The arguments are larger than the peer accepts.") from None
            raise
        return pending

    def on_message(self, text: str | bytes) -> None:
        """Pass a message of the peer to its call; drop one that belongs to no call."""
        try:
            message = orjson.loads(text)
        except orjson.JSONDecodeError:
            return
        call_id = message.get("id") if isinstance(message, dict) else None
        pending = self._calls.get(call_id) if isinstance(call_id, str) else None
        if pending is not None:
            pending.on_message(text, last="event" not in message)

    def on_lost(self, error: GatewayError) -> None:
        """End all calls on the channel with `error`."""
        for pending in list(self._calls.values()):
            pending.fail(error)

    def remove(self, pending: PendingCall, *, notify_peer: bool) -> None:
        """Remove a call from the channel; with `notify_peer` send a cancellation."""
        if self._calls.pop(pending.id, None) is None:
            return
        self.idle_since = asyncio.get_running_loop().time()
        if not self._calls:
            self.exclusive = False
        if notify_peer and self.is_usable:
            self.peer.send_text(exact_json.dumps({"id": pending.id, "type": "cancel"}).decode())


@dataclass(slots=True, eq=False)
class _PeerPool:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    channels: list[PeerChannel] = field(default_factory=list)


class ChannelPool:
    """The pool of open channels by key. Use it in one event loop, and `aclose()` it there.

    A call that takes events has a channel of its own, because a client that reads them slowly closes the
    receive window of the whole connection; other calls share one.
    """

    def __init__(self) -> None:
        self._pools: OrderedDict[bytes, _PeerPool] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep_timer: asyncio.TimerHandle | None = None

    async def send(
        self,
        key: bytes,
        message: dict[str, Any],
        *,
        connect: Callable[[PeerChannel], Awaitable[Any]],
        exclusive: bool,
        deadline: float,
    ) -> PendingCall:
        """Send a request on a pooled channel, or on a new one that `connect` opens; raise what both raise."""
        pool = self._pools.setdefault(key, _PeerPool())
        self._pools.move_to_end(key)
        if self._sweep_timer is None:
            self._sweep_timer = asyncio.get_running_loop().call_later(_IDLE_SECONDS / 2, self._close_idle)
        channel = self._free_channel(pool, exclusive=exclusive)
        if channel is None:
            try:
                with Deadline(get_timer_queue(), deadline):
                    await pool.lock.acquire()
            except TimeoutError:
                raise UpstreamTimeout(
                    "No connection to the peer was made in time.", request_sent=False
                ) from None
            try:
                channel = self._free_channel(pool, exclusive=exclusive) or await self._open(pool, connect)
            finally:
                pool.lock.release()
        channel.exclusive = exclusive
        return await channel.send(message, deadline=deadline)

    def __len__(self) -> int:
        """Return the number of open channels."""
        return sum(len(pool.channels) for pool in self._pools.values())

    async def aclose(self) -> None:
        """Close all channels, which fails their calls."""
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        for pool in self._pools.values():
            for channel in pool.channels:
                channel.on_lost(UpstreamUnreachable("The gateway is stopping."))
                self._close(channel)
        self._pools.clear()
        while self._closing:
            await asyncio.wait(self._closing)

    def _free_channel(self, pool: _PeerPool, *, exclusive: bool) -> PeerChannel | None:
        for channel in [one for one in pool.channels if not one.is_usable]:
            pool.channels.remove(channel)
            self._close(channel)
        for channel in pool.channels:
            if not channel.exclusive and not (exclusive and channel.is_busy):
                return channel
        return None

    async def _open(self, pool: _PeerPool, connect: Callable[[PeerChannel], Awaitable[Any]]) -> PeerChannel:
        if len(pool.channels) >= _MAX_CHANNELS_OF_PEER:
            raise UpstreamUnreachable("Too many streams of the peer are in progress.", request_sent=False)
        if len(self) >= _MAX_CHANNELS:
            self._evict_idle_channel()
        channel = PeerChannel()
        await connect(channel)
        channel.idle_since = asyncio.get_running_loop().time()
        pool.channels.append(channel)
        return channel

    def _evict_idle_channel(self) -> None:
        for pool in self._pools.values():
            for channel in pool.channels:
                if not channel.is_busy:
                    pool.channels.remove(channel)
                    self._close(channel)
                    return
        raise UpstreamUnreachable("Too many peers are connected already.", request_sent=False)

    def _close_idle(self) -> None:
        loop = asyncio.get_running_loop()
        for key, pool in list(self._pools.items()):
            for channel in list(pool.channels):
                if not channel.is_usable or (
                    not channel.is_busy and channel.idle_since < loop.time() - _IDLE_SECONDS
                ):
                    pool.channels.remove(channel)
                    self._close(channel)
            if not pool.channels and not pool.lock.locked():
                del self._pools[key]
        self._sweep_timer = loop.call_later(_IDLE_SECONDS / 2, self._close_idle) if self._pools else None

    def abandon(self, channel: PeerChannel, peer: Any) -> None:
        """Close a channel that could not be opened."""
        channel.peer = peer
        self._close(channel)

    def _close(self, channel: PeerChannel) -> None:
        ending = [channel.peer.close()]
        if channel.on_close is not None:
            ending.append(asyncio.get_running_loop().create_task(channel.on_close()))
            channel.on_close = None
        for task in ending:
            if not task.done():
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
