"""`/console/toolsets`: create, edit and delete toolsets, add and remove members, and change single tools."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.datastructures import FormData
from starlette.responses import Response

from app.console.forms.toolset_form import (
    InvalidForm,
    body_of,
    empty_fields,
    fields_of,
    preset_of,
    writable,
)
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.notices import Notice
from app.console.views.tool_selection import ToolSelection
from app.core.text import split_pointer

router = PageRouter()

_LIST: Final = "/console/toolsets"
_PRESET: Final = "preset:"


@router.get("/console/new-toolset")
async def show_new_toolset(page: Page) -> Response:
    """Show the form of a new toolset; tools of the URL are its members."""
    names = await ToolSelection.of(page.query).resolve(page.api)
    return page.render(
        "toolset_form.html",
        fields=empty_fields(tools="\n".join(names)),
        toolset=None,
        problem=None,
        errors={},
    )


@router.post("/console/new-toolset", recent=False)
async def create_toolset(page: Page) -> Response:
    """Create a toolset of the form."""
    form = await page.form()
    name = str(form.get("name", "")).strip()
    try:
        body = {**body_of(form, {}), "name": name}
        created = await page.api.post("/toolsets", body)
    except (ApiProblem, InvalidForm) as error:
        return _render_form_again(page, form, None, error)
    return page.redirect(f"{_LIST}/{created['name']}", notice=Notice("created"))


@router.get("/console/toolsets/{name}/edit")
async def show_edit(page: Page) -> Response:
    """Show the form of a toolset."""
    toolset = await _read_toolset(page)
    return page.render(
        "toolset_form.html",
        fields=fields_of(toolset),
        toolset=toolset,
        problem=None,
        errors={},
    )


@router.post("/console/toolsets/{name}/edit", recent=True)
async def edit_toolset(page: Page) -> Response:
    """Replace a toolset by what the form has."""
    form = await page.form()
    toolset = await _read_toolset(page)
    version = str(form.get("version") or toolset["version"])
    try:
        body = body_of(form, toolset["definition"] or {})
        await page.api.put(path_of("toolsets", toolset["name"]), body, if_match=f'"{version}"')
    except (ApiProblem, InvalidForm) as error:
        return _render_form_again(page, form, toolset, error)
    return page.redirect(f"{_LIST}/{toolset['name']}", notice=Notice("saved"))


@router.post("/console/toolsets/{name}/delete", recent=True)
async def delete_toolset(page: Page) -> Response:
    """Delete a toolset whose name was typed."""
    name = page.parameter("name")
    form = await page.form()
    if str(form.get("typed", "")).strip() != name:
        return page.redirect(f"{_LIST}/{name}", notice=Notice("type-the-name"))
    await page.api.delete(path_of("toolsets", name))
    return page.redirect(_LIST, notice=Notice("deleted", subject=name))


@router.get("/console/toolset-members")
async def choose_toolset(page: Page) -> Response:
    """Show to which toolset the selected tools can be added."""
    selection = ToolSelection.of(page.query)
    names = await selection.resolve(page.api)
    if not names:
        return page.redirect("/console/tools", selection.filters, notice=Notice("tools-none-selected"))
    listed = await page.api.get("/toolsets", {"limit": 200, "sort": "name"})
    return page.render(
        "toolset_choice.html", names=names, fields=selection.fields(), toolsets=listed["items"]
    )


@router.post("/console/toolset-members", recent=True)
async def change_members(page: Page) -> Response:
    """Add the selected tools to a toolset, or remove them from it."""
    form = await page.form()
    names = await ToolSelection.of(form).resolve(page.api)
    name = str(form.get("toolset", ""))
    toolset = await page.api.get(path_of("toolsets", name))
    before = _get_definition(toolset)
    tools = list(before.get("tools", ()))
    is_removal = form.get("action") == "remove"
    if is_removal:
        after = [one for one in tools if one not in set(names)]
        changed = [one for one in tools if one in set(names)]
    else:
        changed = [one for one in names if one not in tools]
        after = [*tools, *changed]
    await _put(page, toolset, {**before, "tools": after})
    undo_fields = [("toolset", name), ("action", "add" if is_removal else "remove")]
    undo_fields += [("tool", one) for one in changed]
    is_short = bool(changed) and sum(map(len, changed)) < 6_000
    notice = Notice(
        "toolset-removed" if is_removal else "toolset-added",
        len(changed),
        undo="/console/toolset-members" if is_short else "",
        undo_fields=tuple(undo_fields) if is_short else (),
    )
    return page.redirect(f"{_LIST}/{name}", notice=notice)


@router.get("/console/toolsets/{name}/tools/{tool}")
async def show_member(page: Page) -> Response:
    """Show what differs for one tool in a toolset."""
    toolset = await _read_toolset(page)
    return await _render_member_form(page, toolset, _get_definition(toolset).get("changes", {}), None)


@router.post("/console/toolsets/{name}/tools/{tool}", recent=True)
async def change_member(page: Page) -> Response:
    """Set the name, texts and preset arguments of one tool in a toolset."""
    form = await page.form()
    toolset, tool = await _read_toolset(page), page.parameter("tool")
    before = _get_definition(toolset)
    changes = dict(before.get("changes", {}))
    try:
        change = _change(form)
        if change:
            changes[tool] = change
        else:
            changes.pop(tool, None)
        await _put(page, toolset, {**before, "changes": changes})
    except (ApiProblem, InvalidForm) as error:
        return await _render_member_form(page, toolset, changes, error, form)
    return page.redirect(f"{_LIST}/{toolset['name']}", notice=Notice("saved", subject=tool))


async def _read_toolset(page: Page) -> Mapping[str, Any]:
    toolset: Mapping[str, Any] = await page.api.get(path_of("toolsets", page.parameter("name")))
    return toolset


def _get_definition(toolset: Mapping[str, Any]) -> dict[str, Any]:
    return writable(toolset["definition"] or {})


async def _put(page: Page, toolset: Mapping[str, Any], definition: Mapping[str, Any]) -> None:
    body = {"title": toolset["title"], "description": toolset["description"], "definition": definition}
    await page.api.put(path_of("toolsets", toolset["name"]), body, if_match=f'"{toolset["version"]}"')


def _change(form: FormData) -> dict[str, Any]:
    """Return the change of one tool that a form has; {} where nothing differs. Raises InvalidForm."""
    change: dict[str, Any] = {}
    for name in ("name", "title", "description"):
        text = str(form.get(name, "")).strip()
        if text:
            change[name] = text
    presets = {}
    for name, value in form.multi_items():
        text = str(value).strip()
        if name.startswith(_PRESET) and text:
            presets[name.removeprefix(_PRESET)] = preset_of(name, text)
    if presets:
        change["presets"] = presets
    return change


def _get_description(schema: Any) -> str:
    """Return the description of an input; a schema may be `true`."""
    text = schema.get("description") if isinstance(schema, Mapping) else None
    return text if isinstance(text, str) else ""


def _name_preset(pointer: str) -> str:
    """Return the name of a preset: that of an input, or a JSON pointer where it is inside of one."""
    parts = split_pointer(pointer) if pointer.startswith("/") else (pointer,)
    return parts[0] if len(parts) == 1 else pointer


def _render_form_again(
    page: Page, form: FormData, toolset: Mapping[str, Any] | None, error: ApiProblem | InvalidForm
) -> Response:
    """Return the form with its values and what is wrong with them."""
    fields = empty_fields() | {name: str(value) for name, value in form.items()}
    is_problem = isinstance(error, ApiProblem)
    return page.render(
        "toolset_form.html",
        status=error.status if isinstance(error, ApiProblem) else 422,
        fields=fields,
        toolset=toolset,
        problem=error if is_problem else None,
        errors={} if isinstance(error, ApiProblem) else {error.field: error.detail},
    )


async def _render_member_form(
    page: Page,
    toolset: Mapping[str, Any],
    changes: Mapping[str, Any],
    error: ApiProblem | InvalidForm | None,
    form: FormData | None = None,
) -> Response:
    tool = page.parameter("tool")
    known = await page.api.get(path_of("tools", tool))
    change = changes.get(tool, {})
    presets = {_name_preset(at): value for at, value in change.get("presets", {}).items()}
    properties: Mapping[str, Any] = known["inputs"].get("properties", {})
    names = [*properties, *(name for name in presets if name not in properties)]
    given = {} if form is None else {name: str(value) for name, value in form.items()}
    status = 200 if error is None else error.status if isinstance(error, ApiProblem) else 422
    return page.render(
        "toolset_member.html",
        status=status,
        toolset=toolset,
        tool=known,
        change={name: given.get(name, change.get(name) or "") for name in ("name", "title", "description")},
        inputs=[
            {
                "name": name,
                "field": _PRESET + name,
                "description": _get_description(properties.get(name)),
                "is_preset": name in presets,
                "value": presets.get(name),
                "text": given.get(_PRESET + name),
            }
            for name in names
        ],
        problem=error if isinstance(error, ApiProblem) else None,
        errors={error.field: error.detail} if isinstance(error, InvalidForm) else {},
    )
