"""Alembic's environment: runs on the connection that `app.storage.database.migrate` passes, or on
DATABASE_URL.
"""

import asyncio
import os

from alembic import context
from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

import app.storage.models  # noqa: F401  (fills the metadata)
from app.storage.database import sqlalchemy_url


def _run(connection: Connection) -> None:
    context.configure(
        connection=connection,
        target_metadata=SQLModel.metadata,
        compare_type=True,
        include_object=_is_managed,
    )
    with context.begin_transaction():
        context.run_migrations()


def _is_managed(_object: object, name: str | None, kind: str, *_rest: object) -> bool:
    """Return whether Alembic manages an object; the partitions of `calls` are created at run time."""
    return not (kind == "table" and name is not None and name.startswith("calls_"))


async def _from_environment() -> None:
    engine = create_async_engine(sqlalchemy_url(os.environ["DATABASE_URL"]))
    async with engine.connect() as connection:
        await connection.run_sync(_run)
        await connection.commit()
    await engine.dispose()


connection = context.config.attributes.get("connection")
if connection is not None:
    _run(connection)
else:
    asyncio.run(_from_environment())
