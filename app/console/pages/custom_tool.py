"""`/console/add/tool`: a tool that is written by hand, with the call template of any protocol."""

from typing import Any

from starlette.responses import Response

from app.console.forms.schema_form.controls import Unreadable, json_text, read_json
from app.console.http.api_client import ApiProblem
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.notices import Notice
from app.core.secret_names import is_secret_name

router = PageRouter()

METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE")
_FIELDS = ("provider", "name", "description", "method", "url", "inputs", "template")
_EXAMPLE = """{
  "type": "object",
  "properties": {"id": {"type": "string", "description": "Id of an order"}},
  "required": ["id"]
}"""


@router.get("/console/add/tool")
async def show_custom_tool(page: Page) -> Response:
    """Show the form of a custom tool."""
    return _render_page(page, {"provider": page.query.get("provider", ""), "inputs": _EXAMPLE})


@router.post("/console/add/tool", recent=False)
async def create_custom_tool(page: Page) -> Response:
    """Create the tool, and go to its page."""
    form = await page.form()
    given = {name: str(form.get(name, "")).strip() for name in _FIELDS}
    errors: dict[str, str] = {}
    inputs = _read_json(page, given["inputs"] or "{}", "inputs", errors)
    template: Any = {"http_method": given["method"] or "GET", "url": given["url"]}
    if given["template"]:
        template = _read_json(page, given["template"], "template", errors)
    elif not given["url"]:
        errors["url"] = page.gettext("Enter the URL that the tool calls.")
    if errors:
        given["template"] = _mask_template(given["template"], template)
        return _render_page(page, given, errors=errors, status=422)
    body = {
        "provider": given["provider"],
        "name": given["name"],
        "description": given["description"],
        "inputs": inputs,
        "call_template": template,
    }
    try:
        created = await page.api.post("/tools", body)
    except ApiProblem as problem:
        given["template"] = _mask_template(given["template"], template)
        return _render_page(
            page, given, problem=problem, errors=_group_by_field(problem), status=problem.status
        )
    return page.redirect(f"/console/tools/{created['name']}", notice=Notice("created"))


def _render_page(
    page: Page,
    values: dict[str, str],
    *,
    problem: ApiProblem | None = None,
    errors: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    shown = {name: values.get(name, "") for name in _FIELDS}
    return page.render(
        "add_tool.html", status=status, values=shown, methods=METHODS, problem=problem, errors=errors or {}
    )


def _mask_template(text: str, template: Any) -> str:
    """Return the text of a call template without its secrets, which are no part of a page."""
    if not text or template is None:
        return text
    shown = _without_secrets(template)
    return text if shown == template else json_text(shown)


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(one) for one in value]
    if isinstance(value, dict):
        return {
            name: "" if isinstance(one, str) and is_secret_name(name) else _without_secrets(one)
            for name, one in value.items()
        }
    return value


def _read_json(page: Page, text: str, name: str, errors: dict[str, str]) -> Any:
    try:
        return read_json(text)
    except Unreadable as error:
        errors[name] = error.text(page.gettext)
        return None


def _group_by_field(problem: ApiProblem) -> dict[str, str]:
    texts: dict[str, str] = {}
    for error in problem.field_errors:
        pointer = str(error.get("pointer", "")).removeprefix("#").strip("/")
        name = pointer.partition("/")[0]
        name = (
            "url"
            if pointer.startswith("call_template/url")
            else {"call_template": "template"}.get(name, name)
        )
        texts[name] = " ".join(filter(None, (texts.get(name), str(error.get("detail", "")))))
    return texts
