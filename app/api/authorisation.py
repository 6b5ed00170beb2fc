"""How routes declare the scope that they need (`app.access.authorise`).

    Depends(requires("tools:read"))           a route of FastAPI
    Depends(requires("a", recent=True))       the same; a session of the console also needs its key once more
    Depends(requires_any("a", "b"))           the same, for keys with any of these scopes
    Depends(anonymous_if("utcp_anonymous"))   the same, public for reading where that setting is true
    Depends(requires_key)                     a route for any valid key, whatever its scopes
    Depends(public_route)                     public: no key is needed
    endpoint.scope = "tools:call"             a plain Starlette route, which calls `authorise()` itself;
                                              its attribute `alternative_scopes` is as in `requires_any`

A route that declares none of these fails the test that visits all routes (`declared_scope`).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, cast

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from app.access.authorise import (
    ANONYMOUS,
    ANY_KEY,
    HOW_TO_SEND,
    PUBLIC,
    SESSION_PRINCIPAL,
    authorise,
    presented_key,
)
from app.security.principal import Principal
from app.security.scopes import Scope

SCHEME_NAME: Final = "apiKey"


class Requires(SecurityBase):
    """A dependency that returns the principal of a request; `scope` is the scope that its key must have, None
    where any valid key is enough.

    `setting` names a setting of type bool that admits requests without a key. A key with one of the
    `alternatives` in place of `scope` is admitted, too. `recent` is declared by routes that show secrets,
    widen rights or delete: a session of the console reaches them only with a key presented a short time ago.
    """

    def __init__(
        self,
        scope: Scope | None,
        *,
        setting: str | None = None,
        alternatives: tuple[Scope, ...] = (),
        recent: bool = False,
    ) -> None:
        # Only Bearer is described: a generated client that sent both headers would be rejected.
        self.model = HTTPBearer(description=HOW_TO_SEND)
        self.scheme_name = SCHEME_NAME
        self.scope = scope
        self.setting = setting
        self.alternatives = alternatives
        self.recent = recent

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """Return the principal, or `ANONYMOUS`; raise what `authorise` raises."""
        if self.setting is not None and getattr(connection.state.services.settings, self.setting) is True:
            text = presented_key(connection.scope["headers"])
            if text is None and SESSION_PRINCIPAL not in connection.scope["state"]:
                connection.state.principal = ANONYMOUS
                return ANONYMOUS
        return await authorise(connection, self.scope, *self.alternatives, recent=self.recent)


class PublicRoute:
    """The dependency of a public route, which needs no key."""

    scope = PUBLIC

    async def __call__(self) -> None:
        """Do nothing: every request is admitted."""


public_route = PublicRoute()
requires_key = Requires(None)
"""The dependency of a route for any valid key."""


def requires(scope: Scope, *, recent: bool = False) -> Requires:
    """Return the dependency of a route that needs this scope; `recent` as in `Requires`."""
    return Requires(scope, recent=recent)


def requires_any(scope: Scope, *alternatives: Scope, recent: bool = False) -> Requires:
    """Return the dependency of a route that needs one of these scopes; what the key may do there depends on
    which. `recent` is as in `Requires`.
    """
    return Requires(scope, alternatives=alternatives, recent=recent)


def anonymous_if(setting: str, scope: Scope = "tools:read") -> Requires:
    """Return the dependency of a route that needs `scope`, or no key where the setting `setting` is true."""
    return Requires(scope, setting=setting)


async def authorise_route(connection: HTTPConnection, route: BaseRoute) -> None:
    """Authorise a request as its route does; raise what that raises. Nothing is checked for a public route.

    For code that runs before the route, and may tell nobody else what it finds.
    """
    on_endpoint = getattr(getattr(route, "endpoint", None), "scope", None)
    if isinstance(on_endpoint, str):
        if on_endpoint != PUBLIC:
            await authorise(connection, cast("Scope", on_endpoint), *alternative_scopes(route))
        return
    requirement = _requirement(getattr(route, "dependant", None))
    if isinstance(requirement, Requires):
        await requirement(connection)


def declared_scope(route: BaseRoute) -> str | None:
    """Return the scope that a route declares, ANY_KEY for one for any valid key, PUBLIC for a public route;
    None where it declares none of these.
    """
    on_endpoint = getattr(getattr(route, "endpoint", None), "scope", None)
    if isinstance(on_endpoint, str):
        return on_endpoint
    requirement = _requirement(getattr(route, "dependant", None))
    return None if requirement is None else requirement.scope or ANY_KEY


def alternative_scopes(route: BaseRoute) -> tuple[Scope, ...]:
    """Return the scopes that a route admits in place of `declared_scope`."""
    on_endpoint: tuple[Scope, ...] | None = getattr(
        getattr(route, "endpoint", None), "alternative_scopes", None
    )
    if on_endpoint is not None:
        return on_endpoint
    requirement = _requirement(getattr(route, "dependant", None))
    return requirement.alternatives if isinstance(requirement, Requires) else ()


def declared_recent(route: BaseRoute) -> bool:
    """Return whether a route needs a key presented a short time ago, where a session asks."""
    on_endpoint = getattr(getattr(route, "endpoint", None), "recent", None)
    if isinstance(on_endpoint, bool):
        return on_endpoint
    requirement = _requirement(getattr(route, "dependant", None))
    return isinstance(requirement, Requires) and requirement.recent


def _requirement(dependant: Any) -> Requires | PublicRoute | None:
    """Return the first dependency that declares a scope."""
    if dependant is None:
        return None
    if isinstance(dependant.call, Requires | PublicRoute):
        return dependant.call
    return next((found for sub in dependant.dependencies if (found := _requirement(sub))), None)


def iter_routes(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Yield all routes, including those of included routers."""
    for route in routes:
        included = getattr(getattr(route, "original_router", None), "routes", None)
        if included is None:
            yield route
        else:
            yield from iter_routes(included)
