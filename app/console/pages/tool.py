"""`/console/tools/{name}`: one tool: try it, its definition, what changed, its calls, and who may call it."""

import json
import secrets
from collections.abc import Mapping
from typing import Any, Final
from uuid import UUID

import orjson
from starlette.responses import Response

from app.console.forms.schema_form import Submission, build
from app.console.forms.schema_form.controls import json_text
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import PAGE_HEADERS, Page
from app.console.http.page_router import PageRouter
from app.console.views.notices import Notice
from app.console.views.snippets import snippets
from app.console.views.tool_inputs import input_rows
from app.console.views.tool_rows import effect_of, state_badges
from app.console.views.tool_trial import (
    Trial,
    TrialResult,
    call,
    download_name,
    dry_run,
    linked_arguments,
    read_arguments,
    read_trial,
    send_call,
)
from app.console.views.values import highlighted, json_changes, paragraphs, word_diff
from app.core import exact_json
from app.core.media_types import parse_essence

router = PageRouter()

_PATH: Final = "/console/tools/{name}"
_CALLS: Final = 20
_VERSIONS: Final = 10
_KEYS: Final = 100
_MAX_UNDO: Final = 4_000
"""Characters of what an undo restores, which is part of a URL."""
_MAX_SNIPPET: Final = 20_000
"""Characters of arguments that the snippets have; a shell takes no argument of much more."""
_VIEWS: Final = ("try", "definition", "versions", "calls", "access")


def _get_base(page: Page) -> str:
    return "/console" + path_of("tools", page.parameter("name"))


async def _read_tool(page: Page, **query: Any) -> Any:
    return await page.api.get(path_of("tools", page.parameter("name")), query)


def _render(page: Page, template: str, view: str, tool: Mapping[str, Any], **context: Any) -> Response:
    """Return a page of the tool with its head; `view` is the tab."""
    gettext = page.gettext
    allowed = {
        "try": True,
        "definition": True,
        "versions": page.may("GET /tools/{name}/history"),
        "calls": page.may("GET /calls"),
        "access": page.may("GET /explain"),
    }
    labels = {
        "try": gettext(_("Try it")),
        "definition": gettext(_("Definition")),
        "versions": gettext(_("Versions")),
        "calls": gettext(_("Calls")),
        "access": gettext(_("Access")),
    }
    tabs = [
        (labels[one], page.url(_get_base(page), {"view": one if one != "try" else None}), one == view)
        for one in _VIEWS
        if allowed[one]
    ]
    return page.render(
        template,
        tool=tool,
        view=view,
        tabs=tabs,
        base=_get_base(page),
        paragraphs=paragraphs,
        effect=effect_of(tool["annotations"]),
        states=state_badges(page, tool),
        may_edit=page.may("PATCH /tools/{name}"),
        **context,
    )


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


@router.get(_PATH)
async def show_tool(page: Page) -> Response:
    """Show a tool in one of its views."""
    match page.query.get("view", "try"):
        case "definition":
            return await _render_definition(page)
        case "versions":
            return await _render_versions(page)
        case "calls":
            return await _render_calls(page)
        case "access":
            return await _render_access(page)
    tool = await _read_tool(page, full=True)
    if page.query.get("replay"):
        return await _replay(page, tool)
    submission = read_arguments(page, page.query.get("args", ""))
    trial = Trial(submission, as_json=page.query.get("as") == "json")
    return _render_trial(page, tool, trial, record=await _record(page))


async def _replay(page: Page, tool: Mapping[str, Any]) -> Response:
    """Show the form with the recorded arguments of a call, where the key may read them."""
    given = page.query["replay"]
    trial = Trial(Submission({}))
    if page.may("GET /calls/{call_id}/bodies"):
        try:
            bodies = await page.api.get(path_of("calls", given, "bodies"))
        except ApiProblem:
            bodies = {"arguments": None}
        recorded = bodies["arguments"]
        if recorded and not recorded["truncated"] and recorded["text"]:
            trial = Trial(read_arguments(page, recorded["text"]))
    return _render_trial(page, tool, trial, replayed=given, has_recorded=bool(trial.arguments))


async def _record(page: Page) -> Any:
    """Return the record of the call that the URL names; None without one."""
    try:
        given = str(UUID(page.query.get("call", "")))
    except ValueError:
        return None
    if not page.may("GET /calls/{call_id}"):
        return None
    try:
        return await page.api.get(path_of("calls", given))
    except ApiProblem:
        return None


def _render_trial(
    page: Page,
    tool: Mapping[str, Any],
    trial: Trial,
    *,
    result: TrialResult | None = None,
    preview: Any = None,
    confirming: bool = False,
    problem: ApiProblem | None = None,
    **context: Any,
) -> Response:
    """Show the form with what was submitted, and what came of it."""
    schema = tool["inputs"]
    failed = problem or (result.problem if result else None)
    errors = failed.field_errors if failed and (result is None or not result.by_upstream) else []
    submission = trial.submission
    form = None
    if not trial.as_json:
        form = build(schema, submission.value, errors, submission, gettext=page.gettext)
    text = trial.text
    if text is None:
        text = json_text(submission.value)
    settings = page.services.settings
    base_url = settings.public_base_url or str(page.request.base_url).rstrip("/")
    linked = linked_arguments(submission.value, schema)
    called = result.call_id if result and page.may("GET /calls/{call_id}") else None
    given = {"as": "json" if trial.as_json else None, "args": linked}
    state = {
        "trial": trial,
        "form": form,
        "text": text,
        "json_errors": [*submission.errors, *errors] if trial.as_json else [],
        "arguments": json.dumps(submission.value, separators=(",", ":")),
        "result": result,
        "confirming": confirming,
        "request_shown": None if preview is None else _show_request(preview),
        "needs_approval": bool(preview and preview.get("requires_approval")) or tool["requires_approval"],
        "problem": problem,
        "key": trial.key or secrets.token_urlsafe(16),
        "link": page.url(_get_base(page), given) if linked else None,
        "state_url": page.url(_get_base(page), {**given, "call": called}),
        "may_call": page.may("POST /tools/{name}/call"),
        "may_see_call": page.may("GET /calls/{call_id}"),
        "snippets": snippets(
            tool["name"],
            submission.value if len(text) <= _MAX_SNIPPET else {},
            base_url=base_url,
            alias=tool["alias"],
        ),
        "record": None,
        "replayed": None,
        "has_recorded": False,
    }
    return _render(page, "tool.html", "try", tool, **state | context)


def _show_request(preview: Mapping[str, Any]) -> dict[str, Any]:
    """Return the exact request of a dry run as the page shows it: HTTP by lines, anything else as JSON."""
    known = {"method", "url", "headers", "body", "requires_approval"}
    if not {"method", "url"} <= preview.keys():
        rest = {name: value for name, value in preview.items() if name != "requires_approval"}
        return {
            "http": None,
            "json": highlighted(exact_json.dumps(rest, option=orjson.OPT_INDENT_2).decode()),
        }
    headers = preview.get("headers") or {}
    body = preview.get("body")
    shown = body if isinstance(body, str) else exact_json.dumps(body, option=orjson.OPT_INDENT_2).decode()
    rest = {name: value for name, value in preview.items() if name not in known}
    return {
        "http": f"{preview['method']} {preview['url']}",
        "headers": [
            f"{name}: {one}"
            for name, value in headers.items()
            for one in (value if isinstance(value, list) else [value])
        ],
        "body": highlighted(shown) if body is not None else None,
        "json": highlighted(exact_json.dumps(rest, option=orjson.OPT_INDENT_2).decode()) if rest else None,
    }


@router.post(_PATH, recent=False)
async def try_tool(page: Page) -> Response:
    """Call the tool with what was typed, or only show the request; or change the form."""
    tool = await _read_tool(page, full=True)
    trial = await read_trial(page, tool["inputs"])
    match trial.action:
        case "edit":
            return _render_trial(page, tool, Trial(trial.submission, as_json=trial.as_json, text=trial.text))
        case "json" | "form":
            return _switch_form(page, tool, trial)
    if trial.submission.errors:
        return _render_trial(page, tool, trial)
    name = tool["name"]
    if trial.action == "dry_run":
        try:
            return _render_trial(page, tool, trial, preview=await dry_run(page, name, trial.arguments))
        except ApiProblem as problem:
            return _render_trial(page, tool, trial, problem=problem)
    is_safe = tool["annotations"]["read_only"]
    if not is_safe and not trial.is_confirmed:
        return await _ask_question(page, tool, trial)
    if is_safe:
        trial = Trial(trial.submission, as_json=trial.as_json, text=trial.text, action=trial.action)
    if trial.action == "download":
        return await _download(page, name, trial)
    return _render_trial(page, tool, trial, result=await call(page, name, trial))


def _switch_form(page: Page, tool: Mapping[str, Any], trial: Trial) -> Response:
    """Show what was typed as JSON, or as a form; by a URL where it may be in one."""
    as_json = trial.action == "json"
    if trial.submission.errors:
        # What cannot be read stays where it was typed, with what is wrong.
        return _render_trial(page, tool, trial)
    linked = linked_arguments(trial.arguments, tool["inputs"])
    if linked is None and trial.arguments:
        return _render_trial(page, tool, Trial(trial.submission, as_json=as_json))
    return page.redirect(_get_base(page), {"as": "json" if as_json else None, "args": linked})


async def _ask_question(page: Page, tool: Mapping[str, Any], trial: Trial) -> Response:
    """Ask before a call that changes something: show its effects, and the exact request."""
    try:
        preview = await dry_run(page, tool["name"], trial.arguments)
    except ApiProblem as problem:
        if problem.status != 403:
            return _render_trial(page, tool, trial, problem=problem)
        preview = None
    return _render_trial(page, tool, trial, preview=preview, confirming=True)


async def _download(page: Page, name: str, trial: Trial) -> Response:
    """Return the response of a call as a file."""
    response = await send_call(page, name, trial)
    if not 200 <= response.status < 300:
        raise ApiProblem(response)
    media_type = response.headers.get("content-type", "application/octet-stream")
    file = download_name(name, parse_essence(media_type))
    headers = {
        **PAGE_HEADERS,
        "Content-Disposition": f'attachment; filename="{file}"',
        "Content-Security-Policy": "default-src 'none'; sandbox",
    }
    return Response(response.body, headers=headers, media_type=media_type)


async def _render_definition(page: Page, **context: Any) -> Response:
    tool = await _read_tool(page, source=True)
    source = tool["source"]
    changed = tool["description"] != source["description"] and not tool["slimmed"]
    difference = (
        word_diff(source["description"], tool["description"], gettext=page.gettext) if changed else None
    )
    state = {
        "difference": difference,
        "inputs": input_rows(tool["inputs"], page.gettext),
        "outputs": input_rows(tool["outputs"], page.gettext),
        "problem": None,
        "edited": None,
    }
    return _render(page, "tool_definition.html", "definition", tool, **state | context)


@router.post(_PATH + "/edit", recent=False)
async def edit_tool(page: Page) -> Response:
    """Change description, tags and keywords, or go back to those of the source."""
    before = await _read_tool(page, source=True)
    form = await page.form()
    reverted = str(form.get("revert", ""))
    patch: dict[str, Any] = {}
    for name in ("description", "tags", "keywords"):
        if reverted == name:
            patch = {name: None}
            break
        if name not in form:
            continue
        text = str(form[name]).replace("\r\n", "\n")
        value: Any = (
            text if name == "description" else [one.strip() for one in text.split(",") if one.strip()]
        )
        if value != before[name]:
            patch[name] = None if value == before["source"][name] else value
    if not patch:
        return page.redirect(_get_base(page), {"view": "definition"})
    try:
        await _patch(page, patch, str(form.get("version", "")))
    except ApiProblem as problem:
        if problem.status not in (400, 412, 422):
            raise
        edited = {name: str(form.get(name, "")) for name in ("description", "tags", "keywords")}
        return await _render_definition(page, problem=problem, edited=edited)
    return page.redirect(_get_base(page), {"view": "definition"}, notice=_describe_edit(page, before, patch))


async def _patch(page: Page, patch: Mapping[str, Any], version: str) -> Any:
    """Change the tool, and return it; with a version, only where it is still that of the tool."""
    path = path_of("tools", page.parameter("name"))
    if version.isascii() and version.isdigit():
        return await page.api.patch(path, patch, If_Match=f'"{version}"')
    return await page.api.patch(path, patch)


def _describe_edit(page: Page, before: Mapping[str, Any], patch: Mapping[str, Any]) -> Notice:
    """Return the notice of an edit, with the way back where it fits into a URL."""
    fields = []
    for name in patch:
        was = before[name]
        fields.append((name, was if isinstance(was, str) else ", ".join(was)))
    kind = "description-saved" if "description" in patch else "tags-saved"
    if sum(len(value) for _, value in fields) > _MAX_UNDO:
        return Notice(kind)
    return Notice(kind, undo=_get_base(page) + "/edit", undo_fields=tuple(fields))


@router.post(_PATH + "/enabled", recent=False)
async def set_enabled(page: Page) -> Response:
    """Enable or disable the tool."""
    form = await page.form()
    enabled = form.get("enabled") == "true"
    tool = await _patch(page, {"enabled": enabled}, str(form.get("version", "")))
    notice = Notice(
        "tool-enabled" if enabled else "tool-disabled",
        subject=tool["name"],
        undo=_get_base(page) + "/enabled",
        undo_fields=(("enabled", "false" if enabled else "true"),),
    )
    return page.redirect(_get_base(page), notice=notice)


async def _render_versions(page: Page) -> Response:
    tool = await _read_tool(page)
    query = {"limit": _VERSIONS, "cursor": page.query.get("cursor")}
    versions = await page.api.get(path_of("tools", tool["name"], "history"), query)
    items = [
        {**item, "changes": [_show_change(page, change) for change in item["changes"]]}
        for item in versions["items"]
    ]
    return _render(
        page, "tool_versions.html", "versions", tool, items=items, next_cursor=versions["next_cursor"]
    )


def _show_change(page: Page, change: Mapping[str, Any]) -> dict[str, Any]:
    """Return the change of a field: a text as a word diff, JSON as its changed members."""
    before, after = change["before"], change["after"]
    shown: dict[str, Any] = {**change, "difference": None, "members": None}
    if isinstance(before, str) and isinstance(after, str):
        shown["difference"] = word_diff(before, after, gettext=page.gettext)
    elif isinstance(before, dict | list) and isinstance(after, dict | list):
        shown["members"] = json_changes(before, after, limit=50)
    return shown


async def _render_calls(page: Page) -> Response:
    tool = await _read_tool(page)
    calls = await page.api.get("/calls", {"tool": tool["name"], "limit": _CALLS})
    return _render(page, "tool_calls.html", "calls", tool, calls=calls["items"])


async def _render_access(page: Page) -> Response:
    tool = await _read_tool(page)
    key = page.query.get("key") or None
    keys = []
    if page.may("GET /keys"):
        keys = (await page.api.get("/keys", {"limit": _KEYS}))["items"]
    problem = explained = None
    try:
        explained = await page.api.get("/explain", {"tool": tool["name"], "key": key})
    except ApiProblem as error:
        problem = error
    return _render(
        page, "tool_access.html", "access", tool, explained=explained, problem=problem, keys=keys, key=key
    )
