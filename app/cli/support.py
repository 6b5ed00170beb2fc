"""`utcp-gateway settings` and `support-bundle`: what the gateway is configured with, and how it does."""

from typing import Annotated, Any

import typer

from app.cli.session import SessionContext
from app.cli.transfer import write_download


def settings(
    ctx: SessionContext,
    *,
    changed: Annotated[
        bool, typer.Option("--changed", help="Only those that differ from the default.")
    ] = False,
) -> None:
    """List the effective settings; of a secret, only whether it is set."""
    session = ctx.obj
    listed = session.gateway.get("/settings").json()
    items = [one for one in listed["items"] if not (changed and one.get("is_default"))]
    if session.output.is_structured:
        session.output.write_document({"items": items})
        return
    session.output.write_table(("SETTING", "VALUE", "DEFAULT"), (_build_row(one) for one in items))


def support_bundle(
    ctx: SessionContext,
    *,
    file: Annotated[str, typer.Argument(help="Where to write; '-' for standard output.")] = "-",
) -> None:
    """Write settings, state and metrics as one JSON document without secrets, for somebody who helps."""
    session = ctx.obj
    content = session.gateway.get("/support-bundle").body
    write_download(session, content, file)


def _build_row(setting: dict[str, Any]) -> tuple[object, ...]:
    is_set = setting.get("is_secret") and setting.get("is_set")
    return setting.get("name"), "(set)" if is_set else setting.get("value"), setting.get("default")
