"""The database schema: its revision, and its migration."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from sqlalchemy import Connection
from sqlalchemy.ext.asyncio import create_async_engine

from app.storage.database.dsn import sqlalchemy_url

# Alembic is imported in the functions below: a worker, which migrates nothing, starts without it.
if TYPE_CHECKING:
    from alembic.config import Config
    from alembic.script import ScriptDirectory


def _migrations_folder() -> Path:
    """Return `migrations/` of the checkout, or its copy inside the installed wheel."""
    package = Path(__file__).parents[2]
    installed = package / "_migrations"
    return installed if installed.is_dir() else package.parent / "migrations"


def _alembic() -> "Config":
    from alembic.config import Config

    config = Config()
    config.set_main_option("script_location", str(_migrations_folder()).replace("%", "%%"))
    return config


def _scripts() -> "ScriptDirectory":
    from alembic.script import ScriptDirectory

    return ScriptDirectory.from_config(_alembic())


def _current_heads(connection: Connection) -> tuple[str, ...]:
    from alembic.runtime.migration import MigrationContext

    return MigrationContext.configure(connection).get_current_heads()


class SchemaError(Exception):
    """The schema cannot be migrated as requested; the text is a sentence for the operator."""


@dataclass(frozen=True, slots=True)
class MigrationPlan:
    """The migrations from one revision to another, None being the empty schema.

    `upgrades` are the upgrades, `downgrades` the downgrades, in their order, each as `0007: What it does.`
    """

    current: str | None
    target: str | None
    upgrades: tuple[str, ...] = ()
    downgrades: tuple[str, ...] = ()


async def schema_state(dsn: str) -> Literal["current", "empty", "older than this version", "unknown"]:
    """Return how the database's schema compares with the migrations of this version."""
    heads = await _heads(dsn)
    script = _scripts()
    if set(heads) == set(script.get_heads()):
        return "current"
    if not heads:
        return "empty"
    known = {revision.revision for revision in script.walk_revisions()}
    return "older than this version" if set(heads) <= known else "unknown"


async def migration_plan(dsn: str, revision: str) -> MigrationPlan:
    """Return what `migrate` to `revision` would do; raise SchemaError as it does."""
    return _plan_migration(await _heads(dsn), revision)


async def migrate(dsn: str, *, revision: str = "head", allow_downgrade: bool = False) -> MigrationPlan:
    """Migrate the schema to `revision` in one transaction, and return the migrations that were run.

    `revision` is `head`, `base`, an id or its beginning, or relative (`-1`, `+2`). Downgrades, which drop
    columns and tables, need `allow_downgrade`: else raise SchemaError, as for revisions that this version
    does not have.

    An advisory lock serialises replicas that start together.
    """
    from alembic import command

    config = _alembic()

    def run(connection: Connection) -> MigrationPlan:
        connection.exec_driver_sql("SELECT pg_advisory_xact_lock(7233)")
        config.attributes["connection"] = connection
        plan = _plan_migration(_current_heads(connection), revision)
        if plan.downgrades and not allow_downgrade:
            raise SchemaError(f"The revision {revision} is older than that of the schema, {plan.current}.")
        if plan.downgrades:
            command.downgrade(config, plan.target or "base")
        elif plan.upgrades:
            command.upgrade(config, plan.target or "head")
        return plan

    engine = create_async_engine(sqlalchemy_url(dsn), hide_parameters=True)
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(run)
    finally:
        await engine.dispose()


async def _heads(dsn: str) -> tuple[str, ...]:
    engine = create_async_engine(sqlalchemy_url(dsn), hide_parameters=True, connect_args={"timeout": 5})
    try:
        async with engine.connect() as connection:
            return await connection.run_sync(_current_heads)
    finally:
        await engine.dispose()


def _plan_migration(heads: tuple[str, ...], revision: str) -> MigrationPlan:
    script = _scripts()
    newest_first = list(script.walk_revisions())
    chain = [one.revision for one in reversed(newest_first)]
    texts = [f"{one.revision}: {one.doc}" for one in reversed(newest_first)]
    unknown = [head for head in heads if head not in chain]
    if unknown:
        raise SchemaError(
            f"The database's schema is at revision {unknown[0]}, which this version does not have: "
            "it was migrated by another version of the gateway."
        )
    here = max((chain.index(head) + 1 for head in heads), default=0)
    there = _position(revision, chain, here)
    return MigrationPlan(
        current=chain[here - 1] if here else None,
        target=chain[there - 1] if there else None,
        upgrades=tuple(texts[here:there]),
        downgrades=tuple(reversed(texts[there:here])),
    )


def _position(revision: str, chain: list[str], here: int) -> int:
    """Return the position of a revision in the chain of migrations, counted from 1; 0 for `base`."""
    if revision in ("head", "heads"):
        return len(chain)
    if revision == "base":
        return 0
    if re.fullmatch(r"[+-][0-9]{1,4}", revision):
        there = here + int(revision)
        if not 0 <= there <= len(chain):
            raise SchemaError(
                f"The revision {revision} does not exist: {here} precede this, {len(chain) - here} follow."
            )
        return there
    found = [number for number, name in enumerate(chain, 1) if name.startswith(revision)]
    if len(found) != 1 or not revision:
        raise SchemaError(f"This version has no revision {revision!r}; it has {chain[0]} to {chain[-1]}.")
    return found[0]
