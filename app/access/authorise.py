"""Authorisation: every route declares the scope that it needs, and no request passes without a verified key.

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

from collections.abc import Awaitable, Iterable, Iterator
from typing import Any, Final, Literal, Protocol, cast

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from app.access.challenges import request_path
from app.access.presented_tokens import MAX_TOKEN_LENGTH, TokenExpired, TokenVerifier
from app.access.verifier import KeyVerifier
from app.core.errors import Forbidden, Unauthenticated, scopes_missing
from app.security.principal import Principal
from app.security.scopes import Scope
from app.storage.models import TENANT

PUBLIC: Literal["open"] = "open"
"""What a public route declares in place of a scope."""
ANY_KEY: Literal["any"] = "any"
"""What a route declares in place of a scope where any valid key is enough."""
SCHEME_NAME = "apiKey"
SESSION_PRINCIPAL: Final = "session_principal"
"""The member of a request's state that has the `PrincipalSource` of a session, in requests that the console
makes within the process. A client cannot set it: the server makes the state of each request.
"""


class PrincipalSource(Protocol):
    """Returns the principal of a session as its key is now."""

    def __call__(self, *, recent: bool = False) -> Awaitable[Principal]:
        """Return the principal; raise Unauthenticated where the session has ended, and, with `recent`,
        Forbidden where its key was presented long ago.
        """


ANONYMOUS = Principal(
    key_id="anonymous",
    name="anonymous",
    tenant_id=TENANT,
    scopes=frozenset({"tools:read"}),
    anonymous=True,
)

_MAX_VALUE_LENGTH = len("Bearer ") + MAX_TOKEN_LENGTH + 16
_HOW_TO_SEND = "Send an API key as `Authorization: Bearer <key>` or as `X-API-Key: <key>`."


class AccessServices(Protocol):
    """The part of `state.services` that authorisation uses."""

    @property
    def keys(self) -> KeyVerifier:
        """The verifier of API keys."""

    @property
    def access_tokens(self) -> TokenVerifier | None:
        """The verifier of access tokens; None where no issuer is configured."""


async def authorise(
    connection: HTTPConnection, scope: Scope | None, *alternatives: Scope, recent: bool = False
) -> Principal:
    """Return the principal of a request's API key; it is also stored as `state.principal`. Without a scope,
    any valid key is enough. With `recent`, a session must have presented its key a short time ago.

    Raise Unauthenticated without a valid key, Forbidden when the key has neither the scope nor one of the
    alternatives, or was presented long ago, and Unavailable when the key cannot be verified.
    """
    text = presented_key(connection.scope["headers"])
    principal: Principal | None
    if text is None:
        principal = await _session_principal(connection, recent=recent)
        state = connection.scope["state"]
    else:
        # The mapping behind `connection.state`: access by attribute costs ten times as much.
        state = connection.scope["state"]
        services: AccessServices = state["services"]
        principal = services.keys.verify_cached(text)
        if principal is None:
            principal = await _verify(connection, services, text, is_call=scope == "tools:call")
    state["principal"] = principal
    if scope is not None and not principal.has_scope(scope):
        _require_alternative(principal, scope, alternatives)
    return principal


async def require_recent(connection: HTTPConnection) -> None:
    """Raise Forbidden for a session that has presented its key long ago: for a request that only its content
    makes one that `recent` is for.
    """
    if SESSION_PRINCIPAL in connection.scope.get("state", {}):
        await _session_principal(connection, recent=True)


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the text of the API key in a request's headers (ASGI: names in lower case), None without one.

    The key is not verified. Raise Unauthenticated for more than one, since identity must not depend on the
    order of fields (RFC 9110 section 5.3), for schemes other than Bearer (RFC 6750), and for oversized
    values.
    """
    found: bytes | None = None
    for name, value in headers:
        if name not in (b"authorization", b"x-api-key"):
            continue
        if found is not None:
            raise Unauthenticated("More than one API key was sent. " + _HOW_TO_SEND)
        if len(value) > _MAX_VALUE_LENGTH:
            raise Unauthenticated("The API key is not valid.")
        if name == b"x-api-key":
            found = value
        elif value[:7].lower() == b"bearer ":
            found = value[7:].lstrip(b" ")
        else:
            raise Unauthenticated("The Authorization header is not `Bearer <key>`.")
    return None if found is None else found.decode("latin-1")


async def _session_principal(connection: HTTPConnection, *, recent: bool) -> Principal:
    """Return the principal of the session for which the console makes the request; raise Unauthenticated
    without one, and Forbidden where its key must be presented again.
    """
    source: PrincipalSource | None = connection.scope.get("state", {}).get(SESSION_PRINCIPAL)
    if source is None:
        raise Unauthenticated("The request has no API key. " + _HOW_TO_SEND)
    return await source(recent=recent)


def _require_alternative(principal: Principal, scope: Scope, alternatives: tuple[Scope, ...]) -> None:
    """Raise Forbidden for a principal without the scope, unless it has one of the alternatives."""
    if not alternatives:
        raise scopes_missing(f"The API key lacks the scope `{scope}`.", [scope])
    if not any(map(principal.has_scope, alternatives)):
        names = ", ".join(f"`{name}`" for name in (scope, *alternatives))
        raise scopes_missing(f"The API key has none of the scopes {names}: one is enough.", [scope])


async def _verify(
    connection: HTTPConnection, services: AccessServices, text: str, *, is_call: bool
) -> Principal:
    """Return the principal of an access token, or of an API key that is not cached."""
    client = connection.scope.get("client")
    host = client[0] if client else ""
    tokens = services.access_tokens
    if tokens is not None and tokens.has_form(text):
        try:
            return await tokens.verify(text, request_path(connection.scope))
        except TokenExpired:
            # As for keys: an expired one is no attempt to guess.
            raise
        except Unauthenticated as error:
            raise await services.keys.rejected_token(error, host=host) from None
    return await services.keys.verify(text, host=host, is_call=is_call)


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
        self.model = HTTPBearer(description=_HOW_TO_SEND)
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


async def require_same_rights(connection: HTTPConnection, scope: Scope, principal: Principal) -> None:
    """Authorise a request again whose response is still being written for `principal`. Raise what `authorise`
    raises, and Forbidden where the key has other restrictions by now.
    """
    renewed = await authorise(connection, scope)
    if _restrictions(renewed) != _restrictions(principal):
        raise Forbidden("The restrictions of the API key have changed.", hint="Send the request again.")


def _restrictions(principal: Principal) -> tuple[frozenset[str] | None, ...]:
    return principal.own_providers, principal.tags, principal.toolsets
