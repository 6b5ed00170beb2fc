"""`/console/providers/{name}`: one registered API: its health, and what can be done with it."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from app.console.forms.credential_forms import missing_slots
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.imports import problem_of_import, read_import, start_import
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.pages.providers import STATE_KINDS, download
from app.console.views.import_views import PreviewView
from app.console.views.notices import Notice

router = PageRouter()

_TOOLS: Final = 10
_EVENTS: Final = 20


def base(page: Page) -> str:
    """Return the path of the provider's page."""
    return f"/console/providers/{page.parameter('name')}"


async def render_provider(
    page: Page, template: str, view: str, *, status: int = 200, **context: Any
) -> Response:
    """Return a page of the provider with its head; `view` is the tab."""
    name = page.parameter("name")
    provider = context.pop("provider", None) or await page.api.get(path_of("providers", name))
    health = await page.api.get("/provider-health", {"provider": name})
    health_items = health["items"]
    return page.render(
        template,
        status=status,
        provider=provider,
        health=health_items[0] if health_items else None,
        state_kinds=STATE_KINDS,
        view=view,
        base=base(page),
        **context,
    )


@router.get("/console/providers/{name}")
async def show_provider(page: Page) -> Response:
    """Show the health of a provider, its tools and its report."""
    return await _render_overview(page)


async def _render_overview(page: Page, *, status: int = 200, **context: Any) -> Response:
    name = page.parameter("name")
    tools = (
        await page.api.get("/tools", {"provider": name, "limit": _TOOLS}) if page.may("GET /tools") else None
    )
    provider = await page.api.get(path_of("providers", name))
    given = {
        "check": None,
        "problem": None,
        "missing": missing_slots(provider),
        "may_approve": await _may_approve(page, provider),
        **context,
    }
    return await render_provider(
        page, "provider.html", "overview", status=status, provider=provider, tools=tools, **given
    )


async def _may_approve(page: Page, provider: Mapping[str, Any]) -> bool:
    """Return whether the key may approve the pending changes of a provider: as the API says of each approval,
    where the key may read them; a key may not approve what it has requested.
    """
    if not provider["pending"] or not page.may("POST /providers/{name}/approve"):
        return False
    if not page.may("GET /approvals"):
        return True
    approvals = await page.api.get(
        "/approvals", {"provider": provider["name"], "state": "pending", "limit": 50}
    )
    changes = [one for one in approvals["items"] if one["kind"] != "call"]
    return not changes or all("approve" in one["decisions"] for one in changes)


@router.get("/console/providers/{name}/report")
async def show_report(page: Page) -> Response:
    """Show what the last import made of each operation."""
    provider = await page.api.get(path_of("providers", page.parameter("name")))
    preview = PreviewView({"report": provider["report"], "tools": []}) if provider["report"] else None
    text = page.query.get("at", "0")
    position = int(text) if text.isascii() and text.isdigit() and len(text) < 9 else 0
    return await render_provider(
        page, "provider_report.html", "report", provider=provider, preview=preview, at=position
    )


@router.get("/console/providers/{name}/changes")
async def show_changes(page: Page) -> Response:
    """Show the audit events of a provider."""
    events = await page.api.get(
        "/events",
        {"object_name": page.parameter("name"), "limit": _EVENTS, "cursor": page.query.get("cursor")},
    )
    return await render_provider(page, "provider_changes.html", "changes", events=events)


@router.get("/console/providers/{name}/manual")
async def download_manual(page: Page) -> Response:
    """Download the UTCP manual of a provider."""
    name = page.parameter("name")
    return download(await page.api.send("GET", path_of("providers", name, "utcp")), f"{name}.utcp.json")


@router.post("/console/providers/{name}/check", recent=False)
async def check_provider(page: Page) -> Response:
    """Check origins and credentials, and show the result."""
    form = await page.form()
    body = {"probe": form.get("probe") == "1"}
    try:
        check = await page.api.post(path_of("providers", page.parameter("name"), "check"), body)
    except ApiProblem as problem:
        if problem.status in (401, 404):
            raise
        return await _render_overview(page, status=problem.status, problem=problem)
    return await _render_overview(page, check=check)


@router.get("/console/providers/{name}/check")
async def leave_check(page: Page) -> Response:
    """Go to the provider: the result of a check is not stored."""
    return page.redirect(base(page))


@router.post("/console/providers/{name}/pause", recent=False)
async def pause_provider(page: Page) -> Response:
    """Pause the provider; undo resumes it."""
    return await _set_enabled(page, enabled=False)


@router.post("/console/providers/{name}/resume", recent=False)
async def resume_provider(page: Page) -> Response:
    """Resume the provider; undo pauses it."""
    return await _set_enabled(page, enabled=True)


async def _set_enabled(page: Page, *, enabled: bool) -> Response:
    await page.api.patch(path_of("providers", page.parameter("name")), {"enabled": enabled})
    undo = f"{base(page)}/{'pause' if enabled else 'resume'}"
    name = "provider-resumed" if enabled else "provider-paused"
    return page.redirect(base(page), notice=Notice(name, undo=undo))


@router.get("/console/providers/{name}/refresh")
async def preview_refresh(page: Page) -> Response:
    """Show what a refresh would change."""
    import_id = page.query.get("import", "")
    state = await read_import(page, import_id) if import_id else None
    problem = None if state is None else problem_of_import(state)
    is_done = state is not None and state["state"] == "done"
    return await render_provider(
        page,
        "provider_refresh.html",
        "overview",
        status=problem.status if problem is not None else 200,
        state=state,
        problem=problem,
        preview=PreviewView(state["result"]) if state is not None and is_done else None,
    )


@router.post("/console/providers/{name}/refresh/preview", recent=False)
async def start_refresh_preview(page: Page) -> Response:
    """Read the source again, and go to the page that shows what a refresh would change."""
    name = page.parameter("name")
    try:
        state = await start_import(page, path_of("providers", name, "refresh", "preview"))
    except ApiProblem as problem:
        return await _render_overview(page, status=problem.status, problem=problem)
    return page.redirect(f"{base(page)}/refresh", {"import": state["id"]})


@router.post("/console/providers/{name}/refresh", recent=False)
async def refresh_provider(page: Page) -> Response:
    """Refresh the provider from its source."""
    name = page.parameter("name")
    try:
        state = await start_import(page, path_of("providers", name, "refresh"))
        problem = problem_of_import(state)
    except ApiProblem as error:
        problem = error
    if problem is not None:
        return await _render_overview(page, status=problem.status, problem=problem)
    if state["state"] == "running":
        return page.redirect(f"/console/imports/{state['id']}")
    return page.redirect(base(page), notice=Notice("provider-refreshed"))


@router.post("/console/providers/{name}/approve", recent=True)
async def approve_changes(page: Page) -> Response:
    """Approve exactly the pending changes that the page has shown."""
    form = await page.form()
    tag = f'"{form.get("version", "")}"'
    try:
        await page.api.post(path_of("providers", page.parameter("name"), "approve"), If_Match=tag)
    except ApiProblem as problem:
        return await _render_overview(page, status=problem.status, problem=problem)
    return page.redirect(base(page), notice=Notice("provider-approved"))


@router.get("/console/providers/{name}/delete", recent=True)
async def confirm_deletion(page: Page) -> Response:
    """Ask for the name of the provider that is to be deleted."""
    return await render_provider(page, "provider_delete.html", "settings", error="", problem=None)


@router.post("/console/providers/{name}/delete", recent=True)
async def delete_provider(page: Page) -> Response:
    """Delete the provider whose name was typed."""
    name = page.parameter("name")
    typed = str((await page.form()).get("name", "")).strip()
    if typed != name:
        error = page.gettext("This is not the name of the provider.")
        return await render_provider(
            page, "provider_delete.html", "settings", status=422, error=error, problem=None
        )
    try:
        await page.api.delete(path_of("providers", name))
    except ApiProblem as problem:
        return await render_provider(
            page, "provider_delete.html", "settings", status=problem.status, error="", problem=problem
        )
    return page.redirect("/console/providers", notice=Notice("provider-deleted", subject=name))


def by_field(problem: ApiProblem | None, prefix: str = "") -> Mapping[str, str]:
    """Return the texts of field errors by the pointers below `prefix`, without the first slash."""
    texts: dict[str, str] = {}
    for error in () if problem is None else problem.field_errors:
        pointer = str(error.get("pointer", "")).removeprefix("#").removeprefix(prefix).strip("/")
        texts[pointer] = " ".join(filter(None, (texts.get(pointer), str(error.get("detail", "")))))
    return texts
