"""`/console/plugins`: the catalogue of ready providers, and enabling one with what it needs."""

from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.views.notices import Notice

router = PageRouter()

_STATES: Final = ("enabled", "off")


@router.get("/console/plugins")
async def list_plugins(page: Page) -> Response:
    """List the catalogue."""
    state = page.query.get("state")
    plugins = await page.api.get(
        "/plugins",
        {
            "q": page.query.get("q"),
            "state": state if state in _STATES else None,
            "cursor": page.query.get("cursor"),
            "limit": PAGE_SIZE,
        },
    )
    return page.render(
        "plugins.html",
        plugins=plugins["items"],
        next_cursor=plugins["next_cursor"],
        total=plugins["total"],
        state=state,
    )


@router.get("/console/plugins/{name}")
async def show_plugin(page: Page) -> Response:
    """Show what a plugin has and needs."""
    return await _render_page(page)


@router.post("/console/plugins/{name}", recent=True)
async def enable_plugin(page: Page) -> Response:
    """Enable the plugin, or change its configuration, with the values of the form."""
    form = await page.form()
    name = page.parameter("name")
    plugin = await page.api.get(path_of("plugins", name))
    given, errors = _read_settings(page, plugin, form)
    if errors:
        return await _render_page(page, given=given, errors=errors, status=422)
    credentials = {
        one["slot"]: str(form.get(f"credential.{one['slot']}", "")).strip() for one in plugin["credentials"]
    }
    body = {"settings": given, "credentials": {slot: text for slot, text in credentials.items() if text}}
    try:
        await page.api.put(path_of("plugins", name), body)
    except ApiProblem as problem:
        return await _render_page(page, given=given, problem=problem, status=problem.status)
    if plugin["state"] == "enabled":
        return page.redirect(f"/console/plugins/{name}", notice=Notice("saved"))
    return page.redirect("/console/add/done", {"provider": name}, notice=Notice("plugin-enabled"))


@router.post("/console/plugins/{name}/disable", recent=True)
async def disable_plugin(page: Page) -> Response:
    """Delete the provider and the toolset of the plugin, whose name was typed."""
    name = page.parameter("name")
    if str((await page.form()).get("typed", "")).strip() != name:
        errors = {"typed": page.gettext("This is not the name of the plugin.")}
        return await _render_page(page, errors=errors, status=422)
    try:
        await page.api.delete(path_of("plugins", name))
    except ApiProblem as problem:
        return await _render_page(page, problem=problem, status=problem.status)
    return page.redirect("/console/plugins", notice=Notice("plugin-disabled", subject=name))


async def _render_page(
    page: Page,
    *,
    given: dict[str, Any] | None = None,
    errors: dict[str, str] | None = None,
    problem: ApiProblem | None = None,
    status: int = 200,
) -> Response:
    plugin = await page.api.get(path_of("plugins", page.parameter("name")))
    values = {
        one["name"]: one["value"] if one["value"] is not None else one["default"]
        for one in plugin["settings"]
    }
    errors_by_field = dict(errors or {})
    for error in () if problem is None else problem.field_errors:
        pointer = str(error.get("pointer", "")).removeprefix("#").strip("/").split("/")
        if len(pointer) > 1:
            errors_by_field[f"{pointer[0].removesuffix('s')}.{pointer[1]}"] = str(error.get("detail", ""))
    return page.render(
        "plugin.html",
        status=status,
        plugin=plugin,
        values={**values, **(given or {})},
        errors=errors_by_field,
        problem=problem,
    )


def _read_settings(
    page: Page, plugin: dict[str, Any], form: FormData
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the settings of the form, typed, and what is wrong with them."""
    given: dict[str, Any] = {}
    errors: dict[str, str] = {}
    for setting in plugin["settings"]:
        name = setting["name"]
        text = str(form.get(f"setting.{name}", "")).strip()
        if setting["type"] == "boolean":
            given[name] = text == "1"
        elif not text:
            continue
        elif setting["type"] == "integer":
            try:
                given[name] = int(text)
            except ValueError:
                given[name] = text
                errors[f"setting.{name}"] = page.gettext("Enter a whole number.")
        else:
            given[name] = text
    return given, errors
