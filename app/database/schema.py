"""The schema: which one a database has, and how it is brought to ours."""

from pathlib import Path
from typing import Literal

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from app.database.dsn import sqlalchemy_url


def _migrations_folder() -> Path:
    """`migrations/` of the checkout, or its copy inside the installed wheel."""
    package = Path(__file__).parents[1]
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


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
