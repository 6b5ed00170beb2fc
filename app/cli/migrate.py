"""`utcp-gateway migrate`: migrates the database's schema to this version, or to an earlier revision."""

import asyncio
import sys

import typer

from app.cli.operator_commands import convert_operator_errors, fail, read_settings
from app.storage.database import MigrationPlan, migration_plan
from app.storage.database import migrate as migrate_database


def migrate(*, database_url: str | None, revision: str, yes: bool) -> None:
    """Migrate to `revision`; ask before one below the schema's own, unless `yes` is given."""
    settings = read_settings(database_url=database_url)
    if settings.database_url is None:
        fail("Name the database with --database-url or DATABASE_URL. The embedded one migrates by itself.")
    dsn = settings.database_url.get_secret_value()
    with convert_operator_errors():
        planned = asyncio.run(migration_plan(dsn, revision))
        if planned.downgrades and not yes:
            _confirm(planned)
        moved = asyncio.run(
            migrate_database(dsn, revision=revision, allow_downgrade=bool(planned.downgrades))
        )
    typer.echo(_write_summary(moved), err=True)


def _confirm(planned: MigrationPlan) -> None:
    """Ask for confirmation; exit where it is not given, and where there is no terminal."""
    typer.echo("This reverts these migrations, and drops their columns and tables with their data:", err=True)
    for text in planned.downgrades:
        typer.echo(f"  {text}", err=True)
    if not sys.stdin.isatty():
        fail(
            "Nothing was changed: there is no terminal for a confirmation. Give --yes to revert them.", code=2
        )
    typer.confirm("Continue?", abort=True, err=True)


def _write_summary(moved: MigrationPlan) -> str:
    revision = moved.target or "base (empty)"
    if moved.downgrades:
        return f"The schema is at {revision}: {len(moved.downgrades)} migrations were reverted."
    if moved.upgrades:
        return f"The schema is at {revision}: {len(moved.upgrades)} migrations were applied."
    return f"The schema is at {revision}, as it was before."
