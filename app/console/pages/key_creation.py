"""`/console/keys/new` and `/console/keys/{key_id}/edit`: the form of a key, and the key's text, shown once.

The text of a new key stands in the response to the submitted form only. A form has an Idempotency-Key of its
own: where it is submitted again, by a reload, no other key is made, and the text is not shown again.
"""

from datetime import UTC, datetime
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from app.console.forms.key_form import KeyForm, field_errors
from app.console.http.api_client import ApiProblem, ApiResponse, path_of
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.key_snippets import key_snippets
from app.console.views.key_words import ROLES
from app.console.views.notices import Notice
from app.core.uuid7 import uuid7

router = PageRouter()

CHOICES_MAX: Final = 30
"""So many names are offered as check boxes; with more of them, names are typed."""


@router.get("/console/keys/new")
async def new_key(page: Page) -> Response:
    """Show the form of a new key, filled in by the URL."""
    form = KeyForm.from_query(page.query)
    return await _render_form(page, form)


@router.post("/console/keys/new", recent=True)
async def create_key(page: Page) -> Response:
    """Create a key, with `tools` also the toolset that it is limited to, and show the key's text once."""
    submitted = await page.form()
    form = KeyForm.from_form(submitted)
    once = once_header(submitted)
    toolset: dict[str, Any] | None = None
    try:
        if form.tools:
            toolset = await _create_toolset(page, form, once)
    except ApiProblem as problem:
        errors = {**field_errors(problem.field_errors), "toolset_name": problem.detail}
        return await _render_form(page, form, problem=problem, errors=errors)
    except _UnknownTools as unknown:
        return await _render_form(page, form, errors={"tools": str(unknown)})
    try:
        body = form.key_body(datetime.now(UTC).date())
        response = await page.api.send("POST", "/keys", json=body, headers=once)
    except ApiProblem as problem:
        if toolset is not None:
            await _delete_toolset(page, toolset)
        return await _render_form(page, form, problem=problem)
    return await render_created(page, response)


@router.get("/console/keys/{key_id}/edit")
async def edit_key(page: Page) -> Response:
    """Show the form of a key."""
    response = await page.api.send("GET", path_of("keys", page.parameter("key_id")))
    key = response.json()
    return await _render_form(page, KeyForm.from_key(key), key=key, tag=response.headers["etag"])


@router.post("/console/keys/{key_id}/edit", recent=True)
async def save_key(page: Page) -> Response:
    """Store the members in which the form differs from the key, unless the key has changed meanwhile."""
    path = path_of("keys", page.parameter("key_id"))
    key = await page.api.get(path)
    submitted = await page.form()
    form, tag = KeyForm.from_form(submitted), str(submitted.get("etag", ""))
    try:
        await page.api.patch(path, form.patch_body(key, datetime.now(UTC).date()), if_match=tag or "*")
    except ApiProblem as problem:
        return await _render_form(page, form, problem=problem, key=key, tag=tag)
    return page.redirect(f"/console{path}", notice=Notice("saved"))


async def render_created(
    page: Page, response: ApiResponse, *, rotated: dict[str, Any] | None = None
) -> Response:
    """Return the page with the text of a new key, or, where the form was submitted before, that of the key
    without its text. `rotated` is the key whose successor it is.
    """
    key = response.json()
    text = key.pop("key")
    if response.headers.get("idempotency-replayed") == "true":
        return page.redirect(f"/console{path_of('keys', key['id'])}", notice=Notice("key-shown-once"))
    names = key["toolsets"] or []
    toolset: dict[str, Any] | None = None
    if len(names) == 1 and page.may("GET /toolsets/{name}"):
        # Whatever this responds: the text of the key must be shown.
        found = await page.api.send("GET", path_of("toolsets", names[0]), check=False)
        toolset = found.json() if found.status == 200 else None
    base_url = page.services.settings.public_base_url or str(page.request.base_url)
    shown = key_snippets(base_url=base_url, toolset=names[0] if names else None)
    return page.render(
        "key_created.html",
        status=201,
        key=key,
        text=text,
        rotated=rotated,
        toolset=toolset,
        snippets=shown if "tools:call" in key["scopes"] or "admin" in key["scopes"] else (),
    )


class _UnknownTools(Exception):
    """Tools of the form do not exist; the text says which."""


async def _create_toolset(page: Page, form: KeyForm, once: dict[str, str]) -> dict[str, Any]:
    created: dict[str, Any] = (
        await page.api.send("POST", "/toolsets", json=form.toolset_body(), headers=once)
    ).json()
    if created["problems"]:
        await _delete_toolset(page, created)
        raise _UnknownTools(" ".join(f"{one['name']}: {one['detail']}" for one in created["problems"]))
    return created


async def _delete_toolset(page: Page, toolset: dict[str, Any]) -> None:
    """Delete the toolset of a key that could not be created, unless somebody has changed it."""
    tag = f'"{toolset["version"]}"'
    path = path_of("toolsets", toolset["name"])
    await page.api.send("DELETE", path, headers={"If-Match": tag}, check=False)


async def _render_form(
    page: Page,
    form: KeyForm,
    *,
    problem: ApiProblem | None = None,
    errors: dict[str, str] | None = None,
    key: dict[str, Any] | None = None,
    tag: str = "",
) -> Response:
    """Return the page with the form; with what was rejected, where something was."""
    if not page.may("POST /keys"):
        # The API says which scope is missing.
        await page.api.get("/keys", {"limit": 1})
    me = await page.api.get("/me")
    scopes = (await page.api.get("/scopes"))["items"]
    grantable = [one for one in scopes if me["is_admin"] or one["name"] in me["scopes"]]
    held = {one["name"] for one in grantable}
    errors = errors or field_errors(problem.field_errors if problem else ())
    return page.render(
        "key_form.html",
        status=problem.status if problem else 422 if errors else 200,
        form=form,
        key=key,
        etag=tag,
        me=me,
        scopes=grantable,
        roles=[role for role in ROLES if role.scopes <= held],
        toolsets=await _list_names(page, "GET /toolsets", "/toolsets"),
        providers=await _list_names(page, "GET /providers", "/providers"),
        problem=problem,
        errors=errors,
        once=once_key(),
    )


def once_key() -> str:
    """Return the Idempotency-Key of a form that makes something."""
    return f"console-{uuid7()}"


def once_header(submitted: FormData) -> dict[str, str]:
    """Return the header with the Idempotency-Key of a submitted form, if it has one."""
    given = str(submitted.get("once", ""))
    return {"Idempotency-Key": given} if given else {}


async def _list_names(page: Page, operation: str, path: str) -> list[str]:
    """Return the names of all items of a list, or none where there are more than CHOICES_MAX."""
    if not page.may(operation):
        return []
    listed = await page.api.get(path, {"limit": CHOICES_MAX, "sort": "name"})
    return [] if listed["next_cursor"] else [one["name"] for one in listed["items"]]
