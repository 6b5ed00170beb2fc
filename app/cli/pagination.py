"""Lists that the gateway returns in pages (`limit`, `cursor`), and the options of commands that show them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.session import ClientSession

#: The largest page that the gateway returns.
_PAGE_MAX = 200

LimitOption = Annotated[int, typer.Option("--limit", min=1, help="How many at most.")]
AllOption = Annotated[bool, typer.Option("--all", help="Everything, whatever --limit says.")]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", help="Where to continue: `next_cursor` of the previous response.")
]
LIMIT_DEFAULT = 50


@dataclass(frozen=True, slots=True)
class Paging:
    """The values of `--limit`, `--all` and `--cursor`."""

    limit: int
    everything: bool
    cursor: str | None


def fetch_list(
    session: ClientSession, path: str, *, query: Mapping[str, Any], paging: Paging
) -> dict[str, Any]:
    """Return the items that `paging` selects, from as many pages as needed, in the shape of one page.

    `query` members that are None are left out.
    """
    items: list[Any] = []
    cursor = paging.cursor
    while True:
        limit = _PAGE_MAX if paging.everything else min(_PAGE_MAX, paging.limit - len(items))
        page = session.gateway.get(path, query={**query, "limit": limit, "cursor": cursor}).json()
        items += page["items"]
        cursor = page.get("next_cursor")
        full = not paging.everything and len(items) >= paging.limit
        if cursor is None or not page["items"] or full:
            return {"items": items, "next_cursor": cursor}


def show_list(
    session: ClientSession,
    path: str,
    *,
    query: Mapping[str, Any],
    paging: Paging,
    columns: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[object]],
) -> None:
    """Write a list as JSON or as a table, with a note on standard error where there are more items."""
    page = fetch_list(session, path, query=query, paging=paging)
    if session.output.json:
        session.output.document(page)
        return
    session.output.table(columns, (row(item) for item in page["items"]))
    if page.get("next_cursor"):
        session.output.note(f"There is more: --all, a larger --limit, or --cursor {page['next_cursor']}")
