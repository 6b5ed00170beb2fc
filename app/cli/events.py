"""`utcp-gateway events`: who changed what on the control plane."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer

from app.cli.pages import Paging, collect, show
from app.cli.session import Session, remote

commands = typer.Typer(name="events", help="Who changed what.", no_args_is_help=True)


@dataclass(frozen=True, slots=True)
class Which:
    """The options that choose events; the names of its fields are the gateway's query parameters."""

    actor: Annotated[str | None, typer.Option(help="Only by the key of this id.")] = None
    object_type: Annotated[str | None, typer.Option(help="Only of this kind, e.g. provider.")] = None
    object_name: Annotated[str | None, typer.Option(help="Only of what is called so.")] = None


@commands.command("list")
@remote
def list_events(session: Session, *, which: Which, paging: Paging) -> None:
    """List changes, the newest first."""
    page = collect(session, "/events", query=asdict(which), paging=paging)
    show(session, page, columns=("TIME", "ACTOR", "ACTION", "OBJECT", "NAME", "DETAIL"), row=_row)


def _row(event: Mapping[str, Any]) -> tuple[object, ...]:
    members = ("at", "actor", "action", "object_type", "object_name", "detail")
    return tuple(event.get(member) for member in members)
