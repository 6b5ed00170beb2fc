"""Errors of the framework and of the database -> ours."""

import json
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match, Mount

from app.access.authorise import every_route
from app.database import PoolBusy, is_away
from app.errors import (
    BadRequest,
    Conflict,
    Forbidden,
    GatewayError,
    InvalidInput,
    NotFound,
    PreconditionFailed,
    TooLarge,
    Unauthenticated,
    Unavailable,
    UnsupportedMediaType,
)
from app.server.problems.validation import invalid

_METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")
_BY_STATUS: dict[int, tuple[type[GatewayError], str]] = {
    400: (BadRequest, "The body could not be read."),
    401: (Unauthenticated, ""),
    403: (Forbidden, ""),
    404: (NotFound, "There is nothing at this address."),
    409: (Conflict, ""),
    412: (PreconditionFailed, ""),
    413: (TooLarge, ""),
    415: (UnsupportedMediaType, ""),
    422: (InvalidInput, ""),
    503: (Unavailable, ""),
}


def translate(connection: HTTPConnection, error: BaseException) -> GatewayError | None:
    """Return the error of ours that stands for an error; None for one that nobody expected."""
    match error:
        case GatewayError():
            return error
        case RequestValidationError():
            return invalid(error)
        case HTTPException():
            return _from_http(connection, error)
        case ClientDisconnect():
            return BadRequest("The client left before its request was complete.")
        case json.JSONDecodeError():
            return BadRequest(f"The body is not valid JSON: see character {error.pos}.")
        case UnicodeDecodeError():
            return BadRequest("The body is not valid UTF-8.")
        case RecursionError():
            return BadRequest("The input is nested too deeply.")
        case DBAPIError() | PoolTimeout():
            return _from_database(error)
    return None


def _from_http(connection: HTTPConnection, error: HTTPException) -> GatewayError:
    # FastAPI turns whatever is raised while a body is read into a 400 with the true error as its cause.
    cause = error.__cause__
    if error.status_code == 400 and cause is not None:
        known = translate(connection, cause)
        if known is not None:
            return known
    kind, detail = _BY_STATUS.get(error.status_code, (None, ""))
    made = _HttpStatusError(error.status_code) if kind is None else kind(detail)
    made.headers |= dict(error.headers or {})
    if error.status_code == 405:
        named = {name.lower(): value for name, value in made.headers.items()}.get("allow")
        made.headers = {name: value for name, value in made.headers.items() if name.lower() != "allow"}
        made.headers["Allow"] = _allowed_methods(connection) or named or "GET, HEAD"
        made.detail = f"This address answers {made.headers['Allow']} only."
    return made


_PHRASES = {int(one): one.phrase for one in HTTPStatus}


class _HttpStatusError(GatewayError):
    """A status of the framework that has no error of ours."""

    def __init__(self, status: int) -> None:
        phrase = _PHRASES.get(status, "Error")
        self.status: int = status  # type: ignore[misc]
        self.slug: str = phrase.lower().replace(" ", "-").replace("'", "")  # type: ignore[misc]
        self.title: str = phrase  # type: ignore[misc]
        super().__init__()


def _allowed_methods(connection: HTTPConnection) -> str:
    """Return all methods of the path (RFC 9110 section 15.5.6); Starlette names those of the first route
    only.

    What stands literally in a path, like /tools/search, is no name of something in /tools/{name}.
    Empty for what is mounted, which says yes to every method and answers for itself.
    """
    scope = connection.scope
    scope_of_path = {
        "type": "http",
        "path": scope["path"],
        "root_path": scope.get("app_root_path", scope.get("root_path", "")),
        "headers": scope["headers"],
    }
    path = scope_of_path["path"].removeprefix(scope_of_path["root_path"])
    literal = [one for one in every_route(connection.app.router.routes) if getattr(one, "path", None) == path]
    if literal and not isinstance(literal[0], Mount):
        methods = {method for one in literal for method in getattr(one, "methods", None) or ()}
        return ", ".join(method for method in _METHODS if method in methods)
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
    return ", ".join(found)


def _from_database(error: DBAPIError | PoolTimeout) -> GatewayError | None:
    """By SQLSTATE (PostgreSQL, appendix A)."""
    if isinstance(error, PoolTimeout):
        return PoolBusy()
    if is_away(error):
        return Unavailable("The database cannot be reached.")
    state = str(getattr(getattr(error, "orig", None), "sqlstate", None) or "")
    if state in ("23505", "23503", "23P01"):
        return Conflict("Something like this exists already, or is still in use.")
    # Deadlock, serialisation, lock and statement timeouts, shutdown, no resources: worth another try.
    if state.startswith(("40", "53", "57")) or state == "55P03":
        return Unavailable("The database is busy; try again.")
    if state in ("22021", "22P05"):
        return InvalidInput("The input holds text that cannot be stored, such as NUL.")
    return None
