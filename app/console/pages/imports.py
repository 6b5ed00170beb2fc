"""`/console/imports/{id}`: an import that takes longer than a page waits, until its end and after it."""

from starlette.responses import Response

from app.console.http.api_client import path_of
from app.console.http.imports import problem_of_import
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.import_views import ROWS, BatchView, PreviewView

router = PageRouter()


@router.get("/console/imports/{import_id}")
async def show_import(page: Page) -> Response:
    """Show the state of an import, and its result."""
    state = await page.api.get(path_of("imports", page.parameter("import_id")))
    problem = problem_of_import(state)
    result = state["result"] or {}
    is_done = state["state"] == "done"
    text = page.query.get("at", "0")
    return page.render(
        "import.html",
        state=state,
        problem=problem,
        result=result,
        batch=BatchView(result) if is_done and "entries" in result else None,
        preview=PreviewView(result) if is_done and "report" in result else None,
        is_registration=state["status"] == 201,
        at=int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0,
        rows=ROWS,
    )
