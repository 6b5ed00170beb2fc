"""`utcp-gateway migrate`: brings the database's schema up to this version, or down."""

import asyncio
from typing import Annotated

import typer

from app.cli.operator import DatabaseUrl, fail, operator_errors, settings_with
from app.database import migrate as migrate_database


def migrate(
    database_url: DatabaseUrl = None,
    revision: Annotated[
        str, typer.Option(help="`head`, `base` (drops all tables), or a revision's id.")
    ] = "head",
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask before tables are dropped.")] = False,
) -> None:
    """Bring the database's schema to this version. Safe to run by several replicas at once."""
    settings = settings_with(database_url=database_url)
    if settings.database_url is None:
        fail("Name the database with --database-url or DATABASE_URL. The embedded one migrates by itself.")
    if revision == "base" and not yes:
        typer.confirm("This drops all tables of the gateway with what they hold. Go on?", abort=True)
    with operator_errors():
        asyncio.run(migrate_database(settings.database_url.get_secret_value(), revision=revision))
    typer.echo(f"The schema is at {revision}.", err=True)
