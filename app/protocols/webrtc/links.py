"""Calls on a data channel, matched by their ids, and the pool of such channels."""

import asyncio
import secrets
from collections import OrderedDict, deque
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any, Final

import orjson

from app.deadlines import Bound, timers
from app.errors import GatewayError, InvalidArguments, UpstreamTimeout, UpstreamUnreachable, again

_IDLE_SECONDS: Final = 60.0
_MOST_LINKS: Final = 64
_MOST_OF_A_LANE: Final = 16
_OVERHEAD: Final = 128


class Asked:
    """One call on a link. `close` it; that may be done again, and tells the peer if it has not ended."""

    def __init__(self, link: "Link", number: str) -> None:
        self._link = link
        self.id = number
        self._waiting: deque[str | bytes] = deque()
        self._error: GatewayError | None = None
        self._arrived = asyncio.Event()
        self._ended = False

    async def next(self, *, by: float) -> tuple[dict[str, Any], int]:
        """The next message and its bytes. Raises UpstreamTimeout, and what ended the link."""
        try:
            with Bound(timers(), by):
                while not self._waiting:
                    if self._error is not None:
                        raise again(self._error)
                    self._arrived.clear()
                    await self._arrived.wait()
        except TimeoutError:
            raise UpstreamTimeout("The peer did not answer in time.") from None
        text = self._waiting.popleft()
        self._link.peer.release(len(text) + _OVERHEAD)
        return orjson.loads(text), len(text)

    def heard(self, text: str | bytes, *, last: bool) -> None:
        """A message of the peer for this call; it is kept as text, which is smaller than its values."""
        self._ended = last
        self._waiting.append(text)
        self._link.peer.hold(len(text) + _OVERHEAD)
        self._arrived.set()

    def failed(self, error: GatewayError) -> None:
        """The link ended."""
        self._error = error
        self._arrived.set()

    def close(self) -> None:
        """Nobody waits for it any more."""
        self._link.left(self, tell=not self._ended and self._error is None)
        while self._waiting:
            self._link.peer.release(len(self._waiting.popleft()) + _OVERHEAD)


class Link:
    """A peer's channel with the calls on it."""

    def __init__(self) -> None:
        self.peer: Any = None
        self.exclusive = False
        self.since = 0.0
        self.farewell: Callable[[], Coroutine[Any, Any, None]] | None = None
        """What is done when it has ended."""
        self._calls: dict[str, Asked] = {}

    @property
    def busy(self) -> bool:
        return bool(self._calls)

    @property
    def usable(self) -> bool:
        return self.peer is not None and bool(self.peer.usable)

    async def ask(self, message: dict[str, Any], *, by: float) -> Asked:
        """Send a request. Raises InvalidArguments for one that is too long, and what sending raises."""
        asked = Asked(self, secrets.token_urlsafe(12))
        self._calls[asked.id] = asked
        try:
            text = orjson.dumps({"id": asked.id, **message}).decode()
            await self.peer.send(text, by=by)
        except BaseException as error:
            asked.failed(UpstreamUnreachable("It was not sent.", sent=False))
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

    def left(self, asked: Asked, *, tell: bool) -> None:
        """The call is over for us; `tell` the peer."""
        if self._calls.pop(asked.id, None) is None:
            return
        self.since = asyncio.get_running_loop().time()
        if not self._calls:
            self.exclusive = False
        if tell and self.usable:
            self.peer.tell(orjson.dumps({"id": asked.id, "type": "cancel"}).decode())


@dataclass(slots=True, eq=False)
class _Lane:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    links: list[Link] = field(default_factory=list)


class Links:
    """Open links by key; use it in one event loop, and `aclose()` it there.

    A call that takes events has a link for itself, because a caller that takes them slowly shuts the window
    of the whole connection; other calls share one.
    """

    def __init__(self) -> None:
        self._lanes: OrderedDict[bytes, _Lane] = OrderedDict()
        self._closing: set[asyncio.Task[None]] = set()
        self._sweep: asyncio.TimerHandle | None = None

    async def ask(
        self,
        key: bytes,
        message: dict[str, Any],
        *,
        connect: Callable[[Link], Awaitable[Any]],
        exclusive: bool,
        by: float,
    ) -> Asked:
        """Send a request on a link, which `connect` makes where there is none. Raises what both raise."""
        lane = self._lanes.setdefault(key, _Lane())
        self._lanes.move_to_end(key)
        if self._sweep is None:
            self._sweep = asyncio.get_running_loop().call_later(_IDLE_SECONDS / 2, self._swept)
        link = self._free(lane, exclusive=exclusive)
        if link is None:
            try:
                with Bound(timers(), by):
                    await lane.lock.acquire()
            except TimeoutError:
                raise UpstreamTimeout("No connection to the peer was made in time.", sent=False) from None
            try:
                link = self._free(lane, exclusive=exclusive) or await self._opened(lane, connect)
            finally:
                lane.lock.release()
        link.exclusive = exclusive
        return await link.ask(message, by=by)

    def __len__(self) -> int:
        """How many are open."""
        return sum(len(lane.links) for lane in self._lanes.values())

    async def aclose(self) -> None:
        """Close all of them, which fails their calls."""
        if self._sweep is not None:
            self._sweep.cancel()
        for lane in self._lanes.values():
            for link in lane.links:
                link.lost(UpstreamUnreachable("The gateway is stopping."))
                self._close(link)
        self._lanes.clear()
        while self._closing:
            await asyncio.wait(self._closing)

    def _free(self, lane: _Lane, *, exclusive: bool) -> Link | None:
        for link in [one for one in lane.links if not one.usable]:
            lane.links.remove(link)
            self._close(link)
        for link in lane.links:
            if not link.exclusive and not (exclusive and link.busy):
                return link
        return None

    async def _opened(self, lane: _Lane, connect: Callable[[Link], Awaitable[Any]]) -> Link:
        if len(lane.links) >= _MOST_OF_A_LANE:
            raise UpstreamUnreachable("Too many streams of the peer are under way.", sent=False)
        if len(self) >= _MOST_LINKS:
            self._make_room()
        link = Link()
        await connect(link)
        link.since = asyncio.get_running_loop().time()
        lane.links.append(link)
        return link

    def _make_room(self) -> None:
        for lane in self._lanes.values():
            for link in lane.links:
                if not link.busy:
                    lane.links.remove(link)
                    self._close(link)
                    return
        raise UpstreamUnreachable("Too many peers are connected already.", sent=False)

    def _swept(self) -> None:
        loop = asyncio.get_running_loop()
        for key, lane in list(self._lanes.items()):
            for link in list(lane.links):
                if not link.usable or (not link.busy and link.since < loop.time() - _IDLE_SECONDS):
                    lane.links.remove(link)
                    self._close(link)
            if not lane.links and not lane.lock.locked():
                del self._lanes[key]
        self._sweep = loop.call_later(_IDLE_SECONDS / 2, self._swept) if self._lanes else None

    def abandon(self, link: Link, peer: Any) -> None:
        """Close a link that did not come to be."""
        link.peer = peer
        self._close(link)

    def _close(self, link: Link) -> None:
        ending = [link.peer.close()]
        if link.farewell is not None:
            ending.append(asyncio.get_running_loop().create_task(link.farewell()))
            link.farewell = None
        for task in ending:
            if not task.done():
                self._closing.add(task)
                task.add_done_callback(self._closing.discard)
