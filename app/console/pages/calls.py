"""`/console/calls`: what was called, by whom, with what outcome; followed live, and one call in detail."""

import asyncio
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import Any, Final, get_args
from uuid import UUID

import orjson
from markupsafe import Markup
from starlette.responses import Response

from app.calls.log.entries import Interface
from app.console.http.api_client import ApiProblem, path_of
from app.console.http.api_stream import ApiStreamResponse
from app.console.http.call_stream import CallRowStream
from app.console.http.page import PAGE_SIZE, Page
from app.console.http.page_router import PageRouter
from app.console.templating import parsed_time
from app.console.views.call_selection import STEPS, CallSelection, read_selection
from app.console.views.charts import Chart, Period, bar_chart, line_chart
from app.console.views.values import highlighted, visible
from app.core import exact_json
from app.core.upstream_mode import CallSource

router = PageRouter()

INTERFACES: Final[tuple[str, ...]] = get_args(Interface)
SOURCES: Final[tuple[str, ...]] = get_args(CallSource)
SLOW_MS: Final = 1_000
_CSV_ROWS: Final = 100_000
_BODIES: Final = "GET /calls/{call_id}/bodies"


@dataclass(frozen=True, slots=True)
class CallCharts:
    """The statistics of a selection, and their charts: bars of calls and errors, lines of p50 and p95."""

    totals: Mapping[str, Any]
    calls: Chart
    durations: Chart


@router.get("/console/calls")
async def list_calls(page: Page) -> Response:
    """Show a page of calls with their charts; `follow` adds new ones as they end."""
    selection = read_selection(page.query)
    cursor = page.query.get("cursor")
    context: dict[str, Any] = {
        "selection": selection,
        "follows": bool(page.query.get("follow")) and not cursor,
        "found": None,
        "problem": None,
        "charts": None,
        "choices": {},
        "interfaces": [("", page.gettext("All")), *((one, one) for one in INTERFACES)],
        "sources": [("", page.gettext("All")), *((one, one) for one in SOURCES)],
        "slow_ms": SLOW_MS,
        "left_out": 0,
    }
    if page.request.headers.get("x-fragment") == "choices":
        return page.render("calls.html", **context | {"choices": await _list_choices(page, selection)})
    try:
        context["found"], context["charts"] = await asyncio.gather(
            page.api.get("/calls", selection.query(limit=PAGE_SIZE, cursor=cursor)),
            read_charts(page, selection),
        )
    except ApiProblem as problem:
        if problem.status != 422:
            raise
        # The filters stay on the page, to be corrected.
        return page.render("calls.html", status=422, **context | {"problem": problem})
    return page.render("calls.html", **context)


@router.get("/console/calls.csv")
async def export_calls(page: Page) -> Response:
    """Pass on the calls of a selection as the API writes them as CSV."""
    query = read_selection(page.query).query(limit=_CSV_ROWS)
    return ApiStreamResponse(page, "/calls.csv", query)


@router.get("/console/calls/stream")
async def stream_calls(page: Page) -> Response:
    """Stream new calls as rows of HTML, with the filters of the URL."""
    return CallRowStream(page, read_selection(page.query).filters)


@router.get("/console/calls/{call_id}")
async def show_call(page: Page) -> Response:
    """Show the record of a call."""
    return await _show(page)


@router.post("/console/calls/{call_id}/bodies", recent=True)
async def show_bodies(page: Page) -> Response:
    """Show a call with its recorded arguments and response, or its evidence envelope: a read is an event."""
    what = "envelope" if (await page.form()).get("what") == "envelope" else "bodies"
    response = await page.api.send("GET", f"{_call_path(page)}/{what}", check=False)
    if response.status == 404:
        return await _show(page, missing=ApiProblem(response))
    if response.status != 200:
        raise ApiProblem(response)
    if what == "envelope":
        return await _show(page, envelope=shown_text(response.body.decode(errors="replace")))
    found = response.json()
    bodies = {name: shown_body(found[name]) for name in ("arguments", "presets", "result")}
    return await _show(page, bodies=bodies, arguments=_get_json_text(found["arguments"]))


async def _show(page: Page, **more: Any) -> Response:
    call = await page.api.get(_call_path(page))
    began = parsed_time(call["at"]).astimezone(UTC)
    context: dict[str, Any] = {
        "call": call,
        "began": began,
        "ended": began + timedelta(milliseconds=call["duration_ms"]),
        "problem_type": await _find_problem_type(page, call["outcome"]),
        "may_read_bodies": page.may(_BODIES),
        "traces": page.services.settings.otel_exporter_otlp_endpoint is not None,
        "bodies": None,
        "envelope": None,
        "missing": None,
        "curl": curl_command(page, call["tool"], more.pop("arguments", None)) if call["provider"] else "",
    }
    return page.render("call.html", **context | more)


def _call_path(page: Page) -> str:
    """Return the path of the API for the call of a page: an id that is none is a call that there is not."""
    text = page.parameter("call_id")
    try:
        return path_of("calls", str(UUID(text)))
    except ValueError:
        return path_of("calls", str(UUID(int=0)))


async def _find_problem_type(page: Page, outcome: str) -> Any:
    """Return what the API says about a kind of problem; None for an outcome that is none."""
    response = await page.api.send("GET", path_of("problems", outcome), check=False)
    return response.json() if response.status == 200 else None


async def read_charts(page: Page, selection: CallSelection) -> CallCharts:
    """Return the charts of a selection; raise ApiProblem for a period that is none."""
    statistics = await page.api.get("/stats", selection.statistics_query(limit=0))
    period = Period(
        parsed_time(statistics["since"]), parsed_time(statistics["until"]), STEPS[selection.interval]
    )
    points = statistics["other"]["points"] if statistics["other"] else []
    return CallCharts(
        statistics["totals"],
        bar_chart(period, points, language=page.language),
        line_chart(period, points, language=page.language),
    )


async def _list_choices(page: Page, selection: CallSelection) -> dict[str, list[tuple[str, str]]]:
    """Return what was called in the period, as suggestions for the filters: values and their names."""
    period = {"interval": "day", "since": selection.since, "until": selection.until, "limit": 50}
    groups = {"tool": "tool", "provider": "provider", "key_id": "key", "outcome": "outcome"}
    responses = await asyncio.gather(
        *(page.api.get("/stats", {**period, "group": group}) for group in groups.values())
    )
    return {
        name: [(one["value"], one["key_name"] or one["value"]) for one in stats["series"] if one["value"]]
        for name, stats in zip(groups, responses, strict=True)
    }


def curl_command(page: Page, tool: str, arguments: str | None) -> str:
    """Return the command that calls a tool, with the arguments as JSON, or without any; the key is `$KEY`."""
    base = page.services.settings.public_base_url or str(page.request.base_url).rstrip("/")
    return (
        f"curl -X POST {shlex.quote(base + path_of('tools', tool, 'call'))}"
        ' \\\n  -H "Authorization: Bearer $KEY" \\\n  -H "Content-Type: application/json"'
        f" \\\n  -d {shlex.quote(arguments or '{}')}"
    )


def shown_body(body: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a recorded body as the page shows it: JSON is indented, other bytes stay base64."""
    if body is None:
        return None
    text = body["text"] if body["text"] is not None else body["base64"]
    return {**body, "shown": shown_text(text)}


def shown_text(text: str) -> Markup:
    """Return JSON indented and highlighted, other text as it is, with the characters that nobody sees."""
    try:
        return highlighted(exact_json.dumps(orjson.loads(text), option=orjson.OPT_INDENT_2).decode())
    except orjson.JSONDecodeError:
        return visible(text)


def _get_json_text(body: Mapping[str, Any] | None) -> str | None:
    """Return whole arguments as they can be sent again; None where they were not recorded, or cut."""
    return None if body is None or body["truncated"] else body["text"]
