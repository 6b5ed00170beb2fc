"""Every migration leads up and down again, and the newest tables are those of the models."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from sqlalchemy.ext.asyncio import create_async_engine
from sqlmodel import SQLModel

import app.models
from app.database import sqlalchemy_url
from tests.harness.servers import Pair

FOLDER = Path(app.models.__file__).parents[2] / "migrations"


async def migrated(dsn: str, step: Any) -> Any:
    engine = create_async_engine(sqlalchemy_url(dsn))

    def run(connection: Any) -> Any:
        config = Config()
        config.set_main_option("script_location", str(FOLDER))
        config.attributes["connection"] = connection
        return step(config, connection)

    async with engine.connect() as connection:
        found = await connection.run_sync(run)
        await connection.commit()
    await engine.dispose()
    return found


def differences(_config: Config, connection: Any) -> list[Any]:
    def ours(_object: Any, name: str | None, kind: str, *_rest: Any) -> bool:
        return not (
            kind == "table" and name is not None and (name.startswith("calls_") or name == "alembic_version")
        )

    context = MigrationContext.configure(connection, opts={"include_object": ours, "compare_type": True})
    return list(compare_metadata(context, SQLModel.metadata))


@pytest.mark.parametrize("target", ["0001", "0002", "0003"])
async def test_down_to_each_and_up_again(servers: Pair, target: str) -> None:
    dsn = await asyncio.to_thread(servers.create_database)
    try:
        await migrated(dsn, lambda config, _: command.downgrade(config, target))
        await migrated(dsn, lambda config, _: command.upgrade(config, "head"))
        assert await migrated(dsn, differences) == []
    finally:
        await asyncio.to_thread(servers.drop_database, dsn)
