"""`/console/add`: a source, its preview, credentials, and then tools to try.

Nothing is stored before the last step. What is between the steps is in the URL, or sealed in the form
(`provider_draft`).
"""

import asyncio
from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from app.console.forms.credential_forms import CredentialForms, missing_slots
from app.console.forms.provider_draft import (
    ADDRESSES,
    DOCUMENTS,
    Draft,
    DraftLost,
    legal_name,
)
from app.console.forms.schema_form import Submission
from app.console.http.api_client import ApiProblem, ConfirmationRequired, path_of
from app.console.http.imports import problem_of_import, read_import, start_import
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.import_views import BatchView, PreviewView
from app.console.views.notices import Notice

router = PageRouter()

_SOURCES: Final = (*ADDRESSES[:1], *DOCUMENTS, *ADDRESSES[1:])
_REGISTER: Final = "POST /providers"
_MAX_LISTED: Final = 1_000
_PAGE: Final = 200
_TRIED: Final = 3


@router.get("/console/add")
async def show_source(page: Page) -> Response:
    """Ask for a source; where the URL has one and its preview, show what the gateway would make of it.

    Only the form starts a preview, which reads the source: a link of another site must not do so.
    """
    draft = Draft.from_query(page.query)
    if not page.may(_REGISTER) or not (draft.is_given and draft.fits_url):
        return _render_source_page(page, draft)
    import_id = page.query.get("import", "")
    state = await read_import(page, import_id) if import_id else None
    if state is None:
        return _render_source_page(page, draft)
    return await _show_state(page, draft, state)


@router.post("/console/add", recent=False)
async def submit_source(page: Page) -> Response:
    """Preview the source of the form: at a URL of its own, or on this page where it may not be in a URL."""
    try:
        draft = await _read_draft(page, await page.form())
    except DraftLost:
        return _render_source_page(page, Draft(), lost=True, status=422)
    if not draft.is_given:
        return _render_source_page(page, draft, missing=True, status=422)
    if draft.fits_url:
        return await _preview(page, draft)
    # The form of a preview has its import, too; that of the progress waits for one.
    waiting = str((await page.form()).get("waiting", ""))
    state = await read_import(page, waiting) if waiting else None
    return await _preview(page, draft) if state is None else await _show_state(page, draft, state)


@router.post("/console/add/provider", recent=False)
async def add_provider(page: Page) -> Response:
    """Register the provider with the credentials of the form."""
    form = await page.form()
    try:
        draft = await _read_draft(page, form)
    except DraftLost:
        return _render_source_page(page, Draft(), lost=True, status=422)
    if draft.redirect_origin and not await page.is_recent():
        # Credentials go to that origin, too.
        raise ConfirmationRequired
    seen = await read_import(page, str(form.get("import", "")))
    preview = (seen or {}).get("result") or {}
    name = draft.name or legal_name(str(preview.get("title", "")))
    forms = await CredentialForms.load(page, preview.get("slots") or [])
    submission = forms.submitted(form)
    if submission.is_edit and seen is not None and "tools" in preview:
        return await _preview_page(page, draft, seen, submission=submission)
    given = forms.filled_in(submission)
    try:
        request = await asyncio.to_thread(draft.request, name, given)
        state = await start_import(page, "/providers", **request)
        problem = problem_of_import(state)
    except ApiProblem as error:
        problem = error
    if problem is not None:
        if seen is None or "tools" not in preview:
            return await _render_source_problem(page, draft, problem)
        return await _preview_page(page, draft, seen, problem=problem, values=given, status=problem.status)
    if state["state"] == "running" or "entries" in state["result"]:
        return page.redirect(f"/console/imports/{state['id']}")
    return page.redirect("/console/add/done", {"provider": state["result"]["name"]})


@router.get("/console/add/done")
async def show_done(page: Page) -> Response:
    """Show what was added: tools to try, what is missing, and a key for an agent."""
    name = page.query.get("provider", "")
    provider = await page.api.get(path_of("providers", name))
    tools = await _list_tools(page, name) if page.may("GET /tools") else []
    missing = set(missing_slots(provider))
    changing = [one for one in tools if one["enabled"] and not one["annotations"]["read_only"]]
    return page.render(
        "add_done.html",
        provider=provider,
        tools=tools,
        tried=await _choose_tried(page, tools, missing),
        changing=changing,
        missing=sorted(missing),
    )


@router.post("/console/add/read-only", recent=False)
async def disable_changing_tools(page: Page) -> Response:
    """Disable the tools of a provider that change something."""
    name = str((await page.form()).get("provider", ""))
    changing = [
        one for one in await _list_tools(page, name) if one["enabled"] and not one["annotations"]["read_only"]
    ]
    named = [{"tool": one["name"], "patch": {"enabled": False}} for one in changing]
    # Without such a tool, the API is asked whether the key may change tools at all.
    operations = named or [{"filter": {"provider": name}, "patch": {"enabled": False}}]
    await page.api.post("/tools:batch", {"operations": operations, "dry_run": not named})
    return page.redirect(
        "/console/add/done", {"provider": name}, notice=Notice("tools-disabled", count=len(changing))
    )


async def _read_draft(page: Page, form: FormData) -> Draft:
    return await Draft.from_form(form, vault=page.services.vault, key_id=page.principal.key_id)


def _render_source_page(page: Page, draft: Draft, *, status: int = 200, **context: Any) -> Response:
    given = {"problem": None, "errors": {}, "missing": False, "lost": False, "sealed": "", **context}
    return page.render("add.html", status=status, draft=draft, sources=_SOURCES, **given)


async def _render_source_problem(page: Page, draft: Draft, problem: ApiProblem) -> Response:
    """Return the form with what the API says about the source; its document stays in the form."""
    sealed = "" if draft.fits_url else await draft.sealed(page.services.vault, page.principal.key_id)
    return _render_source_page(
        page, draft, status=problem.status, problem=problem, errors=_group_by_field(problem), sealed=sealed
    )


async def _preview(page: Page, draft: Draft) -> Response:
    """Start a preview, and show it or its progress."""
    try:
        request = await asyncio.to_thread(draft.request, draft.name or draft.proposed_name())
        state = await start_import(page, "/providers/preview", **request)
    except ApiProblem as problem:
        return await _render_source_problem(page, draft, problem)
    if draft.fits_url and state["id"] is not None:
        return page.redirect("/console/add", {**draft.as_query(), "import": state["id"]})
    return await _show_state(page, draft, state)


async def _show_state(page: Page, draft: Draft, state: Mapping[str, Any]) -> Response:
    """Show a preview by its state: progress, what is wrong with the source, or what it would make."""
    if state["state"] == "running":
        sealed = "" if draft.fits_url else await draft.sealed(page.services.vault, page.principal.key_id)
        return page.render("add_progress.html", draft=draft, state=state, sealed=sealed)
    problem = problem_of_import(dict(state))
    if problem is not None:
        return await _render_source_problem(page, draft, problem)
    return await _preview_page(page, draft, state)


async def _preview_page(
    page: Page,
    draft: Draft,
    state: Mapping[str, Any],
    *,
    problem: ApiProblem | None = None,
    values: Mapping[str, Any] | None = None,
    submission: Submission | None = None,
    status: int = 200,
) -> Response:
    result = state["result"]
    sealed = "" if draft.fits_url else await draft.sealed(page.services.vault, page.principal.key_id)
    common = {"draft": draft, "sealed": sealed, "import_id": state["id"], "problem": problem}
    if "entries" in result:
        return page.render("add_batch.html", batch=BatchView(result), status=status, **common)
    name = draft.name or await _free_name(page, legal_name(result["title"] or draft.proposed_name()))
    errors = [] if problem is None else [_move_below_credentials(one) for one in problem.field_errors]
    may_store = page.may("PUT /providers/{name}/credentials/{slot}")
    forms = await CredentialForms.load(page, result["slots"] if may_store else [])
    return page.render(
        "add_preview.html",
        status=status,
        preview=PreviewView(result),
        provider_name=name,
        name_taken=bool(draft.name and result["exists"]),
        slots=forms.views(values, [one for one in errors if one is not None], submission),
        may_store=may_store,
        errors={} if problem is None else _group_by_field(problem),
        commands=draft.commands(name, result["slots"]),
        **common,
    )


async def _free_name(page: Page, name: str) -> str:
    """Return the name, with a number behind it where there is a provider of this name."""
    for number in range(1, 10):
        proposed = name if number == 1 else f"{name[:47]}-{number}"
        response = await page.api.send("GET", path_of("providers", proposed), check=False)
        if response.status == 404:
            return proposed
        if response.status != 200:
            break
    return name


async def _list_tools(page: Page, provider: str) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    cursor: str | None = None
    while len(tools) < _MAX_LISTED:
        query = {"provider": provider, "limit": _PAGE, "cursor": cursor}
        answer = await page.api.get("/tools", query)
        tools += answer["items"]
        cursor = answer["next_cursor"]
        if cursor is None:
            break
    return tools


async def _choose_tried(page: Page, tools: list[dict[str, Any]], missing: set[str]) -> list[dict[str, Any]]:
    """Return the tools that are easiest to try: they change nothing, and need no absent credential."""
    ranked: list[tuple[int, int, dict[str, Any]]] = []
    candidates = [candidate for candidate in tools if candidate["enabled"] and not candidate["deprecated"]]
    for tool in sorted(candidates, key=lambda candidate: not candidate["annotations"]["read_only"])[:30]:
        details = await page.api.get(path_of("tools", tool["name"]))
        alternatives = details["security"]
        is_locked = bool(alternatives) and all(
            any(slot["slot"] in missing for slot in candidate) for candidate in alternatives
        )
        required = len(details["inputs"].get("required") or ())
        ranked.append((2 * is_locked + (not tool["annotations"]["read_only"]), required, tool))
    ranked.sort(key=lambda candidate: candidate[:2])
    return [tool for _, _, tool in ranked[:_TRIED]]


def _group_by_field(problem: ApiProblem) -> dict[str, str]:
    """Return the texts of field errors by the names of the fields of these forms."""
    texts: dict[str, str] = {}
    for error in problem.field_errors:
        name = str(error.get("pointer", "")).removeprefix("#").strip("/").removeprefix("options/")
        name = {"source/url": "url", "server_variables": "server"}.get(name, name)
        texts[name] = " ".join(filter(None, (texts.get(name), str(error.get("detail", "")))))
    if problem.status == 409 and "name" not in texts:
        texts["name"] = problem.detail
    return texts


def _move_below_credentials(error: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return an error with its pointer below the credentials; None for one of another part."""
    pointer = str(error.get("pointer", "")).removeprefix("#")
    if not pointer.startswith("/credentials/"):
        return None
    return {**error, "pointer": pointer.removeprefix("/credentials")}
