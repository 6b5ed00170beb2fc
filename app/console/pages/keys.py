"""`/console/keys`: the API keys, one of them, its rotation and its revocation."""

from typing import Any, Final

from starlette.responses import Response

from app.console.forms.key_form import whole_number
from app.console.http.api_client import path_of
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.pages.key_creation import once_header, once_key, render_created
from app.console.views.key_words import WARNING_WORDS, scopes_in_words
from app.console.views.notices import Notice
from app.security.scopes import missing_scopes

router = PageRouter()

_STATES: Final = ("", "active", "expiring", "expired", "revoked")
_EVENTS: Final = 5
_OVERLAPS: Final = (0, 3600, 86_400, 604_800, 2_592_000)


@router.get("/console/keys")
async def list_keys(page: Page) -> Response:
    """List the keys by state, in the order and with the text of the URL."""
    state = page.query.get("state", "")
    query = {
        "q": page.query.get("q"),
        "state": state if state in _STATES else "",
        "sort": page.query.get("sort") or "-created_at",
        "cursor": page.query.get("cursor"),
        "limit": PAGE_SIZE,
    }
    keys = await page.api.get("/keys", query)
    return page.render(
        "keys.html",
        keys=keys,
        state=state,
        sort=query["sort"],
        words=_build_words(page),
        warning_words=WARNING_WORDS,
    )


@router.get("/console/keys/{key_id}")
async def show_key(page: Page) -> Response:
    """Show a key: what it may do and see, its warnings, and what can be done with it."""
    return await _show(page)


@router.post("/console/keys/{key_id}/rotate", recent=True)
async def rotate_key(page: Page) -> Response:
    """Create the successor of a key, and show its text once."""
    key_id = page.parameter("key_id")
    form = await page.form()
    before = await page.api.get(path_of("keys", key_id))
    overlap = str(form.get("overlap_seconds", ""))
    response = await page.api.send(
        "POST",
        path_of("keys", key_id, "rotate"),
        json={"overlap_seconds": whole_number(overlap)},
        headers=once_header(form),
    )
    return await render_created(page, response, rotated=before)


@router.post("/console/keys/{key_id}/revoke", recent=True)
async def revoke_key(page: Page) -> Response:
    """Revoke a key whose name was typed: it cannot be undone."""
    key_id = page.parameter("key_id")
    key = await page.api.get(path_of("keys", key_id))
    form = await page.form()
    if str(form.get("name", "")).strip() != key["name"].strip():
        return await _show(page, status=422, revoke_error=page.gettext("This is not the name of the key."))
    await page.api.delete(path_of("keys", key_id))
    return page.redirect("/console/keys", notice=Notice("key-revoked", subject=key["name"]))


async def _show(page: Page, *, status: int = 200, revoke_error: str = "") -> Response:
    key_id = page.parameter("key_id")
    key = await page.api.get(path_of("keys", key_id))
    events: dict[str, Any] = {"items": []}
    if page.may("GET /events"):
        query = {"object_type": "key", "object_name": key_id, "limit": _EVENTS}
        events = await page.api.get("/events", query)
    scopes = await page.api.get("/scopes")
    return page.render(
        "key.html",
        status=status,
        key=key,
        scopes=[one for one in scopes["items"] if one["name"] in key["scopes"]],
        events=events["items"],
        is_own=key_id == page.principal.key_id,
        lacking=missing_scopes(key["scopes"], held=page.principal.scopes),
        overlaps=_OVERLAPS,
        revoke_error=revoke_error,
        warning_words=WARNING_WORDS,
        once=once_key(),
    )


def _build_words(page: Page) -> Any:
    return lambda scopes: scopes_in_words(scopes, page.gettext)
