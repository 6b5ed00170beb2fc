"""The way back through the pages of a list: lists have cursors of their next pages only.

The URL of a page has the cursors of the pages before it (`before`), so that it can be reloaded and shared;
the first page has none.
"""

from typing import Final

from app.console.http.page import Page

PREVIOUS: Final = "before"
_MAX_TRAIL: Final = 12


def previous_page(page: Page) -> str | None:
    """Return the URL of the page before this one; None on the first page."""
    if not page.query.get("cursor"):
        return None
    trail = page.query.getlist(PREVIOUS)
    if not trail:
        return page.url_with(**{PREVIOUS: None})
    return page.url_with(cursor=trail[-1], **{PREVIOUS: trail[:-1] or None})


def next_page(page: Page, cursor: str) -> str:
    """Return the URL of the page that begins at a cursor."""
    here = page.query.get("cursor")
    trail = [*page.query.getlist(PREVIOUS), here] if here else []
    return page.url_with(cursor=cursor, **{PREVIOUS: trail[-_MAX_TRAIL:] or None})
