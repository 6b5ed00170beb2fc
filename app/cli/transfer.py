"""`utcp-gateway export` and `import`: the definitions of a whole registry, without secrets."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.errors import InputError
from app.cli.imports import send_import
from app.cli.reports import finish_import
from app.cli.session import ClientSession, SessionContext
from app.cli.values import read_bytes


def export(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="Where to write; '-' for standard output.")] = "-",
) -> None:
    """Write the definitions of all providers and tools as JSON; secrets are not in it."""
    session = ctx.obj
    content = session.gateway.get("/export").body
    write_download(session, content, file)


def import_(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="What `export` wrote; '-' for standard input.")],
) -> None:
    """Import what `export` wrote. Importing it again changes nothing; credentials have to be set again."""
    result = send_import(ctx.obj, "/import", content=read_bytes(file), activity=f"Importing {file}")
    finish_import(ctx.obj, result)


def write_download(session: ClientSession, content: bytes, file: str) -> None:
    """Write content, with a line end at its end, to a file and say so, or to standard output for `-`.

    Raise InputError where the file cannot be written.
    """
    content = content if content.endswith(b"\n") else content + b"\n"
    if file == "-":
        session.output.write_raw(content)
        return
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise InputError(f"{file} cannot be written: {error.strerror}.") from None
    if session.output.is_structured:
        session.output.write_document({"written": file, "bytes": len(content)})
        return
    session.output.note(f"Wrote {file} ({len(content):,} bytes).")
