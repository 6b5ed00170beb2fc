"""Query parameters that a route does not declare are rejected with 422, and so are repeated ones.

A misspelled filter would otherwise be ignored, and its response look like the right one. The declared
parameters are those of the route itself: of FastAPI's dependencies, or, for a plain Starlette route, of its
endpoint's attribute `query_parameters` (a set of names; none without it).
"""

import difflib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, get_args, get_origin
from urllib.parse import parse_qsl

from fastapi import FastAPI
from fastapi.dependencies.models import Dependant
from pydantic import BaseModel
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute, Route
from starlette.types import ASGIApp, Receive, Scope, Send

from app.api.authorisation import authorise_route, iter_routes
from app.core.errors import FieldError, InvalidInput
from app.core.text import pointer

EXEMPT: Final = (
    "/",
    "/console",
    "/docs",
    "/health/live",
    "/health/ready",
    "/mcp",
    "/metrics",
    "/oauth",
    "/openapi.json",
    "/problems",
    "/scopes",
    "/tools/{name}/call",
    "/toolsets/{name}/mcp",
)
"""Paths, with all below them, at which any query parameter is allowed.

Pages and probes may be requested with parameters of others (a cache's, a monitor's), an OAuth callback gets
those that the authorisation server chooses, and those of a call are arguments of its tool.
"""

_MAX_ERRORS: Final = 50
_MAX_NAME: Final = 200
# Names that other APIs use for what a parameter of this one does.
_SYNONYMS: Final[Mapping[str, str]] = {
    **dict.fromkeys(("page", "offset", "skip", "start", "after", "page_token", "next"), "cursor"),
    **dict.fromkeys(("per_page", "page_size", "pagesize", "size", "count", "top", "max_results"), "limit"),
    **dict.fromkeys(("search", "query", "filter", "text", "term"), "q"),
    **dict.fromkeys(("order", "order_by", "orderby", "sort_by", "sortby", "ordering"), "sort"),
    **dict.fromkeys(("status", "enabled", "disabled"), "state"),
}
_HINTS: Final[Mapping[str, str]] = {
    "cursor": "Lists have no page numbers: give the `next_cursor` of a page as `cursor` to get the next one.",
}
_MANY: Final = (list, set, tuple, frozenset, Sequence)


class QueryParameters:
    """The query parameters that a route declares: names, and which of them may be repeated."""

    def __init__(self, names: Mapping[str, bool]) -> None:
        self._names = names

    @classmethod
    def of_route(cls, route: BaseRoute) -> "QueryParameters":
        """Return the parameters of a route of FastAPI or of a plain one of Starlette."""
        dependant = getattr(route, "dependant", None)
        if dependant is not None:
            return cls(dict(_list_declared(dependant)))
        names = getattr(getattr(route, "endpoint", None), "query_parameters", ())
        return cls(dict.fromkeys(names, False))

    def list_errors(self, query: bytes) -> list[FieldError]:
        """Return an error for each unknown parameter of a query string, and for each that is repeated."""
        seen: set[str] = set()
        errors_by_name: dict[str, FieldError] = {}
        for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True):
            if name not in self._names:
                detail = self._describe_unknown(name)
                errors_by_name.setdefault(
                    name, FieldError(_point_to(name), detail, expected=sorted(self._names))
                )
            elif name in seen and not self._names[name]:
                errors_by_name.setdefault(name, FieldError(_point_to(name), "Give this parameter once."))
            seen.add(name)
        return list(errors_by_name.values())[:_MAX_ERRORS]

    def _describe_unknown(self, name: str) -> str:
        wanted = name.lower().replace("-", "_")
        meant = _SYNONYMS.get(wanted)
        if meant not in self._names:
            meant = next(iter(difflib.get_close_matches(wanted, self._names, n=1)), None)
        if meant is None:
            return "This parameter is unknown."
        hint = f" {_HINTS[meant]}" if meant in _HINTS else ""
        return f"This parameter is unknown. Did you mean `{meant}`?{hint}"


class QueryCheck:
    """Rejects requests whose query parameters a route does not declare. The routes are read once each."""

    def __init__(self) -> None:
        self._of_route: dict[int, tuple[BaseRoute, QueryParameters | None]] = {}

    async def __call__(self, connection: HTTPConnection) -> None:
        """Raise InvalidInput for unknown and repeated parameters; first what authorisation raises."""
        query: bytes = connection.scope.get("query_string", b"")
        if query:
            await self.check(connection, connection.scope["route"])

    async def check(self, connection: HTTPConnection, route: BaseRoute) -> None:
        """Do so for a route, which the request has matched."""
        # By identity: routes are compared by value. The entry holds the route, so that no other gets its id.
        entry = self._of_route.get(id(route))
        if entry is None:
            parameters = None if is_exempt(getattr(route, "path", "")) else QueryParameters.of_route(route)
            entry = self._of_route[id(route)] = (route, parameters)
        if entry[1] is None:
            return
        errors = entry[1].list_errors(connection.scope["query_string"])
        if errors:
            # Without a key, nobody is told which parameters there are.
            await authorise_route(connection, route)
            pointers = ", ".join(error.pointer for error in errors[:5])
            raise InvalidInput(f"The query is not valid: see {pointers}.", errors=errors)


class _CheckedApp:
    """The ASGI application of a plain Starlette route, behind the check."""

    def __init__(self, app: ASGIApp, route: Route, check: QueryCheck) -> None:
        self._app = app
        self._route = route
        self._check = check

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope.get("query_string"):
            await self._check.check(HTTPConnection(scope), self._route)
        await self._app(scope, receive, send)


def install(app: FastAPI, check: QueryCheck) -> None:
    """Put the check before the plain Starlette routes of the application; call it after the last edge.

    For routes of FastAPI, `check` is a dependency of the whole application.
    """
    for route in iter_routes(app.routes):
        if type(route) is Route and not is_exempt(route.path):
            route.app = _CheckedApp(route.app, route, check)


def is_exempt(path: str) -> bool:
    """Return whether any query parameter is allowed at a path template."""
    return path in EXEMPT or any(path.startswith(f"{one}/") for one in EXEMPT if one != "/")


def _list_declared(dependant: Dependant) -> Iterator[tuple[str, bool]]:
    """Yield the names of the query parameters of a dependant, and whether each may be repeated."""
    for parameter in dependant.query_params:
        annotation = parameter.field_info.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for name, member in annotation.model_fields.items():
                yield member.alias or name, _is_many(member.annotation)
        else:
            yield parameter.alias, _is_many(annotation)
    for inner_dependant in dependant.dependencies:
        yield from _list_declared(inner_dependant)


def _is_many(annotation: Any) -> bool:
    """Return whether values of a type are read from several parameters of one name."""
    if annotation in _MANY or get_origin(annotation) in _MANY:
        return True
    return get_origin(annotation) is not None and any(_is_many(one) for one in get_args(annotation))


def _point_to(name: str) -> str:
    return pointer("#/query", name[:_MAX_NAME])
