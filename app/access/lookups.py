"""Reading keys by their ids: many ids with one statement, and ids that exist before those that nobody knows.

    known      waiting --> up to 2 statements at a time, begun at once
    strangers  waiting --> 1 statement at a time, at most 40 a second and 640 ids a second; the rest waits, or
                           is rejected where too many wait already

An id that turns out to exist while it waits among the strangers goes over to the known (`promote`). So that
made-up ids, however many, cost one connection of the pool for a small part of its time.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal, NamedTuple

from sqlalchemy.ext.asyncio import AsyncSession

from app.access.repository import find_keys
from app.background import Watched
from app.database import Database
from app.errors import GatewayError, Overloaded, Unavailable, again
from app.models import Key

Lane = Literal["known", "stranger"]

_KNOWN_STATEMENTS: Final = 2
_KNOWN_IDS: Final = 256
_STRANGER_IDS: Final = 64
_STRANGER_PAUSE_SECONDS: Final = 0.025
_STRANGER_SECONDS: Final = 0.1 / _STRANGER_IDS
# At 640 a second the last one waits for two and a half seconds.
_MAX_STRANGERS: Final = 1_600
# A statement that was sent is waited for so long before PostgreSQL is asked beside it, and then so long.
_SILENCE_SECONDS: Final = 1.0
_SLOW_SECONDS: Final = 2.0
# A timer that is later than this says that this process had no time to read the response.
_LATE_SECONDS: Final = 0.1


class Found(NamedTuple):
    """What a statement said of an id: its row, if there is one, and when it was sent (monotonic)."""

    row: Key | None
    read_at: float


class LookupTimeout(Overloaded):
    """A look-up was not made, or not finished, in time, which says nothing about PostgreSQL."""

    def __init__(self) -> None:
        super().__init__("The API key could not be looked up in time; try again.")


_Waiting = OrderedDict[str, "asyncio.Future[Found]"]
_Read = Callable[[Sequence[str]], Awaitable[dict[str, Found]]]


class _Queue:
    """Ids that wait, and the tasks that take so many of them at a time, in the order of their coming."""

    def __init__(self, read: _Read, *, name: str, statements: int, ids: int, paced: bool) -> None:
        self.waiting: _Waiting = OrderedDict()
        self.statements = 0
        """Statements since the start."""
        self._read = read
        self._name = name
        self._max_statements = statements
        self._max_ids = ids
        self._paced = paced
        self._next_at = 0.0
        self._running: set[asyncio.Task[None]] = set()

    def add(self, key_id: str, future: "asyncio.Future[Found]") -> None:
        """Read an id as soon as there is room for it; who waits for it already gets the same result."""
        earlier = self.waiting.get(key_id)
        if earlier is not None and not earlier.done():
            future.add_done_callback(lambda done: _pass_on(done, earlier))
        self.waiting[key_id] = future
        if len(self._running) < self._max_statements:
            self._running.add(asyncio.create_task(self._run(), name=self._name))

    async def aclose(self) -> None:
        """End the statements under way, and with them what waits."""
        running = list(self._running)
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        for future in self.waiting.values():
            future.cancel()
        self.waiting.clear()

    async def _run(self) -> None:
        try:
            while self.waiting:
                pause = self._next_at - time.monotonic()
                if pause > 0:
                    await asyncio.sleep(pause)
                batch = self._take()
                if batch:
                    if self._paced:
                        share = max(_STRANGER_PAUSE_SECONDS, _STRANGER_SECONDS * len(batch))
                        self._next_at = time.monotonic() + share
                    await self._answer(batch)
        finally:
            # At once: whoever adds an id now must not count on this task.
            task = asyncio.current_task()
            if task is not None:
                self._running.discard(task)

    def _take(self) -> _Waiting:
        batch: _Waiting = OrderedDict()
        while self.waiting and len(batch) < self._max_ids:
            key_id, future = self.waiting.popitem(last=False)
            if not future.done():
                batch[key_id] = future
        return batch

    async def _answer(self, batch: _Waiting) -> None:
        self.statements += 1
        try:
            found = await self._read([*batch])
        except Exception as error:  # noqa: BLE001 - it is for those who wait, who know what to do.
            for future in batch.values():
                if not future.done():
                    future.set_exception(again(error) if isinstance(error, GatewayError) else error)
        else:
            for key_id, future in batch.items():
                if not future.done():
                    future.set_result(found[key_id])
        finally:
            for future in batch.values():
                future.cancel()


class KeyLookups:
    """The look-ups of a worker. `asked` counts ids by lane, `rejected` strangers for whom there was no room;
    both since the start.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._queues: dict[Lane, _Queue] = {
            "known": _Queue(
                self._select, name="key-lookup", statements=_KNOWN_STATEMENTS, ids=_KNOWN_IDS, paced=False
            ),
            "stranger": _Queue(
                self._select, name="stranger-lookup", statements=1, ids=_STRANGER_IDS, paced=True
            ),
        }
        self._left = Watched()
        self.asked: dict[Lane, int] = {"known": 0, "stranger": 0}
        self.rejected = 0

    def statements(self) -> dict[Lane, int]:
        """Statements by lane, since the start."""
        return {lane: queue.statements for lane, queue in self._queues.items()}

    def waiting(self) -> dict[Lane, int]:
        """Ids that wait for a statement, by lane."""
        return {lane: len(queue.waiting) for lane, queue in self._queues.items()}

    async def find(self, key_id: str, lane: Lane, *, seconds: float) -> Found:
        """Return the row of an id, or that there is none; it may be asked for again while it is read.

        Raises `Unavailable` where PostgreSQL is away: because it could not be connected to, a connection was
        lost twice, or a statement that was really sent had no response. Raises `LookupTimeout` after
        `seconds`, or when no stranger may wait any more, and `PoolBusy`; neither says anything about
        PostgreSQL.
        """
        queue = self._queues[lane]
        if lane == "stranger" and len(queue.waiting) >= _MAX_STRANGERS:
            self.rejected += 1
            raise LookupTimeout
        self.asked[lane] += 1
        future: asyncio.Future[Found] = asyncio.get_running_loop().create_future()
        queue.add(key_id, future)
        try:
            await asyncio.wait((future,), timeout=seconds)
            if not future.done():
                raise LookupTimeout
            return future.result()
        finally:
            if not future.done():
                future.cancel()
            elif not future.cancelled():
                # Whoever waited may have left.
                future.exception()
            for one in self._queues.values():
                if one.waiting.get(key_id) is future:
                    del one.waiting[key_id]

    def promote(self, key_id: str) -> None:
        """Let an id that waits among the strangers go before them."""
        future = self._queues["stranger"].waiting.pop(key_id, None)
        if future is not None:
            self._queues["known"].add(key_id, future)

    async def aclose(self) -> None:
        """End what is under way."""
        for queue in self._queues.values():
            await queue.aclose()
        await self._left.aclose(seconds=0)

    async def _select(self, key_ids: Sequence[str]) -> dict[str, Found]:
        sent: asyncio.Future[float] = asyncio.get_running_loop().create_future()

        async def work(session: AsyncSession) -> dict[str, Key]:
            if not sent.done():
                sent.set_result(time.monotonic())
            return await find_keys(session, key_ids)

        reading = asyncio.create_task(self._database.read(work, autocommit=True), name="key-statement")
        try:
            # Until there is a connection, the wait may be for the pool: `Database` tells that apart.
            await asyncio.wait((reading, sent), return_when=asyncio.FIRST_COMPLETED)
            await self._answered(reading)
            rows = reading.result()
        finally:
            if not reading.done():
                # Closing the connection of a silent server may take longer than anybody should wait.
                reading.cancel()
                self._left.add(reading)
            sent.cancel()
        read_at = sent.result()
        return {key_id: Found(rows.get(key_id), read_at) for key_id in key_ids}

    async def _answered(self, reading: "asyncio.Task[dict[str, Key]]") -> None:
        """Wait until a statement that was sent has its response, or it is clear that none will come."""
        if not reading.done():
            await asyncio.wait((reading,), timeout=_SILENCE_SECONDS)
        if reading.done():
            return
        if not await self._database.answers() and not reading.done():
            raise _silent()
        until = time.monotonic() + _SLOW_SECONDS
        if (await asyncio.wait((reading,), timeout=_SLOW_SECONDS))[0]:
            return
        if time.monotonic() > until + _LATE_SECONDS:
            raise LookupTimeout
        raise _silent()


def _pass_on(done: "asyncio.Future[Found]", earlier: "asyncio.Future[Found]") -> None:
    if earlier.done():
        return
    if done.cancelled():
        earlier.cancel()
        return
    error = done.exception()
    if error is None:
        earlier.set_result(done.result())
    else:
        earlier.set_exception(again(error) if isinstance(error, GatewayError) else error)


def _silent() -> Unavailable:
    return Unavailable("The database does not respond.")
