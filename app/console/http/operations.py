"""Which operations of the API a key may use: read from the routes, so that pages have no copy of a rule."""

from typing import Any, ClassVar, cast
from weakref import WeakKeyDictionary

from fastapi import FastAPI

from app.access.authorise import ANY_KEY, PUBLIC
from app.api.authorisation import alternative_scopes, declared_scope, iter_routes
from app.security.principal import Principal


class Operations:
    """The scopes of all operations of an application, by method and path: `PATCH /tools/{name}`."""

    _made: ClassVar["WeakKeyDictionary[Any, Operations]"] = WeakKeyDictionary()

    def __init__(self, app: FastAPI) -> None:
        self._scopes: dict[str, tuple[str, ...]] = {}
        for route in iter_routes(app.routes):
            scope = declared_scope(route)
            path = getattr(route, "path", None)
            if scope is None or path is None:
                continue
            for method in getattr(route, "methods", None) or ():
                self._scopes.setdefault(f"{method} {path}", (scope, *alternative_scopes(route)))

    @classmethod
    def of(cls, app: Any) -> "Operations":
        """Return the operations of an application, read once."""
        operations = cls._made.get(app)
        if operations is None:
            operations = cls._made[app] = cls(cast("FastAPI", app))
        return operations

    def allowed(self, operation: str, principal: Principal) -> bool:
        """Return whether the scopes of a principal allow an operation; raise KeyError for an unknown one."""
        scopes = self._scopes[operation]
        return any(scope in (PUBLIC, ANY_KEY) or principal.has_scope(scope) for scope in scopes)

    def scopes(self, operation: str) -> tuple[str, ...]:
        """Return the scopes of which one is needed; raise KeyError for an unknown operation."""
        return self._scopes[operation]
