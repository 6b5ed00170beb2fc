"""The page for paths that the console does not have."""

from starlette.responses import Response

from app.console.http.page import Page
from app.console.http.page_router import PageRouter

router = PageRouter()


@router.get("/console/{rest:path}")
async def show_not_found(page: Page) -> Response:
    """Say that there is no such page, and lead to those that there are."""
    return page.render("not_found.html", status=404)
