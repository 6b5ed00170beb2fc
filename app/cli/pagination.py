"""Lists that the gateway returns in pages (`limit`, `cursor`), and the options of commands that show them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import typer

from app.cli.session import ClientSession

#: The largest page that the gateway returns.
_PAGE_MAX = 200

LimitOption = Annotated[int, typer.Option("--limit", min=1, help="Maximum number of items.")]
AllOption = Annotated[bool, typer.Option("--all", help="All items; --limit is ignored.")]
CursorOption = Annotated[
    str | None, typer.Option("--cursor", help="Start of the page: `next_cursor` of the previous response.")
]
SortOption = Annotated[
    str | None, typer.Option("--sort", help="Order: a field such as name, or -name for descending.")
]
QueryOption = Annotated[str | None, typer.Option("--query", "-q", help="Only items that contain this text.")]
LIMIT_DEFAULT = 50


@dataclass(frozen=True, slots=True)
class Paging:
    """The values of `--limit`, `--all`, `--cursor`, `--sort` and `--query`."""

    limit: int
    everything: bool
    cursor: str | None
    sort: str | None = None
    q: str | None = None


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
        selected = {**query, "sort": paging.sort, "q": paging.q, "limit": limit, "cursor": cursor}
        page = session.gateway.get(path, query=selected).json()
        items += page["items"]
        cursor = page.get("next_cursor")
        full = not paging.everything and len(items) >= paging.limit
        if cursor is None or not page["items"] or full:
            return {**page, "items": items, "next_cursor": cursor}


def show_list(
    session: ClientSession,
    path: str,
    *,
    query: Mapping[str, Any],
    paging: Paging,
    columns: Sequence[str],
    row: Callable[[Mapping[str, Any]], Sequence[object]],
    importance: Sequence[str] | None = None,
) -> None:
    """Write a list as JSON or as a table with `columns`, whose rows `row` makes of the items.

    `importance` names the columns that a narrow terminal shows, the most important first; by default they
    are in the order of `columns`.

    Where there are more items, a note on standard error says how to get them.
    """
    page = fetch_list(session, path, query=query, paging=paging)
    if session.output.is_structured:
        session.output.write_document(page)
        return
    session.output.write_table(
        columns, (row(item) for item in page["items"]), importance=importance or columns
    )
    if page.get("next_cursor"):
        session.output.note(
            f"There are more items: --all, a larger --limit, or --cursor {page['next_cursor']}"
        )
