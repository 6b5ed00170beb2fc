"""`/console`: how the gateway does, and what needs attention; each item leads to the page that has more.

A section is there where the key may use the operation of the API that it is read from. One that cannot be
read at the moment is left out, and the others are shown.
"""

import asyncio
import re
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from starlette.responses import Response

from app.console.http.api_client import ApiProblem, path_of
from app.console.http.page import Page
from app.console.http.page_router import PageRouter
from app.console.templating import parsed_time
from app.console.views.call_selection import whole_intervals
from app.console.views.charts import (
    Chart,
    Period,
    Sparkline,
    bar_chart,
    sparkline,
)

router = PageRouter()

_DAY: Final = timedelta(hours=24)
_WEEK: Final = timedelta(days=7)
_HOUR: Final = timedelta(hours=1)
_ROWS: Final = 5
_BUILD: Final = re.compile(r"^utcp_gateway_build_info\{([^}]*)\} 1(?:\.0)?$", re.MULTILINE)
_LABEL: Final = re.compile(r'(\w+)="([^"\\]*)"')
_WORKERS: Final = re.compile(r"^utcp_gateway_workers (\d+)", re.MULTILINE)
_TROUBLED: Final = ("failed", "degraded")


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that needs attention: what it is, where to see it, and how urgent it is (bad, attention)."""

    text: str
    detail: str
    url: str
    kind: str = "attention"


@dataclass(frozen=True, slots=True)
class Ranked:
    """A row of a table: a tool, a provider or a key, with its counts and its calls by hour."""

    name: str
    url: str
    calls: int
    errors: int
    line: Sparkline


@dataclass(frozen=True, slots=True)
class CallsOfDay:
    """The calls of the last 24 hours (whole hours, the last one is that of now), and those of a week before.

    `change` is the relative change of their number; None without calls a week ago.
    """

    totals: Mapping[str, Any]
    before: int
    change: float | None
    chart: Chart
    tools: Sequence[Ranked]
    keys: Sequence[Ranked]
    failing: Sequence[Ranked]
    search: Mapping[str, Any] | None
    """How far the encoding of tools for search by meaning is; None where the key may not see it."""


@router.get("/console")
async def show_overview(page: Page) -> Response:
    """Show the overview; where there is no provider, the next step."""
    if page.may("GET /providers"):
        providers = await page.api.get("/providers", {"limit": 1})
        if not providers["items"]:
            return page.render("overview_first.html")
    day, attention, build = await asyncio.gather(
        _read_section(_read_calls_of_day(page) if page.may("GET /stats") else None),
        _list_attention(page),
        _read_section(_build(page) if page.may("GET /metrics") else None),
    )
    if day is not None:
        attention += _search(page, day.search)
    return page.render(
        "overview.html", day=day, attention=attention, build=build, sees_calls=page.may("GET /stats")
    )


async def _read_section(reading: Awaitable[Any] | None) -> Any:
    """Return what was read; None where it could not be, or is not to be."""
    if reading is None:
        return None
    try:
        return await reading
    except ApiProblem as problem:
        if problem.status == 401:
            raise
        return None


async def _read_calls_of_day(page: Page) -> CallsOfDay:
    now = datetime.now(UTC)
    since = whole_intervals(now, _DAY, "hour")
    week_ago = now - _WEEK
    hour_ago = week_ago.replace(minute=0, second=0, microsecond=0)
    today = {"interval": "hour", "since": since.isoformat()}

    def stats(**query: Any) -> Awaitable[Any]:
        return page.api.get("/stats", query)

    # The hours of a week ago end at the same minute as those of today.
    whole, hours, minutes, tools, keys, failing = await asyncio.gather(
        stats(**today, limit=0),
        stats(interval="hour", since=(since - _WEEK).isoformat(), until=hour_ago.isoformat(), limit=0),
        stats(interval="minute", since=hour_ago.isoformat(), until=week_ago.isoformat(), limit=0)
        if week_ago - hour_ago >= timedelta(minutes=1)
        else _read_nothing(),
        stats(**today, group="tool", limit=_ROWS),
        stats(**today, group="key", limit=_ROWS),
        stats(**today, group="provider", limit=_ROWS, error=True),
    )
    before = hours["totals"]["calls"] + minutes["totals"]["calls"]
    calls = whole["totals"]["calls"]
    period = Period(since, since + _DAY, _HOUR)
    providers = (
        await stats(**today, group="provider", limit=2 * _ROWS) if failing["series"] else {"series": []}
    )
    totals = {one["value"]: one["totals"]["calls"] for one in providers["series"]}
    return CallsOfDay(
        totals=whole["totals"],
        before=before,
        change=(calls - before) / before if before else None,
        chart=bar_chart(period, whole["other"]["points"] if whole["other"] else [], language=page.language),
        tools=_rank(page, tools, "tool", period),
        keys=_rank(page, keys, "key_id", period),
        failing=[
            Ranked(
                one["value"],
                page.url("/console/calls", {"provider": one["value"], "error": "true"}),
                totals.get(one["value"], 0),
                one["totals"]["errors"],
                _draw_line(one["points"], period),
            )
            for one in failing["series"]
            if one["value"]
        ],
        search=whole["search_vectors"],
    )


async def _read_nothing() -> Any:
    return {"totals": {"calls": 0, "errors": 0}}


def _rank(page: Page, stats: Mapping[str, Any], parameter: str, period: Period) -> list[Ranked]:
    return [
        Ranked(
            one["key_name"] or one["value"],
            page.url("/console/calls", {parameter: one["value"]}),
            one["totals"]["calls"],
            one["totals"]["errors"],
            _draw_line(one["points"], period),
        )
        for one in stats["series"]
        if one["value"]
    ]


def _draw_line(points: Sequence[Mapping[str, Any]], period: Period) -> Sparkline:
    calls = [0] * period.count
    for point in points:
        index = period.index(parsed_time(point["at"]))
        if index is not None:
            calls[index] = point["calls"]
    return sparkline(calls)


async def _build(page: Page) -> dict[str, Any]:
    """Return the versions and the number of workers, from the metrics."""
    response = await page.api.send("GET", "/metrics")
    text = response.body.decode()
    builds = [dict(_LABEL.findall(labels)) for labels in _BUILD.findall(text)]
    workers = _WORKERS.search(text)
    return {
        "versions": sorted({one.get("version", "") for one in builds}),
        "pythons": sorted({one.get("python", "") for one in builds}),
        "workers": int(workers[1]) if workers else None,
    }


async def _list_attention(page: Page) -> list[Attention]:
    """Return what needs attention, the urgent first."""
    readers = (
        ("GET /provider-health", _list_providers),
        ("GET /stats", _list_missing_credentials),
        ("GET /approvals", _describe_approvals),
        ("GET /keys", _describe_keys),
    )
    sections = await asyncio.gather(
        *(_read_section(read(page)) for operation, read in readers if page.may(operation))
    )
    items = [item for part in sections for item in part or ()]
    return sorted(items, key=lambda item: item.kind != "bad")


async def _list_providers(page: Page) -> list[Attention]:
    pages = await asyncio.gather(
        *(page.api.get("/provider-health", {"state": state, "limit": _ROWS}) for state in _TROUBLED)
    )
    attentions: dict[str, Attention] = {}
    for state, listed in zip(_TROUBLED, pages, strict=True):
        for health in listed["items"]:
            attentions.setdefault(health["name"], _describe_provider(page, health, state))
    hidden = sum(
        (health["total"] or health["total_at_least"] or 0) - len(health["items"]) for health in pages
    )
    items = list(attentions.values())
    if hidden > 0:
        text = page.gettext("More providers with problems: %(count)s") % {"count": hidden}
        items.append(Attention(text, "", page.url("/console/providers", {"state": "failed"})))
    return items


def _describe_provider(page: Page, health: Mapping[str, Any], state: str) -> Attention:
    name = health["name"]
    open_breakers = [one["origin"] for one in health["breakers"] if one["state"] != "closed"]
    if open_breakers:
        detail = page.gettext("The circuit breaker has paused calls to %(origin)s.") % {
            "origin": open_breakers[0]
        }
    elif health["available"] is False:
        detail = page.gettext("No executor of it is connected.")
    elif health["failures"]:
        detail = page.gettext("%(failures)s of %(calls)s calls of the last hour failed.") % {
            "failures": health["failures"],
            "calls": health["calls"],
        }
    elif health["last_check"] and health["last_check"]["status"] != "ok":
        detail = page.gettext("Its last check has found a problem.")
    else:
        detail = page.gettext("A certificate has expired or expires soon.")
    is_bad = state != "degraded"
    text = page.gettext("%(name)s fails") if is_bad else page.gettext("%(name)s is degraded")
    return Attention(
        text % {"name": name},
        detail,
        page.url(f"/console/providers/{name}"),
        "bad" if is_bad else "attention",
    )


async def _list_missing_credentials(page: Page) -> list[Attention]:
    """Return the providers whose calls were rejected for want of a credential within 24 hours, and that still
    exist without one.
    """
    since = whole_intervals(datetime.now(UTC), _DAY, "hour").isoformat()
    query = {
        "group": "provider",
        "interval": "day",
        "outcome": "credential-missing",
        "since": since,
        "limit": _ROWS,
    }
    statistics = await page.api.get("/stats", query)
    series = [one for one in statistics["series"] if one["value"]]
    needing = await asyncio.gather(*(_needs_credential(page, one["value"]) for one in series))
    return [
        Attention(
            page.gettext("%(name)s needs a credential") % {"name": one["value"]},
            page.gettext("Calls that were rejected for it: %(count)s") % {"count": one["totals"]["calls"]},
            page.url(path_of("console", "providers", one["value"], "credentials")),
        )
        for one, needs in zip(series, needing, strict=True)
        if needs
    ]


async def _needs_credential(page: Page, provider: str) -> bool:
    """Return whether a provider exists and has a slot without a credential, as far as the key may see it."""
    if not page.may("GET /providers/{name}"):
        return False
    try:
        provider_state = await page.api.get(path_of("providers", provider))
    except ApiProblem as problem:
        if problem.status == 404:
            return False
        raise
    return not provider_state["slots"] or any(not slot["stored"] for slot in provider_state["slots"])


async def _describe_approvals(page: Page) -> list[Attention]:
    approvals = await page.api.get("/approvals", {"state": "pending", "limit": 1, "sort": "requested_at"})
    if not approvals["items"]:
        return []
    count = approvals["total"] or approvals["total_at_least"]
    text = page.gettext("Waiting for approval: %(count)s") % {"count": count}
    subject = approvals["items"][0]["subject"]
    detail = subject.get("tool") or subject.get("provider") or ""
    return [Attention(text, detail, page.url("/console/approvals", {"state": "pending"}))]


async def _describe_keys(page: Page) -> list[Attention]:
    keys = await page.api.get("/keys", {"state": "expiring", "sort": "expires_at", "limit": 3})
    count = keys["total"] or keys["total_at_least"] or 0
    if not count:
        return []
    text = page.gettext("Keys that expire soon: %(count)s") % {"count": count}
    names = ", ".join(one["name"] for one in keys["items"])
    return [Attention(text, names, page.url("/console/keys", {"state": "expiring"}))]


def _search(page: Page, vectors: Mapping[str, Any] | None) -> list[Attention]:
    """Return what keeps the search from ranking by meaning, where it is on."""
    state = None if vectors is None else vectors["state"]
    if vectors is not None and state == "encoding":
        text = page.gettext("Tools are being encoded for search by meaning")
        detail = page.gettext("%(done)s of %(total)s") % {
            "done": vectors["encoded"],
            "total": vectors["total"],
        }
        return [Attention(text, detail, page.url("/console/search"), "neutral")]
    if state == "unavailable":
        text = page.gettext("Search by meaning is not available")
        return [Attention(text, page.gettext("The log says why."), page.url("/console/search"))]
    return []
