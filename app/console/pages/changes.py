"""`/console/changes`: who changed what, with the values before and after; export and live tail."""

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final
from urllib.parse import quote

from starlette.responses import Response

from app.console.http.api_client import ApiProblem, path_of
from app.console.http.api_stream import ApiStreamResponse
from app.console.http.call_stream import CallRowStream
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.templating import json_text
from app.console.views.values import json_changes, word_diff

router = PageRouter()

_FILTERS: Final = ("actor", "action", "object_type", "object_name")
_TIMES: Final = ("since", "until")
_LOCAL_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d(:\d\d)?")
_CSV_ROWS: Final = 100_000
_MAX_LENGTH: Final = 4_000
_ONE_LINE: Final = 120
_KEY_ID_LENGTH: Final = 12
_MAX_NAMES: Final = 10
OBJECT_TYPES: Final = (
    "approval", "approval-requirement", "call", "credential", "key", "plugin", "provider", "recording",
    "search-usage", "session", "tool", "toolset", "variable",
)  # fmt: skip
ACTIONS: Final = (
    "approved", "checked", "created", "deleted", "disabled", "enabled", "executed", "expired", "failed",
    "overridden", "read", "refreshed", "rejected", "requested", "revoked", "rotated", "updated",
)  # fmt: skip


@router.get("/console/changes")
async def list_changes(page: Page) -> Response:
    """List the events that the filters of the URL select, newest first."""
    follows = page.query.get("follow") == "1"
    context: dict[str, Any] = {
        "follows": follows,
        "filters": _read_filters(page),
        "selected": {name: page.query.get(name) for name in (*_FILTERS, *_TIMES, "q")},
        "object_types": OBJECT_TYPES,
        "actions": ACTIONS,
        "problem": None,
        "found": {"items": [], "next_cursor": None, "total": None},
        **row_context(page),
    }
    query = {**_read_selection(page), "cursor": page.query.get("cursor"), "limit": PAGE_SIZE}
    try:
        context["found"] = await page.api.get("/events", query)
        context["names"] = await actor_names(page, context["found"]["items"])
    except ApiProblem as problem:
        if problem.status != 422:
            raise
        # The filters stay on the page, to be corrected.
        context["problem"] = problem
    return page.render("changes.html", status=422 if context["problem"] else 200, **context)


@router.get("/console/changes.csv")
async def export_changes(page: Page) -> Response:
    """Pass on the events of a selection as the API writes them as CSV."""
    return ApiStreamResponse(page, "/events.csv", {**_read_selection(page), "limit": _CSV_ROWS})


@router.get("/console/changes/stream")
async def stream_changes(page: Page) -> Response:
    """Stream new events as rows of HTML, with the filters of the URL."""
    return ChangeRowStream(page, _read_filters(page))


class ChangeRowStream(CallRowStream):
    """An ASGI response with the rows of new events; `filters` are those of `GET /changes/stream`."""

    path: ClassVar[str] = "/changes/stream"
    event: ClassVar[str] = "change"
    rows: ClassVar[str] = "change_rows.html"

    def context(self) -> dict[str, Any]:
        """See `CallRowStream`."""
        return row_context(self.page)


def row_context(page: Page) -> dict[str, Any]:
    """Return what the template of the rows needs: functions that describe an event."""

    def object_url(event: Mapping[str, Any]) -> str:
        return _find_object_url(page, event)

    def before_and_after(event: Mapping[str, Any]) -> list[dict[str, Any]]:
        return changed_values(event["detail"], page)

    return {
        "object_url": object_url,
        "before_and_after": before_and_after,
        "details": other_details,
        "in_one_line": in_one_line,
        "names": {},
        "reads_keys": page.may("GET /keys/{key_id}"),
    }


def changed_values(detail: Mapping[str, Any], page: Page) -> list[dict[str, Any]]:
    """Return the changes of an event that has the values before and after: each with its pointer, its kind,
    and, for texts, the difference word by word.
    """
    before, after = detail.get("before"), detail.get("after")
    if not isinstance(before, dict) or not isinstance(after, dict):
        return []
    changes = []
    for change in json_changes(before, after):
        words = None
        if isinstance(change.before, str) and isinstance(change.after, str):
            words = word_diff(change.before[:_MAX_LENGTH], change.after[:_MAX_LENGTH], gettext=page.gettext)
        changes.append(
            {
                "name": change.pointer.lstrip("/"),
                "kind": change.kind,
                "before": change.before,
                "after": change.after,
                "words": words,
            }
        )
    return changes


def other_details(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an event says besides the values before and after; nothing that is null or empty."""
    hidden = {"before", "after"}
    if event["detail"].get("before") is not None:
        hidden.add("changed")
    return {
        name: value
        for name, value in event["detail"].items()
        if name not in hidden and value not in (None, "", [], {})
    }


def in_one_line(details: Mapping[str, Any]) -> str:
    """Return few short details as one line, "" where they are more."""
    if any(isinstance(value, dict | list) for value in details.values()):
        return ""
    text = ", ".join(f"{name}: {json_text(value).strip(chr(34))}" for name, value in details.items())
    return text if len(text) <= _ONE_LINE else ""


async def actor_names(page: Page, events: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Return the names of the keys that made changes, by id, where the key of the page may read them."""
    if not page.may("GET /keys/{key_id}"):
        return {}
    actors = list(dict.fromkeys(one["actor"] for one in events if len(one["actor"]) == _KEY_ID_LENGTH))
    paths = [path_of("keys", one) for one in actors[:_MAX_NAMES]]
    responses = await asyncio.gather(*(page.api.send("GET", path, check=False) for path in paths))
    return {one["id"]: one["name"] for one in (each.json() for each in responses if each.status == 200)}


def _find_object_url(page: Page, event: Mapping[str, Any]) -> str:
    """Return the page of the object of an event; "" where there is none, or the key may not read it."""
    kind, name = event["object_type"], event["object_name"]
    pages = {
        "provider": ("GET /providers/{name}", "providers"),
        "tool": ("GET /tools/{name}", "tools"),
        "toolset": ("GET /toolsets/{name}", "toolsets"),
        "key": ("GET /keys/{key_id}", "keys"),
        "approval": ("GET /approvals/{id}", "approvals"),
        "call": ("GET /calls/{call_id}", "calls"),
    }
    operation, folder = pages.get(kind, ("", ""))
    if not operation or not page.may(operation) or event["action"] in ("deleted", "revoked"):
        return ""
    return page.url(f"/console/{folder}/{quote(name, safe='')}")


def _read_filters(page: Page) -> dict[str, str]:
    return {name: page.query[name] for name in _FILTERS if page.query.get(name)}


def _read_selection(page: Page) -> dict[str, Any]:
    """Return the parameters of `GET /events` for the URL of a page; times without an offset are in UTC."""
    times = {name: _read_time(page.query[name]) for name in _TIMES if page.query.get(name)}
    return {**_read_filters(page), **times, "q": page.query.get("q")}


def _read_time(text: str) -> str:
    if not _LOCAL_TIME.fullmatch(text):
        return text
    return text + ("Z" if text.count(":") == 2 else ":00Z")
