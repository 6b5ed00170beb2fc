"""`/console/settings`: how the gateway does, and what it is configured with; a support bundle to download."""

import asyncio
from typing import Any

from starlette.responses import Response

from app.console.http.api_stream import ApiStreamResponse
from app.console.http.page import Page
from app.console.http.page_router import PageRouter

router = PageRouter()


@router.get("/console/settings")
async def show_settings(page: Page) -> Response:
    """Show the state of the gateway, and the settings that the URL selects: all, changed ones, secrets."""
    settings, details = await asyncio.gather(page.api.get("/settings"), page.api.get("/health/details"))
    which, text = page.query.get("which", "changed"), page.query.get("q", "").strip().lower()
    shown = [one for one in settings["items"] if _is_selected(one, which) and _has(one, text)]
    return page.render(
        "settings.html", details=details, items=shown, which=which, total=len(settings["items"])
    )


@router.get("/console/settings/support-bundle.json")
async def download_support_bundle(page: Page) -> Response:
    """Pass on the support bundle as the API makes it."""
    return ApiStreamResponse(page, "/support-bundle", {})


def _is_selected(setting: dict[str, Any], which: str) -> bool:
    if which == "secrets":
        return bool(setting["is_secret"])
    return which == "all" or not setting["is_default"]


def _has(setting: dict[str, Any], text: str) -> bool:
    return text in f"{setting['name']} {setting['description']}".lower()
