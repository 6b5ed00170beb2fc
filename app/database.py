"""PostgreSQL: the engine, sessions, and the one writing transaction of a control-plane request."""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.exc import DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from sqlalchemy.ext.asyncio import AsyncEngine, AsyncSession, async_sessionmaker, create_async_engine

from app.errors import Unavailable

_ASYNCPG = "postgresql+asyncpg"
_Row = TypeVar("_Row")


def sqlalchemy_url(dsn: str) -> str:
    """Any spelling of a PostgreSQL DSN as SQLAlchemy's asyncpg one (`sslmode` becomes `ssl`)."""
    parts = urlsplit(dsn)
    query = [("ssl" if key == "sslmode" else key, value) for key, value in parse_qsl(parts.query)]
    rest = urlunsplit(("", parts.netloc, parts.path, urlencode(query, safe="/,:"), ""))
    # urlunsplit drops the `//` of an empty authority, which a socket DSN (`postgresql:///db?host=/run`) has.
    return f"{_ASYNCPG}:{rest if rest.startswith('//') else '//' + rest}"


def asyncpg_dsn(dsn: str) -> str:
    """The same server for asyncpg itself (LISTEN needs a bare connection)."""
    return sqlalchemy_url(dsn).replace(_ASYNCPG, "postgresql", 1).replace("ssl=", "sslmode=", 1)


def is_away(error: BaseException) -> bool:
    """Whether an error means that PostgreSQL is not there (as opposed to a wrong statement)."""
    if isinstance(error, PoolTimeout | OSError | TimeoutError):
        return True
    if isinstance(error, OperationalError | InterfaceError):
        return True
    return isinstance(error, DBAPIError) and error.connection_invalidated


def is_about_a_row(error: DBAPIError) -> bool:
    """Whether a value was refused: SQLSTATE classes 22 (data) and 54 (limits), or no encoding."""
    if is_away(error):
        return False
    state = getattr(error.orig, "sqlstate", None)
    return state is None or str(state).startswith(("22", "54"))


async def each_that_can(
    session: AsyncSession, rows: Sequence[_Row], store: Callable[[Sequence[_Row]], Awaitable[None]]
) -> list[_Row]:
    """Stores rows so that one with a value which PostgreSQL refuses loses no other; gives those refused."""
    if not rows:
        return []
    try:
        async with session.begin_nested():
            await store(rows)
    except DBAPIError as error:
        if not is_about_a_row(error):
            raise
        if len(rows) == 1:
            return [*rows]
        half = len(rows) // 2
        first = await each_that_can(session, rows[:half], store)
        return first + await each_that_can(session, rows[half:], store)
    return []


@dataclass(slots=True)
class Database:
    """One pool per worker. `reading()` and `writing()` are the only ways to a session."""

    dsn: str
    pool_size: int = 10
    engine: AsyncEngine = field(init=False)
    _sessions: async_sessionmaker[AsyncSession] = field(init=False)

    def __post_init__(self) -> None:
        connect: dict[str, Any] = {
            "timeout": 5,
            "command_timeout": 30,
            "server_settings": {"application_name": "utcp-gateway", "statement_timeout": "30000"},
        }
        self.engine = create_async_engine(
            sqlalchemy_url(self.dsn),
            pool_size=self.pool_size,
            max_overflow=0,
            pool_timeout=5,
            pool_pre_ping=True,
            hide_parameters=True,
            connect_args=connect,
        )
        self._sessions = async_sessionmaker(self.engine, expire_on_commit=False)

    @asynccontextmanager
    async def reading(self) -> AsyncIterator[AsyncSession]:
        """A session for reads; `Unavailable` when PostgreSQL is away."""
        try:
            async with self._sessions() as session:
                yield session
        except (PoolTimeout, DBAPIError, OSError, TimeoutError) as error:
            if is_away(error):
                raise Unavailable("The database cannot be reached.") from None
            raise

    @asynccontextmanager
    async def writing(self) -> AsyncIterator[AsyncSession]:
        """One transaction: committed when the block ends, rolled back when it raises."""
        async with self.reading() as session, session.begin():
            yield session

    async def aclose(self) -> None:
        """Closes every connection."""
        await self.engine.dispose()


def _migrations_folder() -> Path:
    """`migrations/` of the checkout, or its copy inside the installed wheel."""
    installed = Path(__file__).parent / "_migrations"
    return installed if installed.is_dir() else Path(__file__).parent.parent / "migrations"


def _alembic() -> Config:
    config = Config()
    config.set_main_option("script_location", str(_migrations_folder()).replace("%", "%%"))
    return config


async def schema_state(dsn: str) -> Literal["current", "empty", "older than this version", "unknown"]:
    """How the database's schema compares with this version's migrations."""

    def read(connection: Connection) -> tuple[str, ...]:
        return MigrationContext.configure(connection).get_current_heads()

    engine = create_async_engine(sqlalchemy_url(dsn), hide_parameters=True, connect_args={"timeout": 5})
    try:
        async with engine.connect() as connection:
            heads = await connection.run_sync(read)
    finally:
        await engine.dispose()
    script = ScriptDirectory.from_config(_alembic())
    if set(heads) == set(script.get_heads()):
        return "current"
    if not heads:
        return "empty"
    known = {revision.revision for revision in script.walk_revisions()}
    return "older than this version" if set(heads) <= known else "unknown"


async def migrate(dsn: str, *, revision: str = "head") -> None:
    """Brings the schema to `revision` (`head`, `base` or an id); the whole step is one transaction.

    An advisory lock makes replicas that start together wait for one another.
    """
    config = _alembic()

    def run(connection: Connection) -> None:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7233)")
        config.attributes["connection"] = connection
        if revision == "base":
            command.downgrade(config, revision)
        else:
            command.upgrade(config, revision)

    engine = create_async_engine(sqlalchemy_url(dsn), hide_parameters=True)
    try:
        async with engine.begin() as connection:
            await connection.run_sync(run)
    finally:
        await engine.dispose()
