"""`/console/tools`: the list of tools, with actions on checked rows or on all that match."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

from starlette.responses import Response

from app.console.http.api_client import ApiProblem
from app.console.http.page import PAGE_HEADERS, PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.views.keyset import next_page, previous_page
from app.console.views.notices import Notice
from app.console.views.tool_rows import tool_rows
from app.console.views.tool_selection import FILTERS, MAX_SELECTED, ToolSelection
from app.formats.dialects.dialects import Format

router = PageRouter()

_PATH: Final = "/console/tools"
_MAX_PROVIDERS: Final = 200
"""So many names of providers are suggested."""
_MAX_MATCHES: Final = 25
"""So many of the best matches of a search are shown: further ones are seldom meant."""
_MAX_EXPORTED: Final = 200
_MAX_UNDO_LENGTH: Final = 6_000
"""Characters of names in the URL of a notice with undo."""


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


_STATES: Final = (
    ("", _("All")),
    ("used", _("Used")),
    ("unused", _("Unused")),
    ("disabled", _("Disabled")),
    ("destructive", _("Destructive")),
    ("deprecated", _("Deprecated")),
    ("missing-credential", _("Needs credential")),
)
_OF_CALLS: Final = ("used", "unused")
_FLAGS: Final[Mapping[str, bool]] = {"enable": True, "disable": False}


@router.get(_PATH)
async def list_tools(page: Page) -> Response:
    """List the tools that match the filters of the URL, or the best matches of its search."""
    sees_calls = page.may("GET /calls")
    is_fragment = "x-fragment" in page.request.headers
    listed: Mapping[str, Any] = {"items": [], "next_cursor": None, "total": None, "total_at_least": None}
    problem = None
    try:
        listed = await (_search if _is_search(page) else _list)(page, usage=sees_calls)
    except ApiProblem as error:
        if error.status not in (400, 422):
            raise
        problem = error
    status = 200 if problem is None or is_fragment else problem.status
    return page.render(
        "tools.html",
        status=status,
        found=listed,
        problem=problem,
        is_search=_is_search(page),
        states=[one for one in _STATES if sees_calls or one[0] not in _OF_CALLS],
        state=page.query.get("state", ""),
        is_filtered=any(page.query.get(name) for name in FILTERS),
        filters=[(name, page.query[name]) for name in FILTERS if page.query.get(name)],
        sees_calls=sees_calls,
        formats=get_args(Format),
        may_change=page.may("POST /tools:batch"),
        may_group=page.may("PUT /toolsets/{name}"),
        may_export=page.may("GET /tools/export"),
        max_selected=MAX_SELECTED,
        rows=tool_rows(page, listed["items"]),
        previous_url=previous_page(page),
        next_url=next_page(page, listed["next_cursor"]) if listed["next_cursor"] else None,
    )


@router.get("/console/provider-names")
async def list_provider_names(page: Page) -> Response:
    """Return the names of providers as options, which the list reads when its field gets the focus."""
    listed = await page.api.get("/providers", {"limit": _MAX_PROVIDERS, "sort": "name"})
    return page.render("provider_names.html", names=[provider["name"] for provider in listed["items"]])


@router.post(_PATH, recent=False)
async def change_tools(page: Page) -> Response:
    """Enable, disable or tag the selected tools."""
    form = await page.form()
    selection = ToolSelection.of(form)
    names = await selection.resolve(page.api)
    if not names or len(names) > MAX_SELECTED:
        return page.redirect(
            _PATH, selection.filters, notice=Notice("tools-too-many" if names else "tools-none-selected")
        )
    action = str(form.get("action", ""))
    tags = [tag.strip() for tag in str(form.get("tags", "")).split(",") if tag.strip()]
    if action not in _FLAGS and not tags:
        return page.redirect(_PATH, selection.filters, notice=Notice("tags-missing"))
    change = _change(action, tags, adopt=form.get("adopt") == "1")
    operations = [{"tool": name, **change} for name in names]
    result = await page.api.post("/tools:batch", {"operations": operations})
    return page.redirect(
        _PATH, selection.filters, notice=_describe_result(action, tags, result, form.get("adopt"))
    )


@router.get("/console/tool-export")
async def export_tools(page: Page) -> Response:
    """Download the selected tools in the dialect of a client."""
    selection = ToolSelection.of(page.query)
    query: dict[str, Any] = {"format": page.query.get("format", "openai-chat")}
    if selection.is_query and not {"q", "state"} & selection.filters.keys():
        query |= {**selection.filters, "limit": 10_000}
    else:
        names = await selection.resolve(page.api, at_most=_MAX_EXPORTED)
        if not names or len(names) > _MAX_EXPORTED:
            notice = Notice("tools-too-many-to-export" if names else "tools-none-selected")
            return page.redirect(_PATH, selection.filters, notice=notice)
        query["names"] = names
    exported = await page.api.send("GET", "/tools/export", query=query)
    headers = {"Content-Disposition": f'attachment; filename="tools-{query["format"]}.json"'}
    return Response(exported.body, headers={**PAGE_HEADERS, **headers}, media_type="application/json")


def _is_search(page: Page) -> bool:
    """Return whether tools are ranked by their fit: there is a text, and no state that none can have."""
    return bool(page.query.get("q", "").strip()) and page.query.get("state", "") in ("", "enabled")


async def _list(page: Page, *, usage: bool) -> Mapping[str, Any]:
    query = {name: page.query.get(name) for name in (*FILTERS, "cursor", "sort")}
    listed: Mapping[str, Any] = await page.api.get("/tools", {**query, "limit": PAGE_SIZE, "usage": usage})
    return listed


async def _search(page: Page, *, usage: bool) -> Mapping[str, Any]:
    """Return the best matches, as items of the list in the order of the search."""
    filters = {name: page.query.get(name) for name in ("provider", "tag")}
    hits = await page.api.get(
        "/tools/search", {"q": page.query["q"].strip(), "limit": _MAX_MATCHES, **filters}
    )
    names = [hit["name"] for hit in hits["items"]]
    items: Sequence[Mapping[str, Any]] = ()
    if names:
        listed = await page.api.get("/tools", {"names": names, "limit": PAGE_SIZE, "usage": usage})
        by_name = {item["name"]: item for item in listed["items"]}
        items = [by_name[name] for name in names if name in by_name]
    return {
        "items": items,
        "next_cursor": None,
        "total": len(items),
        "total_at_least": None,
        "weak": hits["weak"],
        "suggestions": hits.get("suggestions"),
    }


def _change(action: str, tags: Sequence[str], *, adopt: bool) -> dict[str, Any]:
    """Return the members of an operation of `POST /tools:batch`."""
    match action:
        case "enable" | "disable":
            return {"patch": {"enabled": _FLAGS[action]}}
        case "untag":
            return {"remove_tags": list(tags), "adopt_source_tags": adopt}
    return {"add_tags": list(tags), "adopt_source_tags": adopt}


def _describe_result(action: str, tags: Sequence[str], result: Mapping[str, Any], adopted: object) -> Notice:
    """Return what was done, with the way back where it is exact and fits into a URL."""
    failed = [item for item in result["items"] if item["outcome"] == "failed"]
    if failed:
        detail = str((failed[0].get("problem") or {}).get("detail", ""))
        return Notice("tools-not-changed", len(failed), detail)
    changed = [item["name"] for item in result["items"] if item["outcome"] == "changed"]
    names = {
        "enable": ("tools-enabled", "disable"),
        "disable": ("tools-disabled", "enable"),
        "untag": ("tools-untagged", "tag"),
    }
    name, opposite = names.get(action, ("tools-tagged", "untag"))
    is_exact = action in _FLAGS or (len(tags) == 1 and adopted != "1")
    if not changed or not is_exact or sum(map(len, changed)) > _MAX_UNDO_LENGTH:
        return Notice(name, len(changed))
    fields = [("action", opposite), *(("tool", one) for one in changed)]
    if action not in _FLAGS:
        fields.append(("tags", tags[0]))
    return Notice(name, len(changed), undo=_PATH, undo_fields=tuple(fields))
