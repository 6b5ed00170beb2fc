"""`/console/providers/{name}/credentials` and `/variables`: what a provider sends, never its values."""

from typing import Any

from starlette.responses import Response

from app.console.forms.credential_forms import CredentialForms
from app.console.forms.schema_form import Submission
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.pages.provider import base, by_field, render_provider
from app.console.views.notices import Notice

router = PageRouter()


@router.get("/console/providers/{name}/credentials")
async def list_credentials(page: Page) -> Response:
    """Show the slots of a provider, and what is stored for each."""
    name = page.parameter("name")
    provider = await page.api.get(path_of("providers", name))
    stored = {one["slot"]: one for one in provider["credentials"]}
    declared = {one["slot"]: one for one in provider["slots"]}
    names = [*declared, *(slot for slot in stored if slot not in declared)]
    rows = [(slot, declared.get(slot), stored.get(slot)) for slot in names]
    return await render_provider(
        page, "provider_credentials.html", "credentials", provider=provider, rows=rows
    )


@router.get("/console/providers/{name}/credentials/{slot}")
async def show_credential(page: Page) -> Response:
    """Show the form with which a credential is stored or replaced."""
    return await _render_form(page)


@router.post("/console/providers/{name}/credentials/{slot}", recent=True)
async def store_credential(page: Page) -> Response:
    """Store the credential of the form; the page that follows has none of its values."""
    name, slot = page.parameter("name"), page.parameter("slot")
    provider = await page.api.get(path_of("providers", name))
    forms = await CredentialForms.load(page, [_find_slot(provider, slot)], with_origins=True)
    submission = forms.submitted(await page.form())
    if submission.is_edit:
        return await _render_form(page, submission=submission)
    filled = forms.filled_in(submission)
    if slot not in filled:
        return await _render_form(page, empty=True, status=422)
    body = filled[slot]
    try:
        await page.api.put(path_of("providers", name, "credentials", slot), body)
    except ApiProblem as problem:
        return await _render_form(page, values={slot: body}, problem=problem, status=problem.status)
    return page.redirect(f"{base(page)}/credentials", notice=Notice("credential-stored", subject=slot))


@router.post("/console/providers/{name}/credentials/{slot}/delete", recent=True)
async def delete_credential(page: Page) -> Response:
    """Delete a credential."""
    name, slot = page.parameter("name"), page.parameter("slot")
    await page.api.delete(path_of("providers", name, "credentials", slot))
    return page.redirect(f"{base(page)}/credentials", notice=Notice("credential-deleted", subject=slot))


@router.get("/console/providers/{name}/variables")
async def list_variables(page: Page) -> Response:
    """Show the variables of a provider; the values of secret ones are never shown."""
    return await _render_variables(page)


@router.post("/console/providers/{name}/variables", recent=True)
async def store_variable(page: Page) -> Response:
    """Store the variable of the form."""
    form = await page.form()
    name, value = str(form.get("variable", "")).strip(), str(form.get("value", ""))
    secret = form.get("secret") == "1"
    if not name or "/" in name:
        errors = {"variable": page.gettext("Enter a name: letters, digits and underscores.")}
        return await _render_variables(page, name=name, secret=secret, errors=errors, status=422)
    path = path_of("providers", page.parameter("name"), "variables", name)
    try:
        await page.api.put(path, {"value": value, "secret": secret})
    except ApiProblem as problem:
        errors = dict(by_field(problem))
        return await _render_variables(
            page, name=name, secret=secret, errors=errors, problem=problem, status=problem.status
        )
    return page.redirect(f"{base(page)}/variables", notice=Notice("variable-stored", subject=name))


@router.post("/console/providers/{name}/variables/{variable}/delete", recent=True)
async def delete_variable(page: Page) -> Response:
    """Delete a variable."""
    name = page.parameter("variable")
    await page.api.delete(path_of("providers", page.parameter("name"), "variables", name))
    return page.redirect(f"{base(page)}/variables", notice=Notice("variable-deleted", subject=name))


async def _render_form(
    page: Page,
    *,
    values: dict[str, Any] | None = None,
    submission: Submission | None = None,
    problem: ApiProblem | None = None,
    empty: bool = False,
    status: int = 200,
) -> Response:
    name, slot = page.parameter("name"), page.parameter("slot")
    provider = await page.api.get(path_of("providers", name))
    if all(slot != one["slot"] for one in (*provider["slots"], *provider["credentials"])):
        return page.render("not_found.html", status=404)
    listed = await page.api.get(path_of("providers", name, "credentials"))
    destination = next((one for one in listed["destinations"] if one["slot"] == slot), None)
    stored = _find_stored(provider, slot)
    if values is None and submission is None and stored is not None:
        values = {slot: {**stored["public"], "kind": stored["exact_kind"]}}
    errors = (
        []
        if problem is None
        else [
            {**one, "pointer": f"/{slot}" + str(one.get("pointer", "")).removeprefix("#")}
            for one in problem.field_errors
        ]
    )
    forms = await CredentialForms.load(page, [_find_slot(provider, slot)], with_origins=True)
    return await render_provider(
        page, "provider_credential.html", "credentials", status=status, provider=provider, slot=slot,
        slots=forms.views(values, errors, submission), stored=stored, destination=destination,
        problem=problem, empty=empty,
    )  # fmt: skip


async def _render_variables(
    page: Page,
    *,
    name: str = "",
    secret: bool = True,
    errors: dict[str, str] | None = None,
    problem: ApiProblem | None = None,
    status: int = 200,
) -> Response:
    path = path_of("providers", page.parameter("name"), "variables")
    listed = await page.api.get(path, {"limit": PAGE_SIZE, "cursor": page.query.get("cursor")})
    return await render_provider(
        page, "provider_variables.html", "variables", status=status, variables=listed["items"],
        next_cursor=listed["next_cursor"], name_given=name, secret=secret, errors=errors or {},
        problem=problem,
    )  # fmt: skip


def _find_slot(provider: dict[str, Any], name: str) -> dict[str, Any]:
    """Return the slot of a provider; one that its source does not declare takes any kind."""
    declared = next((one for one in provider["slots"] if one["slot"] == name), None)
    if declared is not None:
        return dict(declared)
    stored = _find_stored(provider, name)
    kind = "any" if stored is None else stored["exact_kind"]
    return {
        "slot": name, "kind": kind, "exact_kind": kind, "scheme": None, "location": None, "name": None,
        "token_url": None, "scopes": [], "description": None, "values": None, "stored": stored is not None,
    }  # fmt: skip


def _find_stored(provider: dict[str, Any], slot: str) -> dict[str, Any] | None:
    credential: dict[str, Any] | None = next(
        (one for one in provider["credentials"] if one["slot"] == slot), None
    )
    return credential
