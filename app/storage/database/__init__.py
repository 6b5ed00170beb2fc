"""PostgreSQL: the connection pool, its sessions, and the classification of errors."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, TypeVar

import orjson
from asyncpg.exceptions import InterfaceError as AsyncpgInterfaceError
from asyncpg.exceptions import InternalClientError, PostgresError
from sqlalchemy import event
from sqlalchemy.exc import (
    DBAPIError,
    DisconnectionError,
    InterfaceError,
    InvalidRequestError,
    OperationalError,
)
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine
from sqlalchemy.pool import QueuePool

from app.core import exact_json
from app.core.errors import Overloaded, Unavailable
from app.storage.database.dsn import asyncpg_dsn, check_dsn, sqlalchemy_url
from app.storage.database.probe import DatabaseProbe
from app.storage.database.schema import (
    MigrationPlan,
    SchemaError,
    migrate,
    migration_plan,
    schema_state,
)

__all__ = [
    "Database",
    "DatabasePoolExhausted",
    "MigrationPlan",
    "SchemaError",
    "asyncpg_dsn",
    "check_dsn",
    "is_row_error",
    "is_unavailable",
    "json_text",
    "migrate",
    "migration_plan",
    "schema_state",
    "sqlalchemy_url",
    "store_valid_rows",
]

_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_Row = TypeVar("_Row")
_Result = TypeVar("_Result")

# Together with the probe less than a second, after which a request is rejected if PostgreSQL is unavailable.
_CONNECT_WAIT_SECONDS = 0.2
_CHECK_SECONDS = 1.0
# SQLSTATE classes: connection exceptions; sessions ended by an operator, a crash or a restart of the server.
_CONNECTION_LOST_STATES = ("08", "57P")
_TOO_MANY_CONNECTIONS = "53300"


def json_text(value: Any) -> str:
    """Return a jsonb value as JSON; orjson takes a tenth of the standard library's time."""
    try:
        return exact_json.dump_strictly(value).decode()
    except TypeError:
        # Integers beyond 64 bits, and texts with lone surrogates, which PostgreSQL rejects.
        return json.dumps(value)


def is_unavailable(error: BaseException) -> bool:
    """Return whether an error means that PostgreSQL is unavailable.

    False for an error of a statement, and for a timeout of the pool, all of whose connections are in use.
    """
    if isinstance(error, PoolTimeout):
        return False
    if isinstance(error, OSError | TimeoutError):
        return True
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return _is_lost(error)


def _is_lost(error: BaseException) -> bool:
    """Return whether a connection was lost while it was used or opened; another one may work."""
    if not isinstance(error, DBAPIError):
        return False
    return error.connection_invalidated or _sqlstate(error).startswith(_CONNECTION_LOST_STATES)


def _sqlstate(error: BaseException) -> str:
    """Return the SQLSTATE of an error of PostgreSQL, "None" for another error."""
    return str(getattr(getattr(error, "orig", None), "sqlstate", None))


class DatabasePoolExhausted(Overloaded):
    """All connections of this process were in use for too long, or PostgreSQL accepts no more of them."""

    def __init__(self) -> None:
        super().__init__("All connections to the database are in use; try again.")


class _ConnectionLost(Unavailable):
    """`Unavailable` because of a lost connection; the server may be available."""


def is_row_error(error: DBAPIError) -> bool:
    """Return whether a value was rejected: SQLSTATE classes 22 (data) and 54 (limits), or asyncpg could not
    encode it.
    """
    if is_unavailable(error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state is None or str(state).startswith(("22", "54"))


async def store_valid_rows(
    session: AsyncSession, rows: Sequence[_Row], store: Callable[[Sequence[_Row]], Awaitable[None]]
) -> list[_Row]:
    """Store rows by `store`, except those that PostgreSQL rejects because of a value; return the rejected
    rows.

    Each attempt is a savepoint; a rejected batch is halved until single rows remain. Raise any DBAPIError
    that is not due to a value.
    """
    if not rows:
        return []
    try:
        async with session.begin_nested():
            await store(rows)
    except DBAPIError as error:
        if not is_row_error(error):
            raise
        if len(rows) == 1:
            return [*rows]
        half = len(rows) // 2
        first = await store_valid_rows(session, rows[:half], store)
        return first + await store_valid_rows(session, rows[half:], store)
    return []


@dataclass(slots=True)
class Database:
    """The connection pool of a worker; `dsn` is a PostgreSQL URL. Sessions are opened by its methods only.

    They raise Unavailable within a second where PostgreSQL cannot be reached or does not respond. While it is
    available, a connection of an exhausted pool is waited for up to `pool_timeout` seconds, and then
    DatabasePoolExhausted is raised.
    """

    dsn: str
    pool_size: int = 10
    pool_timeout: float = 5
    engine: AsyncEngine = field(init=False)
    _sessions: async_sessionmaker[AsyncSession] = field(init=False)
    _autocommit_sessions: async_sessionmaker[AsyncSession] = field(init=False)
    _probe: DatabaseProbe = field(init=False)
    _has_connected: bool = field(init=False, default=False)
    _closing: set[asyncio.Task[None]] = field(init=False, default_factory=set)

    def __post_init__(self) -> None:
        connect: dict[str, Any] = {
            "timeout": 3,
            "command_timeout": 30,
            "server_settings": {"application_name": "utcp-gateway", "statement_timeout": "30000"},
        }
        self.engine = create_async_engine(
            sqlalchemy_url(self.dsn),
            pool_size=self.pool_size,
            max_overflow=0,
            pool_timeout=self.pool_timeout,
            hide_parameters=True,
            connect_args=connect,
            json_serializer=json_text,
            json_deserializer=orjson.loads,
        )
        event.listen(self.engine.sync_engine, "checkout", _check_connection)
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)
        autocommit = self.engine.execution_options(isolation_level="AUTOCOMMIT")
        self._autocommit_sessions = async_sessionmaker(autocommit, expire_on_commit=False)
        self._probe = DatabaseProbe(self.dsn)

    def read_session(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Return a session that is rolled back at the end, as a context manager: for reads."""
        return self._session(self._sessions)

    def autocommit_session(self) -> AbstractAsyncContextManager[AsyncSession]:
        """Return a session in autocommit mode, as a context manager: each statement is one round trip."""
        return self._session(self._autocommit_sessions)

    @asynccontextmanager
    async def _session(self, sessions: async_sessionmaker[AsyncSession]) -> AsyncIterator[AsyncSession]:
        try:
            session = await self._open_session(sessions)
            try:
                yield session
            finally:
                await asyncio.shield(session.close())
        except PoolTimeout:
            raise DatabasePoolExhausted from None
        except (DBAPIError, OSError, TimeoutError) as error:
            if _sqlstate(error) == _TOO_MANY_CONNECTIONS:
                raise DatabasePoolExhausted from None
            if is_unavailable(error):
                raise _unavailable(lost=_is_lost(error)) from None
            raise

    async def read(
        self, work: Callable[[AsyncSession], Awaitable[_Result]], *, autocommit: bool = False
    ) -> _Result:
        """Return the result of `work`; retry it once on another connection where the first one was lost.

        A server may end its sessions and remain available (a failover, a pooler, an operator). `work` must
        have no effects; with `autocommit`, its statements are transactions of their own, which saves two
        round trips. Raise what `read_session` raises.
        """
        sessions = self._autocommit_sessions if autocommit else self._sessions
        with contextlib.suppress(_ConnectionLost):
            async with self._session(sessions) as session:
                return await work(session)
        async with self._session(sessions) as session:
            return await work(session)

    async def responds(self) -> bool:
        """Return whether PostgreSQL responds on a connection outside the pool; concurrent calls share a
        probe.
        """
        return not self._probe.is_unavailable and await self._probe.responds()

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[AsyncSession]:
        """Open a session with one transaction: committed when the block ends, rolled back when it raises."""
        async with self.read_session() as session:
            yield session
            await session.commit()

    async def store_noted(
        self,
        noted: dict[_Key, _Value],
        store: Callable[[AsyncSession, Mapping[_Key, _Value]], Awaitable[None]],
    ) -> None:
        """Store what was noted in memory by key, e.g. times of last use, in one transaction, and empty it.

        After an error it has it again, for the next time, but for what has been noted anew meanwhile. Raises
        what the transaction and `store` raise.
        """
        if not noted:
            return
        taken = dict(noted)
        noted.clear()
        stored = False
        try:
            async with self.transaction() as session:
                await store(session, taken)
            stored = True
        finally:
            if not stored:
                for key, value in taken.items():
                    noted.setdefault(key, value)

    def connection_counts(self) -> tuple[int, int]:
        """Return the numbers of connections in use and of idle ones."""
        pool = self.engine.pool
        assert isinstance(pool, QueuePool)  # noqa: S101 - the kind that create_async_engine makes.
        return pool.checkedout(), pool.checkedin()

    async def aclose(self) -> None:
        """Close all connections of the pool and the probe."""
        await self._probe.aclose()
        await self.engine.dispose()

    async def _open_session(self, sessions: async_sessionmaker[AsyncSession]) -> AsyncSession:
        """Return a session with a working connection; where that takes long, probe PostgreSQL meanwhile."""
        if self._probe.is_unavailable:
            raise _unavailable()
        session = sessions()
        connecting = asyncio.create_task(session.connection(), name="database-connection")
        try:
            # The first connection of a process may take longer: no request waits for it yet.
            timeout = _CONNECT_WAIT_SECONDS if self._has_connected else None
            while not (await asyncio.wait((connecting,), timeout=timeout))[0]:
                if not await self._probe.responds():
                    break
        except asyncio.CancelledError:
            self._close_later(session, connecting)
            raise
        if connecting.done() and connecting.exception() is None:
            self._has_connected = True
            return session
        self._close_later(session, connecting)
        # InvalidRequestError: a new connection was lost, too, before it could be used.
        if not connecting.done():
            raise _unavailable()
        if isinstance(connecting.exception(), InvalidRequestError):
            raise _unavailable(lost=True)
        connecting.result()
        return session

    def _close_later(self, session: AsyncSession, connecting: "asyncio.Task[Any]") -> None:
        """Close a session in the background once its connection was opened: cancelling that would take as
        long.
        """

        async def close() -> None:
            await asyncio.wait((connecting,))
            if not connecting.cancelled():
                connecting.exception()
            await session.close()

        task = asyncio.create_task(close(), name="database-leave")
        self._closing.add(task)
        task.add_done_callback(self._closing.discard)


def _check_connection(connection: Any, _record: object, _proxy: object) -> None:
    """Check that a connection of the pool still works; raise DisconnectionError to have it replaced.

    This is one round trip with a timeout: SQLAlchemy's own `pool_pre_ping` takes three, with the timeout of a
    statement.
    """
    try:
        connection.run_async(lambda driver: driver.execute("SELECT 1", timeout=_CHECK_SECONDS))
    # InternalClientError: the connection was closed, and asyncpg's protocol has not yet been notified.
    except (OSError, TimeoutError, PostgresError, AsyncpgInterfaceError, InternalClientError) as error:
        raise DisconnectionError from error


def _unavailable(*, lost: bool = False) -> Unavailable:
    return (_ConnectionLost if lost else Unavailable)("The database cannot be reached.")
