"""`utcp-gateway bootstrap`: creates an admin key in the database, and rotates sealing keys."""

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import typer

from app.access.data_keys import open_vault, rewrap, wrapping_keys
from app.access.repository import create_key
from app.cli.embedded import EmbeddedServers, read_sealing_key
from app.cli.operator_commands import convert_operator_errors, read_settings
from app.core.settings import Settings
from app.security.vault import KeyRing
from app.storage.database import Database, migrate

SEALING_KEY_FILE = "sealing.key"


def bootstrap(*, database_url: str | None, data_dir: Path | None, name: str, rotate: bool) -> None:
    """Create an admin key called `name` and print it, or (`rotate`) wrap all data keys anew.

    None leaves a setting to the environment.
    """
    settings = read_settings(database_url=database_url, data_dir=data_dir)
    with convert_operator_errors(), open_database(settings, rotate=rotate) as (dsn, ring):
        if rotate:
            typer.echo(asyncio.run(_rotate(dsn, KeyRing.parse(ring))), err=True)
        else:
            text = asyncio.run(create_admin_key(dsn, KeyRing.parse(ring), name=name))
            if settings.database_url is None:
                replace_file(settings.data_dir / "admin.key", text)
            typer.echo(text)


@contextmanager
def open_database(settings: Settings, *, rotate: bool) -> Iterator[tuple[str, str]]:
    """Yield the database's DSN and the key ring; an embedded database runs during the block.

    With `rotate`, the key ring of an embedded database gets a new first key, which alone remains after the
    block.
    """
    if settings.database_url is not None:
        yield settings.database_url.get_secret_value(), settings.read_key_ring()
        return
    with EmbeddedServers(settings.data_dir) as running:
        asyncio.run(migrate(running.database_url))
        current = read_sealing_key(settings.data_dir)
        if not rotate:
            yield running.database_url, current
            return
        path = settings.data_dir / SEALING_KEY_FILE
        fresh = KeyRing.generate(f"k{int(time.time())}")
        # Both keys are on disk before anything is rewrapped: a crash in between loses nothing.
        replace_file(path, f"{fresh},{current}")
        yield running.database_url, f"{fresh},{current}"
        replace_file(path, fresh)


def replace_file(path: Path, text: str) -> None:
    """Replace a file of mode 0600 atomically: write another, flush it, rename it."""
    draft = path.with_suffix(".new")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        os.fchmod(descriptor, 0o600)
        file.write(text.strip() + "\n")
        file.flush()
        os.fsync(descriptor)
    draft.replace(path)


async def create_admin_key(dsn: str, ring: KeyRing, *, name: str) -> str:
    """Create a key with the scope admin in a migrated database and return its text."""
    database = Database(dsn, pool_size=1)
    try:
        vault = await open_vault(database, ring)
        async with database.transaction() as session:
            minted = await create_key(session, vault, name=name, scopes=("admin",), actor="bootstrap")
        return minted.text.reveal()
    finally:
        await database.aclose()


async def _rotate(dsn: str, ring: KeyRing) -> str:
    database = Database(dsn, pool_size=1)
    try:
        count = await rewrap(database, ring)
        used = ", ".join(sorted(await wrapping_keys(database))) or "none yet"
        return f"{count} data keys rewrapped; in use now: {used}."
    finally:
        await database.aclose()
