"""Translation of errors of the framework and the database to those of the gateway."""

import json
from collections.abc import Iterable
from http import HTTPStatus
from typing import Any

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match, Mount

from app.api.authorisation import iter_routes
from app.core.errors import (
    BadRequest,
    Conflict,
    FieldError,
    Forbidden,
    GatewayError,
    InvalidInput,
    MethodNotAllowed,
    NotFound,
    PreconditionFailed,
    TooLarge,
    TooManyRequests,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from app.core.suggestions import did_you_mean, find_similar
from app.core.text import describe_json_error
from app.server.problems.validation import convert_validation_error
from app.storage.database import DatabasePoolExhausted, is_unavailable

# HEAD is served wherever GET is (app/server/head_requests.py).
_METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
# What asyncpg cannot encode (22000), and what PostgreSQL takes as no text, JSON or number.
_UNSTORABLE_STATES = frozenset({"22000", "22003", "22021", "22P02", "22P05"})
_BY_STATUS: dict[int, tuple[type[GatewayError], str]] = {
    400: (BadRequest, "The body could not be read."),
    401: (Unauthenticated, ""),
    403: (Forbidden, ""),
    405: (MethodNotAllowed, ""),
    409: (Conflict, ""),
    412: (PreconditionFailed, ""),
    413: (TooLarge, ""),
    415: (UnsupportedMediaType, ""),
    422: (InvalidInput, ""),
    429: (TooManyRequests, ""),
    503: (Unavailable, ""),
}


def translate(connection: HTTPConnection, error: BaseException) -> GatewayError | None:
    """Return the gateway's error for an exception; None for an unexpected one."""
    match error:
        case GatewayError():
            return error
        case RequestValidationError():
            return convert_validation_error(error, _get_body_type(connection))
        case HTTPException():
            return _from_http(connection, error)
        case ClientDisconnect():
            return BadRequest("The client disconnected before its request was complete.")
        case json.JSONDecodeError():
            return BadRequest(
                describe_json_error("The body", error.doc.encode(errors="replace"), error.pos, error.msg)
            )
        case UnicodeDecodeError():
            return BadRequest("The body is not valid UTF-8.")
        case RecursionError():
            return BadRequest("The input is nested too deeply.")
        case DBAPIError() | PoolTimeout():
            return _from_database(error)
    return None


def _get_body_type(connection: HTTPConnection) -> Any:
    """Return the type of the body of the request's route, None where it has none."""
    field = getattr(connection.scope.get("route"), "body_field", None)
    return None if field is None else field.field_info.annotation


def _from_http(connection: HTTPConnection, error: HTTPException) -> GatewayError:
    # FastAPI turns whatever is raised while a body is read into a 400 with the original error as its cause.
    cause = error.__cause__
    if error.status_code == 400 and cause is not None:
        known = translate(connection, cause)
        if known is not None:
            return known
    if error.status_code == 404:
        return _report_unknown_url(connection)
    kind, detail = _BY_STATUS.get(error.status_code, (None, ""))
    converted = _HttpStatusError(error.status_code) if kind is None else kind(detail)
    converted.headers |= dict(error.headers or {})
    if error.status_code == 405:
        named = {name.lower(): value for name, value in converted.headers.items()}.get("allow")
        converted.headers = {
            name: value for name, value in converted.headers.items() if name.lower() != "allow"
        }
        converted.headers["Allow"] = _list_allowed_methods(connection) or named or "GET, HEAD"
        converted.detail = f"This resource supports {converted.headers['Allow']} only."
    return converted


def _report_unknown_url(connection: HTTPConnection) -> NotFound:
    """Return NotFound for a path that has no route, with the most similar path of the API."""
    path = connection.scope["path"].removeprefix(connection.scope.get("root_path", ""))
    paths = dict.fromkeys(
        path_of_route
        for route in iter_routes(connection.app.router.routes)
        if (path_of_route := getattr(route, "path", None)) and path_of_route != "/"
    )
    similar = find_similar(path, paths)
    hint = (
        f"{did_you_mean(similar)} /docs has all paths."
        if similar
        else "Compare the URL with the paths at /docs."
    )
    if path.endswith("/"):
        hint = "Remove the slash at the end of the URL."
    return NotFound("There is no resource at this URL.", hint=hint)


_PHRASES = {int(one): one.phrase for one in HTTPStatus}


class _HttpStatusError(GatewayError):
    """An HTTP error of the framework with a status for which the gateway has no error."""

    def __init__(self, status: int) -> None:
        phrase = _PHRASES.get(status, "Error")
        self.hint = "Compare the request with the API reference at /docs."
        self.retryable = status in (408, 429, 503)
        self.status: int = status  # type: ignore[misc]
        self.slug: str = phrase.lower().replace(" ", "-").replace("'", "")  # type: ignore[misc]
        self.title: str = phrase  # type: ignore[misc]
        super().__init__()


def _list_allowed_methods(connection: HTTPConnection) -> str:
    """Return all methods of the path (RFC 9110 section 15.5.6); Starlette names those of the first route
    only.

    A literal path, like /tools/search, is not a value of the parameter in /tools/{name}. Return "" for a
    mounted application, which matches every method and has error responses of its own.
    """
    scope = connection.scope
    scope_of_path = {
        "type": "http",
        "path": scope["path"],
        "root_path": scope.get("app_root_path", scope.get("root_path", "")),
        "headers": scope["headers"],
    }
    path = scope_of_path["path"].removeprefix(scope_of_path["root_path"])
    literal = [one for one in iter_routes(connection.app.router.routes) if getattr(one, "path", None) == path]
    if literal and not isinstance(literal[0], Mount):
        methods = {method for one in literal for method in getattr(one, "methods", None) or ()}
        return _write_methods(method for method in _METHODS if method in methods)
    found = []
    for method in _METHODS:
        scope_of_method = {**scope_of_path, "method": method}
        fitting = [
            one for one in connection.app.router.routes if one.matches(scope_of_method)[0] is Match.FULL
        ]
        if fitting and isinstance(fitting[0], Mount):
            return ""
        if fitting:
            found.append(method)
    return _write_methods(found)


def _write_methods(methods: Iterable[str]) -> str:
    """Return methods as the value of `Allow`, with HEAD after GET."""
    return ", ".join("GET, HEAD" if method == "GET" else method for method in methods)


def _from_database(error: DBAPIError | PoolTimeout) -> GatewayError | None:
    """Return the gateway's error by SQLSTATE (PostgreSQL, appendix A); None for an unexpected one."""
    if isinstance(error, PoolTimeout):
        return DatabasePoolExhausted()
    if is_unavailable(error):
        return Unavailable("The database cannot be reached.")
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    if state in ("23505", "23503", "23P01"):
        return Conflict("It exists already, or is still in use.")
    # Deadlock, serialisation failure, lock and statement timeouts, shutdown, no resources: a retry may
    # succeed.
    if state.startswith(("40", "53", "57")) or state == "55P03":
        return Unavailable("The database is busy; try again.")
    if state in _UNSTORABLE_STATES:
        detail = "Must have no text with U+0000 or half of a surrogate pair, and no number beyond 64 bits."
        return InvalidInput("The input holds a value that cannot be stored.", errors=[FieldError("", detail)])
    return None
