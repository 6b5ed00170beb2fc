"""`/console/go`: where one can go, by a few letters: pages, actions, tools, providers, toolsets and keys.

The command palette (Ctrl K) shows the block of the targets; without script it is a page of links.
"""

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

from starlette.responses import Response

from app.console.http.api_client import ApiProblem
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.search.parameters import MAX_QUERY_LENGTH

router = PageRouter()


def _(message: str) -> str:
    """Mark a message for translation."""
    return message


_ACTIONS: Final = (
    (_("Add an API"), "/console/add", "POST /providers"),
    (_("Create a toolset"), "/console/new-toolset", "POST /toolsets"),
    (_("Create a key"), "/console/keys/new", "POST /keys"),
    (_("Tools that need a credential"), "/console/tools?state=missing-credential", "GET /tools"),
    (_("Disabled tools"), "/console/tools?state=disabled", "GET /tools"),
    (_("Unused tools"), "/console/tools?state=unused", "GET /tools", "GET /calls"),
)
"""Labels, paths, and the operations of the API that they need."""
_MAX_TOOLS: Final = 8
_MAX_OTHERS: Final = 4
_MAX_TEXT: Final = 200
"""Characters of a text by which lists are searched."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a link of the palette leads; `kind` says what it is."""

    label: str
    url: str
    kind: str


@router.get("/console/go")
async def show_targets(page: Page) -> Response:
    """Show the targets for the text of the URL; a tool of exactly this name is the first one."""
    text = page.query.get("q", "").strip()
    targets = [*_list_pages(page, text), *_list_actions(page, text)]
    if text:
        tools, *others = await asyncio.gather(
            _find_tools(page, text),
            _find_named(page, text, "toolsets", page.gettext("Toolset")),
            _find_named(page, text, "providers", page.gettext("Provider")),
            _find_named(page, text, "keys", page.gettext("Key")),
        )
        exact = [one for one in tools if one.label.casefold() == text.casefold()]
        rest = [one for one in tools if one not in exact]
        targets = [*exact, *targets, *rest, *(target for found in others for target in found)]
    return page.render("go.html", text=text, targets=targets)


def _list_pages(page: Page, text: str) -> Iterator[Target]:
    kind = page.gettext("Page")
    for item in page.navigation():
        if text.casefold() in item.label.casefold():
            yield Target(item.label, page.root + item.path, kind)


def _list_actions(page: Page, text: str) -> Iterator[Target]:
    kind = page.gettext("Action")
    for label, path, *operations in _ACTIONS:
        shown = page.gettext(label)
        if all(map(page.may, operations)) and text.casefold() in shown.casefold():
            yield Target(shown, page.root + path, kind)


async def _find_tools(page: Page, text: str) -> list[Target]:
    """Return the tools that a search finds, best first; names in parts and other states are found, too."""
    kind = page.gettext("Tool")
    tools = await _read(page, "/tools/search", {"q": text[:MAX_QUERY_LENGTH], "limit": _MAX_TOOLS})
    names = [hit["name"] for hit in tools]
    if len(names) < _MAX_TOOLS:
        listed = await _read(page, "/tools", {"q": text[:_MAX_TEXT], "limit": _MAX_TOOLS})
        names = list(dict.fromkeys([*names, *(tool["name"] for tool in listed)]))[:_MAX_TOOLS]
    return [Target(name, f"{page.root}/console/tools/{quote(name, safe='')}", kind) for name in names]


async def _find_named(page: Page, text: str, resource: str, kind: str) -> list[Target]:
    """Return the resources of a list whose texts contain the text."""
    items = await _read(page, f"/{resource}", {"q": text[:_MAX_TEXT], "limit": _MAX_OTHERS})
    return [
        Target(
            one["name"],
            f"{page.root}/console/{resource}/{quote(one['id' if resource == 'keys' else 'name'], safe='')}",
            kind,
        )
        for one in items
    ]


async def _read(page: Page, path: str, query: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the items of a list; none where the key may not read it, or the text is none to search by."""
    if not page.may(f"GET {path}"):
        return []
    try:
        items: list[dict[str, Any]] = (await page.api.get(path, query))["items"]
    except ApiProblem as problem:
        if problem.status in (403, 422):
            return []
        raise
    return items
