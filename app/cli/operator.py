"""The operator's commands and their options. What they do is imported when they run: it is the whole gateway,
and `utcp-gateway serve --help` must not wait for it.
"""

import gc
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

DatabaseUrl = Annotated[
    str | None,
    typer.Option("--database-url", help="PostgreSQL DSN [DATABASE_URL].", show_default=False),
]
RedisUrl = Annotated[
    str | None, typer.Option("--redis-url", help="Redis or Valkey URL [REDIS_URL].", show_default=False)
]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded servers [DATA_DIR, .data].")]


def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on [HOST, 127.0.0.1].")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on [PORT, 8000].")] = None,
    workers: Annotated[int | None, typer.Option(help="Worker processes [WORKERS, 1].")] = None,
    database_url: DatabaseUrl = None,
    redis_url: RedisUrl = None,
    data_dir: DataDir = None,
    sample: Annotated[
        bool | None,
        typer.Option(
            "--sample/--no-sample", help="Serve and register the sample API (embedded, from a checkout)."
        ),
    ] = None,
) -> None:
    """Serve the gateway; without --database-url and --redis-url on an embedded PostgreSQL and Valkey."""
    # All that is imported stays, so there is nothing to collect before the gateway has started.
    gc.disable()
    with interrupt_ends_process():
        from app.cli.serve import serve as run

    run(
        host=host, port=port, workers=workers, database_url=database_url, redis_url=redis_url,
        data_dir=data_dir, sample=sample,
    )  # fmt: skip


def bootstrap(
    database_url: DatabaseUrl = None,
    data_dir: DataDir = None,
    name: Annotated[str, typer.Option(help="Name of the new key.")] = "admin",
    new_sealing_key: Annotated[
        bool,
        typer.Option("--new-sealing-key", help="Print a new entry for SEALING_KEYS and do nothing else."),
    ] = False,
    rotate: Annotated[
        bool,
        typer.Option("--rotate", help="Wrap all data keys with the first key of SEALING_KEYS instead."),
    ] = False,
) -> None:
    """Create an admin key directly in the database: the first one, or another where it was lost.

    Standard output is the key alone. Before --rotate, put the new sealing key in front of SEALING_KEYS on
    every replica; afterwards the old one may be removed. For the embedded database (no DATABASE_URL) the new
    key is created and written to its file; stop the gateway first.
    """
    if new_sealing_key:
        import time

        from app.security.vault import KeyRing

        typer.echo(KeyRing.generate(f"k{int(time.time())}"))
        return
    with interrupt_ends_process():
        from app.cli.bootstrap import bootstrap as run

    run(database_url=database_url, data_dir=data_dir, name=name, rotate=rotate)


def migrate(
    database_url: DatabaseUrl = None,
    revision: Annotated[
        str,
        typer.Option(
            help="'head', 'base' (drops all tables), a revision's id, or steps from the schema's own ('-1')."
        ),
    ] = "head",
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before columns and tables are dropped.")
    ] = False,
) -> None:
    """Migrate the database's schema to this version. Several replicas may run it at once.

    A revision below the schema's own reverts migrations, which drops columns and tables with their data: the
    command asks first, and without a terminal does it with --yes only.
    """
    with interrupt_ends_process():
        from app.cli.migrate import migrate as run

    run(database_url=database_url, revision=revision, yes=yes)


@contextmanager
def interrupt_ends_process() -> Iterator[None]:
    """Let SIGINT end the process by its default action during a block that only imports.

    A KeyboardInterrupt may be discarded there: extension modules print those that are raised in their
    callbacks, and continue. Has no effect in other threads than the main one, which cannot set handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    previous = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
