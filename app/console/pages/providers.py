"""`/console/providers`: the registered APIs with their health, and the export of all of them."""

from typing import Any, Final

from starlette.responses import Response

from app.console.http.page import PAGE_HEADERS, PAGE_SIZE, Page
from app.console.http.page_router import PageRouter

router = PageRouter()

STATES: Final = ("failed", "degraded", "pending", "paused", "ok", "unknown")
STATE_KINDS: Final = {"failed": "bad", "degraded": "attention", "paused": "attention"}
"""How the badge of a state is coloured; others are neutral."""


@router.get("/console/providers")
async def list_providers(page: Page) -> Response:
    """List the providers by name, each with its state, calls of the last hour and last check."""
    state = page.query.get("state")
    providers = await page.api.get(
        "/provider-health",
        {
            "q": page.query.get("q"),
            "state": state if state in STATES else None,
            "cursor": page.query.get("cursor"),
            "limit": PAGE_SIZE,
        },
    )
    is_filtered = bool(page.query.get("q") or state or page.query.get("cursor"))
    return page.render(
        "providers.html",
        providers=providers["items"],
        next_cursor=providers["next_cursor"],
        total=providers["total"],
        total_at_least=providers["total_at_least"],
        states=STATES,
        state=state,
        state_kinds=STATE_KINDS,
        is_filtered=is_filtered,
    )


@router.get("/console/export")
async def export_providers(page: Page) -> Response:
    """Download the definitions of all providers, without secrets."""
    return download(await page.api.send("GET", "/export"), "providers.json")


def download(answer: Any, name: str) -> Response:
    """Return a response of the API as a file."""
    headers = {**PAGE_HEADERS, "Content-Disposition": f'attachment; filename="{name}"'}
    return Response(answer.body, headers=headers, media_type="application/json")
