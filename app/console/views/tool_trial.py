"""A call of a tool from its page: what was submitted, the call by the HTTP API, and its response to show.

A call ends with the connection of the browser: who cancels or leaves, cancels it at the upstream, too.
"""

import asyncio
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import orjson
from markupsafe import Markup
from starlette.datastructures import UploadFile

from app.console.forms.schema_form import Submission, parse
from app.console.forms.schema_form.controls import Unreadable, read_json
from app.console.http.api_client import ApiProblem, ApiResponse, path_of
from app.console.http.page import Page
from app.console.views.values import highlighted, json_tree, visible
from app.core import exact_json
from app.core.media_types import is_json, parse_essence
from app.core.secret_names import is_secret_name

MAX_SHOWN_BYTES: Final = 200_000
"""Bytes of a response that a page shows; the rest is counted, and can be downloaded."""
MAX_TREE_BYTES: Final = 2_000_000
"""Bytes of JSON of which a tree is shown."""
MAX_LINKED: Final = 1_500
"""Characters of arguments that a link has."""
_SECRET_FORMATS: Final = frozenset({"password"})
_FILE_NAMES: Final[Mapping[str, str]] = {
    "application/json": "json", "application/pdf": "pdf", "image/png": "png", "image/jpeg": "jpg",
    "image/gif": "gif", "image/webp": "webp", "image/svg+xml": "svg", "text/csv": "csv", "text/html": "html",
    "text/plain": "txt", "application/xml": "xml", "text/xml": "xml", "application/zip": "zip",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Trial:
    """What was submitted. `text` is the JSON that was typed, where it was not a form; `key` is an
    Idempotency-Key, so that a reload of the page does not call again.
    """

    submission: Submission
    as_json: bool = False
    text: str | None = None
    action: str = "call"
    is_confirmed: bool = False
    key: str = ""

    @property
    def arguments(self) -> Any:
        """The arguments, a JSON object where they are valid."""
        return self.submission.value


@dataclass(frozen=True, slots=True)
class TrialResult:
    """The response of a call. `by_upstream` says whose the error is; `problem` is None for a success."""

    status: int
    elapsed_ms: float
    size: int
    call_id: str | None
    media_type: str
    upstream_status: int | None = None
    by_upstream: bool = False
    problem: ApiProblem | None = None
    tree: Markup | None = None
    text: Markup | None = None
    is_cut: bool = False
    is_binary: bool = False
    approval: str | None = None
    headers: tuple[tuple[str, str], ...] = ()
    """Header fields that say how the response was made, e.g. `X-Argument-Repairs`."""


_TOLD_HEADERS: Final = (
    "x-argument-repairs", "x-call-source", "x-continuation", "x-masked", "x-pages", "x-response-violations",
    "retry-after", "idempotent-replayed",
)  # fmt: skip


async def read_trial(page: Page, schema: Mapping[str, Any]) -> Trial:
    """Return what the form of a tool's page submitted."""
    form = await page.form()
    action = str(form.get("do", ""))
    as_json = form.get("as") == "json"
    common: dict[str, Any] = {
        "as_json": as_json,
        "is_confirmed": form.get("confirmed") == "1",
        "key": str(form.get("key", ""))[:100],
    }
    if "args" in form:
        text = str(form["args"])
        return Trial(
            read_arguments(page, text), text=text if as_json else None, action=action or "call", **common
        )
    items: list[tuple[str, str | bytes]] = []
    for name, value in form.multi_items():
        items.append((name, await value.read() if isinstance(value, UploadFile) else value))
    submission = parse(items, schema, page.gettext)
    return Trial(submission, action=action or ("edit" if submission.is_edit else "call"), **common)


def read_arguments(page: Page, text: str) -> Submission:
    """Return the arguments of JSON text; what cannot be read is an error."""
    if not text.strip():
        return Submission({})
    try:
        value = read_json(text)
    except Unreadable as error:
        return Submission({}, ({"pointer": "", "detail": error.text(page.gettext)},))
    if not isinstance(value, dict):
        detail = page.gettext("The arguments must be a JSON object.")
        return Submission({}, ({"pointer": "", "detail": detail},))
    return Submission(value)


def linked_arguments(arguments: Any, schema: Mapping[str, Any]) -> str | None:
    """Return arguments as the parameter of a link; None where they are too long, or have secrets."""
    if not arguments or _has_secret(arguments, schema, 0):
        return None
    try:
        text = exact_json.dumps(arguments).decode()
    except TypeError:
        return None
    return text if len(text) <= MAX_LINKED else None


def _has_secret(value: Any, schema: Any, depth: int) -> bool:
    if isinstance(schema, Mapping) and (
        schema.get("format") in _SECRET_FORMATS or schema.get("writeOnly") is True
    ):
        return True
    if depth > 20:
        return True
    if isinstance(value, dict):
        properties = schema.get("properties") if isinstance(schema, Mapping) else None
        known = properties if isinstance(properties, dict) else {}
        return any(
            is_secret_name(key) or _has_secret(one, known.get(key), depth + 1) for key, one in value.items()
        )
    if isinstance(value, list):
        items = schema.get("items") if isinstance(schema, Mapping) else None
        return any(_has_secret(one, items, depth + 1) for one in value)
    return False


async def dry_run(page: Page, name: str, arguments: Any) -> Any:
    """Return the exact request of a call, which is not made; raise ApiProblem where it would be rejected."""
    return await page.api.post(path_of("tools", name, "call"), arguments, {"dry_run": True})


async def call(page: Page, name: str, trial: Trial) -> TrialResult:
    """Call the tool, and return its response; one of a status other than 2xx is a response, too."""
    began = time.perf_counter()
    raw = await send_call(page, name, trial)
    elapsed = (time.perf_counter() - began) * 1000
    return _result(page, raw, elapsed)


async def send_call(page: Page, name: str, trial: Trial) -> ApiResponse:
    """Return the response of a call as it is; the call is cancelled where the browser disconnects."""
    # Whoever accepts everything gets the events of a stream as a JSON array, once it has ended.
    headers = {"Accept": "*/*"}
    if trial.key:
        headers["Idempotency-Key"] = trial.key
    path = path_of("tools", name, "call")
    running = asyncio.create_task(
        page.api.send("POST", path, json=trial.arguments, headers=headers, check=False)
    )
    leaving = asyncio.create_task(_wait_disconnected(page))
    try:
        await asyncio.wait({running, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if not running.done():
            running.cancel()
        return await running
    finally:
        leaving.cancel()
        running.cancel()


async def _wait_disconnected(page: Page) -> None:
    while (await page.request.receive())["type"] != "http.disconnect":
        pass


def _result(page: Page, response: ApiResponse, elapsed: float) -> TrialResult:
    headers, body = response.headers, response.body
    media_type = parse_essence(headers.get("content-type", ""))
    common: dict[str, Any] = {
        "status": response.status,
        "elapsed_ms": elapsed,
        "size": len(body),
        "call_id": headers.get("x-call-id"),
        "media_type": media_type,
        "upstream_status": _read_number(headers.get("x-upstream-status")),
        "by_upstream": headers.get("x-error-source") == "upstream",
        "headers": tuple((name, headers[name]) for name in _TOLD_HEADERS if name in headers),
    }
    if response.is_problem:
        return TrialResult(**common, problem=ApiProblem(response))
    if response.status == 202 and "location" in headers:
        common["approval"] = headers["location"].rpartition("/")[2]
    return TrialResult(**common, **_show_body(page, body, media_type))


def _show_body(page: Page, body: bytes, media_type: str) -> dict[str, Any]:
    """Return how a body is shown: as a tree, as text, or not at all."""
    if not body:
        return {}
    if is_json(media_type) and len(body) <= MAX_TREE_BYTES:
        try:
            value = orjson.loads(body)
        except orjson.JSONDecodeError:
            return _show_text(body)
        indented = exact_json.dumps(value, option=orjson.OPT_INDENT_2)
        tree = json_tree(value, gettext=page.gettext)
        return {"tree": tree, **_show_text(indented, is_json=True)}
    if media_type.startswith("text/") or media_type in ("application/xml", "application/json"):
        return _show_text(body)
    return {"is_binary": True}


def _show_text(body: bytes, *, is_json: bool = False) -> dict[str, Any]:
    shown = body[:MAX_SHOWN_BYTES].decode(errors="replace")
    text = highlighted(shown) if is_json and len(body) <= 20_000 else visible(shown)
    return {"text": text, "is_cut": len(body) > MAX_SHOWN_BYTES}


def download_name(tool: str, media_type: str) -> str:
    """Return the name of the file of a response."""
    return f"{tool}.{_FILE_NAMES.get(media_type, 'bin')}"


def _read_number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isascii() and text.isdigit() else None
