"""Imports that may take long: sent with `Prefer: respond-async`, then polled until they end."""

import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final
from urllib.parse import urlsplit

from app.cli.errors import CommandFailed, GatewayUnreachable, ProblemResponse
from app.cli.session import ClientSession
from app.cli.values import Files, build_url_path

#: Seconds between two polls: short at first, because most documents take less than a second.
_FIRST_POLL_SECONDS, _POLL_SECONDS_MAX = 0.05, 2.0
#: Where frameworks and gateways serve their documents.
_USUAL_PATHS: Final = (
    "/openapi.json", "/openapi.yaml", "/swagger.json", "/v3/api-docs", "/swagger/v1/swagger.json",
    "/api-docs", "/utcp",
)  # fmt: skip
#: Consecutive polls that may fail: a restart of a gateway behind a proxy takes a few seconds.
_FAILED_POLLS_MAX = 5


def send_import(
    session: ClientSession,
    path: str,
    *,
    activity: str,
    json: Any = None,
    content: bytes | None = None,
    files: Files | None = None,
    media_type: str = "application/json",
    query: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """POST with `Prefer: respond-async` (RFC 7240), wait for the import's end and return its result.

    The gateway may also respond at once. `activity` is shown meanwhile. Raise ProblemResponse for a failed
    import.
    """
    headers = {"Prefer": "respond-async", **({} if content is None else {"Content-Type": media_type})}
    with session.output.show_progress(activity, is_announced=True) as report:
        response = session.gateway.send(
            "POST", path, json=json, content=content, files=files, headers=headers, query=query
        )
        result = response.json()
        if response.status == 202:
            return _poll(session, str(result["id"]), report)
    return dict(result or {})


def import_from_url(
    session: ClientSession, path: str, *, activity: str, body: dict[str, Any]
) -> dict[str, Any]:
    """Import the source of `body`, and return and raise as `send_import` does.

    Where its URL serves no document, those that the page names are tried, if they are of the same origin; for
    a URL without a path, the usual ones, too. What is stored is the URL of the document.
    """
    url = str(body["source"]["url"])
    try:
        return send_import(session, path, activity=activity, json=body)
    except ProblemResponse as error:
        others = [] if _has_document(error) else list(_guess_urls(url, error))
        tried = [without_secrets(other) for other in others]
        for other, shown in zip(others, tried, strict=True):
            source = {**body["source"], "url": other}
            try:
                result = send_import(
                    session, path, activity=f"Trying {shown}", json={**body, "source": source}
                )
            except ProblemResponse as failed:
                if _has_document(failed):
                    raise
                continue
            session.output.note(f"The document is {shown}.")
            return result
        if tried:
            error.hint = f"there is no document at {', '.join(tried)} either: give its URL."
        raise


def without_secrets(source: str) -> str:
    """Return a source without the parts of a URL that may be secret: user, password and query."""
    start, mark, rest = source.partition("://")
    host, slash, path_and_query = rest.partition("/")
    return f"{start}{mark}{host.rpartition('@')[2]}{slash}{path_and_query}".partition("?")[0]


def _has_document(error: ProblemResponse) -> bool:
    """Return whether an import failed for another reason than that its URL serves no document."""
    status = error.problem.get("upstream_status")
    is_absent = isinstance(status, int) and 400 <= status < 500 and status not in (401, 403, 429)
    return not (error.slug == "invalid-document" or is_absent)


def _guess_urls(url: str, error: ProblemResponse) -> Iterator[str]:
    """Yield where the document may be, in place of a URL that serves none."""
    parts = urlsplit(url)
    for problem in error.problem.get("errors") or ():
        named = problem.get("expected")
        for other in named if isinstance(named, list) else ():
            if str(other).startswith(f"{parts.scheme}://{parts.netloc}/"):
                yield str(other)
    if parts.path in ("", "/") and not parts.query:
        yield from (f"{parts.scheme}://{parts.netloc}{usual}" for usual in _USUAL_PATHS)


def _poll(session: ClientSession, import_id: str, report: Callable[[int, int], None]) -> dict[str, Any]:
    wait, failures = _FIRST_POLL_SECONDS, 0
    while True:
        time.sleep(wait)
        wait = min(wait * 1.5, _POLL_SECONDS_MAX)
        try:
            state = session.gateway.get(build_url_path("imports", import_id)).json()
        except CommandFailed as failed:
            failures += 1
            if failures >= _FAILED_POLLS_MAX or not _is_retryable(failed):
                failed.hint = f"the import continues nevertheless: its id is {import_id}."
                raise
            continue
        failures = 0
        progress = state.get("progress")
        if progress:
            report(progress["done"], progress["total"])
        if state["state"] != "running":
            break
    result = dict(state.get("result") or {})
    if state["state"] == "failed":
        problem = {"title": "The import failed", **result}
        raise ProblemResponse(problem, status=int(state.get("status") or 500))
    return result


def _is_retryable(failed: CommandFailed) -> bool:
    """Whether another poll may succeed: no response came, or the gateway failed."""
    server_error = isinstance(failed, ProblemResponse) and failed.status >= 500
    return server_error or isinstance(failed, GatewayUnreachable)
