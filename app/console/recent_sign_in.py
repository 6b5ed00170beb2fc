"""Dangerous acts need a recent sign-in."""

from starlette.responses import Response

from app.console.page import Page


async def require_recent(page: Page) -> Response | None:  # noqa: ARG001 - replaced by the branch of sessions
    """Return None where somebody has signed in a moment ago, else the way to the page that asks again."""
    return None
