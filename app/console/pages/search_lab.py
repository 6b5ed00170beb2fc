"""`/console/search`: why tools rank where they do, and the words, pins and use that decide it."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response

from app.console.forms.toolset_form import lines
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.views.notices import Notice
from app.search.parameters import MAX_QUERIES

router = PageRouter()

_PATH: Final = "/console/search"
_LIMITS: Final = (5, 10, 20, 50)
_SHOWN: Final = 50


@router.get(_PATH)
async def show_lab(page: Page) -> Response:
    """Search by the texts of the URL, and explain the matches to a key that may have that explained."""
    texts = [text.strip() for text in page.query.getlist("q") if text.strip()][:MAX_QUERIES]
    limit = _limit(page)
    result, is_explained, problem = None, False, None
    if texts:
        try:
            result, is_explained = await _search(page, texts, limit)
        except ApiProblem as error:
            problem = error
    is_fragment = "x-fragment" in page.request.headers
    others = _list_nothing_else() if is_fragment else await _read_others(page)
    return page.render(
        "search_lab.html",
        status=200 if problem is None or is_fragment else problem.status,
        texts=texts,
        limit=limit,
        limits=_LIMITS,
        result=result,
        hits=_list_hits(result),
        tokens=sum(hit["cost"]["tokens"] for hit in result["items"]) if result else 0,
        is_explained=is_explained,
        problem=problem,
        may_write=page.may("POST /search/synonyms"),
        **others,
    )


@router.post("/console/search/synonyms", recent=False)
async def create_synonyms(page: Page) -> Response:
    """Create a set of synonyms: terms on one line, those that they expand to on another."""
    form = await page.form()
    terms, expand_to = _split_terms(str(form.get("terms", ""))), _split_terms(str(form.get("expand_to", "")))
    body = {"terms": terms, "expand_to": expand_to or None, "toolset": str(form.get("toolset", "")) or None}
    created = await page.api.post("/search/synonyms", body)
    notice = Notice(
        "synonyms-created", undo="/console/search/synonyms/delete", undo_fields=(("id", created["id"]),)
    )
    return _go_back(page, form.get("back"), notice)


@router.post("/console/search/synonyms/delete", recent=False)
async def delete_synonyms(page: Page) -> Response:
    """Delete a set of synonyms."""
    form = await page.form()
    path = path_of("search", "synonyms", str(form.get("id", "")))
    before = await page.api.get(path)
    await page.api.delete(path)
    fields = [("terms", ", ".join(before["terms"])), ("toolset", before["toolset"] or "")]
    if before["expand_to"]:
        fields.append(("expand_to", ", ".join(before["expand_to"])))
    notice = Notice("synonyms-deleted", undo="/console/search/synonyms", undo_fields=tuple(fields))
    return _go_back(page, form.get("back"), notice)


@router.post("/console/search/pins", recent=False)
async def create_pin(page: Page) -> Response:
    """Pin tools to a query, before those that are pinned to it already."""
    form = await page.form()
    query, toolset = str(form.get("query", "")).strip(), str(form.get("toolset", "")) or None
    tools = lines(str(form.get("tools", "")))
    pinned = await _find_pinned(page, query, toolset)
    undo: dict[str, Any] = {}
    if pinned is None:
        created = await page.api.post("/search/pins", {"query": query, "tools": tools, "toolset": toolset})
        undo = {"undo": "/console/search/pins/delete", "undo_fields": (("id", created["id"]),)}
    else:
        both = list(dict.fromkeys([*tools, *pinned["tools"]]))
        body = {"query": pinned["query"], "tools": both, "toolset": toolset}
        match = f'"{pinned["version"]}"'
        await page.api.put(path_of("search", "pins", pinned["id"]), body, if_match=match)
    return _go_back(page, form.get("back"), Notice("pin-created", **undo))


@router.post("/console/search/pins/delete", recent=False)
async def delete_pin(page: Page) -> Response:
    """Delete a pinned result."""
    form = await page.form()
    path = path_of("search", "pins", str(form.get("id", "")))
    before = await page.api.get(path)
    await page.api.delete(path)
    fields = (
        ("query", before["query"]),
        ("tools", "\n".join(before["tools"])),
        ("toolset", before["toolset"] or ""),
    )
    notice = Notice("pin-deleted", undo="/console/search/pins", undo_fields=fields)
    return _go_back(page, form.get("back"), notice)


@router.post("/console/search/usage/delete", recent=True)
async def delete_usage(page: Page) -> Response:
    """Delete what the ranking has learned: of a tool, of a key, or all of it where the word was typed."""
    form = await page.form()
    tool, key_id = str(form.get("tool", "")).strip(), str(form.get("key_id", "")).strip()
    if not tool and not key_id and form.get("everything") != "1":
        return page.redirect(_PATH, notice=Notice("usage-not-deleted"))
    await page.api.delete("/search/usage", {"tool": tool, "key_id": key_id})
    return page.redirect(_PATH, notice=Notice("usage-deleted"))


def _limit(page: Page) -> int:
    text = page.query.get("limit", "")
    return int(text) if text in map(str, _LIMITS) else 10


async def _search(page: Page, texts: Sequence[str], limit: int) -> tuple[Mapping[str, Any], bool]:
    """Return the result of a search, and whether it is explained: a restricted key gets no explanations."""
    query = {"q": list(texts), "limit": limit}
    if page.may("GET /search/synonyms"):
        try:
            return await page.api.get("/tools/search", {**query, "explain": True}), True
        except ApiProblem as problem:
            if problem.status != 403:
                raise
    return await page.api.get("/tools/search", query), False


def _list_hits(result: Mapping[str, Any] | None) -> list[dict[str, Any]]:
    """Return the matches with the running sum of tokens, and shares as parts of the greatest score."""
    hits, total = [], 0
    for place, hit in enumerate(result["items"] if result else (), 1):
        total += hit["cost"]["tokens"]
        hits.append({**hit, "place": place, "tokens_so_far": total})
    return hits


async def _read_others(page: Page) -> dict[str, Any]:
    """Return what decides about rankings, as far as the key may see it."""
    synonyms, pins, usage, vectors = await asyncio.gather(
        _read_allowed(
            page, "GET /search/synonyms", "/search/synonyms", {"limit": _SHOWN, "sort": "-created_at"}
        ),
        _read_allowed(page, "GET /search/pins", "/search/pins", {"limit": _SHOWN, "sort": "-created_at"}),
        _read_allowed(page, "GET /search/usage", "/search/usage", {}),
        _read_allowed(page, "GET /stats", "/stats", {"limit": 1, "interval": "hour", "group": "outcome"}),
    )
    queries = None
    if usage and usage["stores_queries"]:
        queries = await _read_allowed(
            page, "GET /search/usage/queries", "/search/usage/queries", {"limit": 20}
        )
    return {
        "synonyms": synonyms,
        "pins": pins,
        "usage": usage,
        "queries": queries["items"] if queries else [],
        "vectors": vectors["search_vectors"] if vectors else None,
        "may_forget": page.may("DELETE /search/usage"),
    }


def _list_nothing_else() -> dict[str, Any]:
    return {
        "synonyms": None,
        "pins": None,
        "usage": None,
        "queries": [],
        "vectors": None,
        "may_forget": False,
    }


async def _read_allowed(page: Page, operation: str, path: str, query: Mapping[str, Any]) -> Any:
    """Return the response of an operation; None where the key may not have it."""
    if not page.may(operation):
        return None
    try:
        return await page.api.get(path, query)
    except ApiProblem as problem:
        if problem.status == 403:
            return None
        raise


async def _find_pinned(page: Page, query: str, toolset: str | None) -> Mapping[str, Any] | None:
    """Return the pinned result of exactly this query in this scope; None where there is none."""
    if not query:
        return None
    listed = await page.api.get("/search/pins", {"q": query[:200], "toolset": toolset, "limit": 200})
    wanted = " ".join(query.split()).casefold()
    same = (one for one in listed["items"] if one["query"].casefold() == wanted and one["toolset"] == toolset)
    return next(same, None)


def _split_terms(text: str) -> list[str]:
    return list(dict.fromkeys(filter(None, map(str.strip, text.split(",")))))


def _go_back(page: Page, texts: object, notice: Notice) -> Response:
    """Return the redirect to the search that the form was on."""
    return page.redirect(_PATH, {"q": [str(texts)] if texts else None}, notice=notice)
