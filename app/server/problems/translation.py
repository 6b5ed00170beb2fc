"""Translation of errors of the framework and the database to those of the gateway."""

import json
from http import HTTPStatus

from fastapi.exceptions import RequestValidationError
from sqlalchemy.exc import DBAPIError
from sqlalchemy.exc import TimeoutError as PoolTimeout
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, HTTPConnection
from starlette.routing import Match, Mount

from app.access.authorise import iter_routes
from app.database import DatabasePoolExhausted, is_unavailable
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
from app.server.problems.validation import validation_error

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
    """Return the gateway's error for an exception; None for an unexpected one."""
    match error:
        case GatewayError():
            return error
        case RequestValidationError():
            return validation_error(error)
        case HTTPException():
            return _from_http(connection, error)
        case ClientDisconnect():
            return BadRequest("The client disconnected before its request was complete.")
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
    # FastAPI turns whatever is raised while a body is read into a 400 with the original error as its cause.
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
        made.detail = f"This address supports {made.headers['Allow']} only."
    return made


_PHRASES = {int(one): one.phrase for one in HTTPStatus}


class _HttpStatusError(GatewayError):
    """An HTTP error of the framework with a status for which the gateway has no error."""

    def __init__(self, status: int) -> None:
        phrase = _PHRASES.get(status, "Error")
        self.status: int = status  # type: ignore[misc]
        self.slug: str = phrase.lower().replace(" ", "-").replace("'", "")  # type: ignore[misc]
        self.title: str = phrase  # type: ignore[misc]
        super().__init__()


def _allowed_methods(connection: HTTPConnection) -> str:
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
    if state in ("22021", "22P05"):
        return InvalidInput("The input holds text that cannot be stored, such as NUL.")
    return None
