"""`/console/toolsets`: the list of toolsets, and one of them as models see it."""

from collections.abc import Mapping
from typing import Any, Final

from starlette.responses import Response

from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.views.connect_snippets import toolset_snippets
from app.console.views.keyset import next_page, previous_page

router = PageRouter()

_MAX_MEMBERS: Final = 100
"""So many members are shown on one page of a toolset."""


@router.get("/console/toolsets")
async def list_toolsets(page: Page) -> Response:
    """List the toolsets that the key may use."""
    query = {name: page.query.get(name) for name in ("q", "cursor", "sort")}
    listed = await page.api.get("/toolsets", {**query, "limit": PAGE_SIZE})
    return page.render(
        "toolsets.html",
        toolsets=listed["items"],
        total=listed["total"],
        previous_url=previous_page(page),
        next_url=next_page(page, listed["next_cursor"]) if listed["next_cursor"] else None,
        may_change=page.may("PUT /toolsets/{name}"),
    )


@router.get("/console/toolsets/{name}")
async def show_toolset(page: Page) -> Response:
    """Show the members of a toolset, what they cost a model, who uses it, and how to connect."""
    name = page.parameter("name")
    matches = await _find_matches(page, name)
    if page.request.headers.get("x-fragment") == "results":
        return page.render("toolset.html", toolset=matches, hits=matches, **_list_nothing_but_hits())
    toolset = await page.api.get(path_of("toolsets", name))
    definition = toolset["definition"] or {}
    changes: Mapping[str, Any] = definition.get("changes", {})
    costs, listed = await _read_costs(page, name)
    text = page.query.get("from", "")
    first = int(text) // _MAX_MEMBERS * _MAX_MEMBERS if text.isdecimal() and len(text) < 6 else 0
    members = [
        {
            **member,
            "tokens": costs.get(member["tool"]),
            "change": _describe_change(page, changes.get(member["tool"])),
        }
        for member in toolset["members"]
    ]
    return page.render(
        "toolset.html",
        toolset=toolset,
        definition=definition,
        hits=matches,
        members=members[first : first + _MAX_MEMBERS],
        first=first,
        previous_url=page.url_with(**{"from": first - _MAX_MEMBERS or None}) if first else None,
        next_url=page.url_with(**{"from": first + _MAX_MEMBERS})
        if first + _MAX_MEMBERS < len(members)
        else None,
        tokens=sum(one or 0 for one in costs.values()),
        listed=listed,
        keys=await _list_keys(page, name),
        snippets=toolset_snippets(name, toolset["addresses"]),
        may_change=page.may("PUT /toolsets/{name}") and toolset["definition"] is not None,
        may_delete=page.may("DELETE /toolsets/{name}") and toolset["definition"] is not None,
    )


def _list_nothing_but_hits() -> dict[str, Any]:
    return {
        "definition": {}, "members": [], "first": 0, "previous_url": None, "next_url": None,
        "tokens": 0, "listed": None, "keys": None, "snippets": [], "may_change": False,
        "may_delete": False,
    }  # fmt: skip


async def _find_matches(page: Page, name: str) -> Mapping[str, Any]:
    """Return the matches of the search in the toolset; none without a text."""
    text = page.query.get("q", "").strip()
    empty: dict[str, Any] = {"name": name, "items": [], "weak": False, "is_search": False}
    if not text:
        return empty
    hits = await page.api.get(path_of("toolsets", name, "search"), {"q": text, "limit": 20})
    return {**empty, **hits, "is_search": True}


async def _read_costs(page: Page, name: str) -> tuple[dict[str, int], dict[str, int] | None]:
    """Return the tokens of each member by its canonical name, and the number and tokens of the tools that an
    MCP client lists, where these are others.
    """
    path = path_of("toolsets", name, "export")
    every = await page.api.get(path, {"format": "mcp", "mode": "all"})
    costs = {one["name"]: one["tokens"] for one in every["report"]["tools"]}
    listed = (await page.api.get(path, {"format": "mcp"}))["report"]["tools"]
    if {one["name"] for one in listed} == costs.keys():
        return costs, None
    return costs, {"tools": len(listed), "tokens": sum(one["tokens"] for one in listed)}


async def _list_keys(page: Page, name: str) -> list[Mapping[str, Any]] | None:
    """Return the keys that are limited to the toolset; None where the key may not list keys."""
    if not page.may("GET /keys"):
        return None
    try:
        keys: list[Mapping[str, Any]] = (await page.api.get("/keys", {"toolset": name, "limit": 50}))["items"]
    except ApiProblem as problem:
        if problem.status == 403:
            return None
        raise
    return keys


def _describe_change(page: Page, change: Mapping[str, Any] | None) -> list[str]:
    """Return in words what differs for a tool in the toolset."""
    if not change:
        return []
    words = []
    if change.get("name"):
        words.append(page.gettext("renamed"))
    if change.get("title") is not None:
        words.append(page.gettext("title"))
    if change.get("description") is not None:
        words.append(page.gettext("description"))
    if change.get("presets"):
        words.append(page.gettext("presets: %(names)s") % {"names": ", ".join(change["presets"])})
    return words
