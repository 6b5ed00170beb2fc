"""Lists that the gateway gives in pages (`limit`, `cursor`)."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.session import Session

#: The most that the gateway gives in one answer.
_PAGE = 200


@dataclass(frozen=True, slots=True)
class Paging:
    """The options of a command that lists."""

    limit: Annotated[int, typer.Option("--limit", min=1, help="How many at most.")] = 50
    everything: Annotated[bool, typer.Option("--all", help="Everything, whatever --limit says.")] = False
    cursor: Annotated[
        str | None, typer.Option("--cursor", help="Where to go on: `next_cursor` of the answer before.")
    ] = None


def collect(session: Session, path: str, *, query: Mapping[str, Any], paging: Paging) -> dict[str, Any]:
    """The items asked for, from as many pages as needed, in the shape of one page."""
    items: list[Any] = []
    cursor = paging.cursor
    while True:
        wanted = _PAGE if paging.everything else min(_PAGE, paging.limit - len(items))
        page = session.gateway.get(path, query={**query, "limit": wanted, "cursor": cursor}).json()
        items += page["items"]
        cursor = page.get("next_cursor")
        full = not paging.everything and len(items) >= paging.limit
        if cursor is None or not page["items"] or full:
            return {"items": items, "next_cursor": cursor}


def show(
    session: Session,
    page: Mapping[str, Any],
    *,
    columns: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[object]],
) -> None:
    """A page as JSON or as a table; says on standard error when there is more."""
    if session.output.json:
        session.output.document(page)
        return
    session.output.table(columns, (row(item) for item in page["items"]))
    if page.get("next_cursor"):
        session.output.note(f"There is more: --all, a larger --limit, or --cursor {page['next_cursor']}")
