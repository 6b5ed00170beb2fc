"""Dangerous acts need the key again where it was given more than five minutes ago."""

from datetime import UTC, datetime, timedelta
from typing import Final

from starlette.responses import Response

from app.console.page import Page

_RECENT: Final = timedelta(minutes=5)


async def require_recent(page: Page, back: str) -> Response | None:
    """Return None where the key of the page was given within five minutes, or is in the request itself.

    Otherwise return a redirect to the page that asks for it, and leads to `back`, a path of the console.
    """
    if page.session is None or page.session.authenticated_at > datetime.now(UTC) - _RECENT:
        return None
    return page.redirect("/console/confirm", {"next": back})
