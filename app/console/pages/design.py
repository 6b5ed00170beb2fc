"""`/console/design`: the tokens and components of the console's design, for those who develop it.

It is served where the gateway runs from a checkout in the embedded mode.
"""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from starlette.responses import Response

from app.console.http.page import Page
from app.console.http.page_router import PageRouter

_CHECKOUT_MARK: Final = Path(__file__).parents[3] / "pyproject.toml"

router = PageRouter()


@router.get("/console/design")
async def show_design(page: Page) -> Response:
    """Show each token and component, with its states."""
    if not (page.services.settings.embedded and _CHECKOUT_MARK.is_file()):
        return page.render("not_found.html", status=404)
    return page.render("design.html", now=datetime.now(UTC), earlier=datetime.now(UTC) - timedelta(minutes=3))
