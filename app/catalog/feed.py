"""The change feed: tells a worker what other workers have written.

Each writing transaction ends with `record_change`, which takes the change's number from one locked row: a
higher number never becomes visible before a lower one, so that `seq > last` misses nothing. NOTIFY only wakes
the readers; a poll every few seconds is the fallback, and comparing the number of rows with the counter shows
whether rows were pruned.
"""

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from uuid import UUID

import asyncpg
import structlog
from asyncpg.exceptions import InterfaceError, PostgresError
from sqlalchemy import text
from sqlalchemy.ext.asyncio import AsyncSession

from app.core.background import cancel_tasks
from app.core.errors import Unavailable
from app.storage.database import Database, asyncpg_dsn
from app.storage.models import TENANT

ChangeKind = Literal[
    "provider",
    "tool",
    "credential",
    "variable",
    "key",
    "toolset",
    "import",
    "recording",
    "search-words",
    "search-usage",
    "session",
]
CHANNEL = "utcp_gateway_changes"

# Beyond this many changes it is cheaper to invalidate everything than to process each.
_MAX_CHANGES = 5_000
_PRUNE_SECONDS = 3_600
_MAX_BACKOFF = 30.0
_REPLY_TIMEOUT = 5.0

_RECORD = text(
    "WITH counter AS ("
    " INSERT INTO change_counter (id, last) VALUES (1, 1)"
    " ON CONFLICT (id) DO UPDATE SET last = change_counter.last + 1 RETURNING last"
    "), change AS ("
    " INSERT INTO changes (seq, tenant_id, kind, provider_id, object_id, at)"
    " SELECT last, :tenant, :kind, :provider, :object, clock_timestamp() FROM counter RETURNING seq"
    ") SELECT seq, pg_notify('utcp_gateway_changes', '') FROM change"
)
_POSITION = text("SELECT coalesce(max(last), 0) FROM change_counter")
_SINCE = text(
    "SELECT counter.last, changes.seq, changes.kind, changes.provider_id, changes.object_id"
    " FROM change_counter counter LEFT JOIN changes ON changes.seq > :last"
    " ORDER BY changes.seq LIMIT :limit"
)
_PRUNE = text("DELETE FROM changes WHERE at < now() - interval '1 day'")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ChangeNotice:
    """A notice that something was written.

    `object_id` is the id of the tool, credential, API key, import, synonyms or pinned results, or the name
    of the variable, toolset or recording; of the kind `session`, the id of the session, or that of the API
    key some of whose sessions have ended; "" for `search-usage`, of which some was deleted. The kind `all`
    means that changes were missed, and that everything must be read again. `seq` is the number of the change.
    """

    kind: ChangeKind | Literal["all"]
    provider_id: UUID | None = None
    object_id: str = ""
    seq: int = 0

    @property
    def tool_id(self) -> UUID | None:
        """The id of the tool that was written; None for a change of anything else."""
        if self.kind != "tool" or not self.object_id:
            return None
        try:
            return UUID(self.object_id)
        except ValueError:
            return None


Subscriber = Callable[[list[ChangeNotice]], Awaitable[None]]


async def record_change(
    session: AsyncSession, *, kind: ChangeKind, provider_id: UUID | None = None, object_id: str = ""
) -> int:
    """Store a change in the session's transaction and return its number.

    It must be the last statement: it takes a lock that every other writer waits for until the commit.
    """
    result = await session.execute(
        _RECORD, {"tenant": TENANT, "kind": kind, "provider": provider_id, "object": object_id}
    )
    return int(result.scalar_one())


class ChangeFeed:
    """Delivers changes to its subscribers in order, each at least once.

    `listen_dsn` is a DSN that does not go through a transaction pooler; None turns LISTEN off and leaves only
    the poll, every `poll_seconds`. After `silence_seconds` without a notification the listening connection is
    checked.
    """

    def __init__(
        self,
        database: Database,
        *,
        listen_dsn: str | None,
        poll_seconds: float = 3.0,
        silence_seconds: float = 15.0,
    ) -> None:
        self._database = database
        self._listen_dsn = listen_dsn
        self._poll_seconds = poll_seconds
        self._silence_seconds = silence_seconds
        self._subscribers: list[Subscriber] = []
        self._lagging: set[Subscriber] = set()
        self._last = -1
        self._read_at = time.monotonic()
        self._lock = asyncio.Lock()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def position(self) -> int:
        """The number of the last change that was delivered."""
        return self._last

    def lag_seconds(self) -> float:
        """Return the seconds since the changes were last read; a working feed reads them at every poll."""
        return time.monotonic() - self._read_at

    def subscribe(self, subscriber: Subscriber) -> None:
        """Call `subscriber` with each list of changes. One that raises gets a change of kind `all` at the
        next poll.
        """
        self._subscribers.append(subscriber)

    async def start(self) -> None:
        """Take the current position and begin to listen. Subscribers must read what they cache after this
        call.
        """
        async with self._database.read_session() as session:
            self._last = int((await session.execute(_POSITION)).scalar_one())
        self._tasks = [asyncio.create_task(self._poll(), name="change-feed-poll")]
        if self._listen_dsn is not None:
            self._tasks.append(asyncio.create_task(self._listen(self._listen_dsn), name="change-feed-listen"))

    async def aclose(self) -> None:
        """End the background tasks and the listening connection."""
        await cancel_tasks(self._tasks)

    async def catch_up(self) -> bool:
        """Deliver every change that is committed by now; a service calls this between its commit and its
        response.

        Return False, rather than raise, where the database is unavailable: the commit stands, and the poll
        delivers the changes later.
        """
        try:
            await self._advance()
        except Unavailable:
            _log.warning("the change feed could not be read; the poll will read it")
            return False
        return True

    async def _advance(self) -> None:
        async with self._lock:
            last, changes = await self._read()
            lagging, self._lagging = self._lagging, set()
            for subscriber in self._subscribers:
                delivered = [ChangeNotice("all", seq=last)] if subscriber in lagging else changes
                if delivered:
                    await self._deliver(subscriber, delivered)
            # Only now: a request that is cancelled during the delivery must not lose a change.
            self._last = last
            self._read_at = time.monotonic()

    async def _read(self) -> tuple[int, list[ChangeNotice]]:
        async with self._database.read_session() as session:
            rows: Sequence[Any] = (
                await session.execute(_SINCE, {"last": self._last, "limit": _MAX_CHANGES})
            ).all()
        if not rows:
            return self._last, []
        last = int(rows[0].last)
        changes = [
            ChangeNotice(row.kind, row.provider_id, row.object_id, row.seq)
            for row in rows
            if row.seq is not None
        ]
        # Numbers have no gaps: missing rows were pruned or cut off by the limit, and a lower counter is that
        # of a restored backup.
        if last - self._last != len(changes):
            return last, [ChangeNotice("all", seq=last)]
        return last, changes

    async def _deliver(self, subscriber: Subscriber, changes: list[ChangeNotice]) -> None:
        try:
            await subscriber(changes)
        except Unavailable:
            self._lagging.add(subscriber)
            _log.warning(
                "a subscriber of the change feed could not read the database; it will read everything again"
            )
        except Exception:  # noqa: BLE001 - one subscriber's error must not keep changes from the others.
            self._lagging.add(subscriber)
            _log.exception("a subscriber of the change feed failed; it will read everything again")

    async def _poll(self) -> None:
        loop = asyncio.get_running_loop()
        prune_at = loop.time() + _PRUNE_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._poll_seconds):
                    await self._wake.wait()
            self._wake.clear()
            try:
                await self._advance()
                if loop.time() >= prune_at:
                    prune_at = loop.time() + _PRUNE_SECONDS
                    await self._prune()
            except Unavailable:
                _log.warning("the change feed cannot read the database")
            except Exception:  # noqa: BLE001 - the loop must survive every error.
                _log.exception("the change feed failed")

    async def _prune(self) -> None:
        async with self._database.transaction() as session:
            await session.execute(_PRUNE)

    async def _listen(self, dsn: str) -> None:
        backoff = 0.2
        while True:
            try:
                connection = await asyncpg.connect(asyncpg_dsn(dsn), timeout=5)  # type: ignore[no-untyped-call]
                backoff = 0.2
                await self._wait_for_notifications(connection)
            except (OSError, TimeoutError, PostgresError, InterfaceError) as error:
                _log.warning("the change feed lost its listening connection", error=type(error).__name__)
            await asyncio.sleep(backoff)
            backoff = min(backoff * 2, _MAX_BACKOFF)

    async def _wait_for_notifications(self, connection: Any) -> None:
        """Listen until the connection ends; begin with a poll for what was written before."""
        ended = asyncio.Event()
        reply_timeout = min(_REPLY_TIMEOUT, self._silence_seconds)
        connection.add_termination_listener(lambda _: ended.set())
        try:
            async with asyncio.timeout(reply_timeout):
                await connection.add_listener(CHANNEL, lambda *_: self._wake.set())
            self._wake.set()
            while not ended.is_set():
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(self._silence_seconds):
                        await ended.wait()
                    break
                # Without this check, a connection that a firewall dropped silently would be listened to
                # forever.
                await connection.execute("SELECT 1", timeout=reply_timeout)
        finally:
            # `close` would wait for the server: a dead connection cannot reply, and a stuck one must not
            # delay the shutdown.
            connection.terminate()
