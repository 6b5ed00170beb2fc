"""`utcp-gateway export` and `import`: the definitions of a whole registry, without secrets."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.imports import send_import
from app.cli.outcome import BadInput
from app.cli.reports import finish
from app.cli.session import Session, remote
from app.cli.values import read_bytes


@remote
def export(
    session: Session,
    *,
    file: Annotated[str, typer.Argument(help="Where to write; '-' for standard output.")] = "-",
) -> None:
    """Write the definitions of all providers and tools as JSON; secrets are not in it."""
    content = session.gateway.get("/export").body
    if file == "-":
        session.output.raw(content if content.endswith(b"\n") else content + b"\n")
        return
    try:
        Path(file).write_bytes(content)
    except OSError as error:
        raise BadInput(f"{file} cannot be written: {error.strerror}.") from None
    if session.output.json:
        session.output.document({"written": file, "bytes": len(content)})
        return
    session.output.note(f"Wrote {file} ({len(content):,} bytes).")


@remote
def import_(
    session: Session,
    *,
    file: Annotated[str, typer.Argument(help="What `export` wrote; '-' for standard input.")],
) -> None:
    """Bring an export in. Doing it again is harmless; credentials have to be set again."""
    answer = send_import(session, "/import", content=read_bytes(file), what=f"Importing {file}")
    finish(session, answer)
