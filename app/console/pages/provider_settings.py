"""`/console/providers/{name}/settings`: description, tags, language, limits and options of a provider."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from app.console.forms.schema_form import Submission, build, parse
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.api_schemas import api_components, is_secret, without_null
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.pages.provider import base, render_provider
from app.console.views.notices import Notice

router = PageRouter()

_GROUPS: Final = {"limits": "LimitsInput", "options": "OptionsInput"}
_FIELDS: Final = ("description", "tags", "language")


@router.get("/console/providers/{name}/settings")
async def show_settings(page: Page) -> Response:
    """Show the form of a provider's settings."""
    provider = await page.api.get(path_of("providers", page.parameter("name")))
    return await _render_page(page, provider)


@router.post("/console/providers/{name}/settings", recent=True)
async def change_settings(page: Page) -> Response:
    """Change what the form has changed, unless somebody else has changed the provider since."""
    form = await page.form()
    name = page.parameter("name")
    provider = await page.api.get(path_of("providers", name))
    components = await api_components(page)
    submitted = parse(_list_texts(form), _build_schema(components), page.gettext)
    values = submitted.value if isinstance(submitted.value, dict) else {}
    if submitted.is_edit or submitted.errors:
        status = 200 if submitted.is_edit else 422
        return await _render_page(
            page, provider, form=form, values=values, submission=submitted, status=status
        )
    patch = _patch(components, provider, form, values)
    if not patch:
        return page.redirect(f"{base(page)}/settings")
    try:
        tag = f'"{form.get("version", "")}"'
        await page.api.patch(path_of("providers", name), patch, If_Match=tag)
    except ApiProblem as problem:
        return await _render_page(
            page,
            provider,
            form=form,
            values=values,
            submission=submitted,
            problem=problem,
            status=problem.status,
        )
    return page.redirect(f"{base(page)}/settings", notice=Notice("saved"))


async def _render_page(
    page: Page,
    provider: Mapping[str, Any],
    *,
    form: FormData | None = None,
    values: Mapping[str, Any] | None = None,
    submission: Submission | None = None,
    problem: ApiProblem | None = None,
    status: int = 200,
) -> Response:
    components = await api_components(page)
    shown = (
        {group: provider[group] for group in _GROUPS} if values is None else _drop_secrets(components, values)
    )
    errors = [] if problem is None else problem.field_errors
    view = build(
        _build_schema(components), shown, errors, submission, prefix="settings", gettext=page.gettext
    )
    texts = {
        "description": provider["description"],
        "tags": ", ".join(provider["tags"]),
        "language": provider["language"] or "",
    }
    if form is not None:
        texts = {name: str(form.get(name, "")) for name in _FIELDS}
    return await render_provider(
        page, "provider_settings.html", "settings", status=status, provider=provider, texts=texts, form=view,
        problem=problem,
    )  # fmt: skip


def _build_schema(components: Mapping[str, Any]) -> dict[str, Any]:
    groups = {}
    for group, name in _GROUPS.items():
        members = {key: without_null(member) for key, member in components[name]["properties"].items()}
        groups[group] = {"type": "object", "properties": members, "additionalProperties": False}
    return {
        "type": "object",
        "properties": groups,
        "additionalProperties": False,
        "components": {"schemas": components},
    }


def _drop_secrets(components: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, Any]:
    """Return submitted values without the secrets among them."""
    values_shown: dict[str, Any] = {}
    for group, name in _GROUPS.items():
        members = components[name]["properties"]
        given = values.get(group)
        if isinstance(given, dict):
            values_shown[group] = {
                key: one for key, one in given.items() if not is_secret(members.get(key, {}))
            }
    return values_shown


def _patch(
    components: Mapping[str, Any], provider: Mapping[str, Any], form: FormData, values: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the members that differ from what is stored; null for what was removed."""
    tags = [one.strip() for one in str(form.get("tags", "")).split(",") if one.strip()]
    texts = {
        "description": str(form.get("description", "")).replace("\r\n", "\n"),
        "tags": tags,
        "language": str(form.get("language", "")).strip() or None,
    }
    patch: dict[str, Any] = {name: value for name, value in texts.items() if value != provider[name]}
    for group, component in _GROUPS.items():
        submitted = values.get(group)
        given: dict[str, Any] = submitted if isinstance(submitted, dict) else {}
        stored = provider[group]
        secrets = {key for key, one in components[component]["properties"].items() if is_secret(one)}
        names = [*given, *(key for key in stored if key not in given)]
        changed = {key: given.get(key) for key in names if given.get(key) != stored.get(key)}
        changed = {key: value for key, value in changed.items() if value or key not in secrets}
        if changed:
            patch[group] = changed
    return patch


def _list_texts(form: FormData) -> list[tuple[str, str | bytes]]:
    return [(name, value) for name, value in form.multi_items() if isinstance(value, str)]
