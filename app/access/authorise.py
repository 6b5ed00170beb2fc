"""Authorisation: every route declares the scope that it needs, and no request passes without a verified key.

    Depends(requires("tools:read"))           a route of FastAPI
    Depends(anonymous_if("utcp_anonymous"))   the same, public for reading where that setting is true
    Depends(public_route)                     public on purpose
    endpoint.scope = "tools:call"             a plain Starlette route, which calls `authorise()` itself

A route that declares none of these fails the test that visits all routes (`declared_scope`).
"""

from collections.abc import Iterable, Iterator
from typing import Any, Literal, Protocol

from fastapi.openapi.models import HTTPBearer
from fastapi.security.base import SecurityBase
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from app.access.verifier import KeyVerifier
from app.errors import Forbidden, Unauthenticated
from app.models import TENANT
from app.security.keys import KEY_LENGTH
from app.security.principal import Principal
from app.security.scopes import Scope

PUBLIC: Literal["open"] = "open"
SCHEME_NAME = "apiKey"
ANONYMOUS = Principal(
    key_id="anonymous",
    name="anonymous",
    tenant_id=TENANT,
    scopes=frozenset({"tools:read"}),
    anonymous=True,
)

_MAX_VALUE_LENGTH = len("Bearer ") + KEY_LENGTH + 16
_HOW_TO_SEND = "Send an API key as `Authorization: Bearer <key>` or as `X-API-Key: <key>`."


class AccessServices(Protocol):
    """What the gate uses of `state.services`."""

    @property
    def keys(self) -> KeyVerifier:
        """Verifies API keys."""


async def authorise(connection: HTTPConnection, scope: Scope) -> Principal:
    """Return the principal of a request's API key; it is also stored as `state.principal`.

    Raise Unauthenticated without a valid key, Forbidden when the key lacks the scope, and Unavailable when
    the key cannot be verified.
    """
    text = presented_key(connection.scope["headers"])
    if text is None:
        raise Unauthenticated(_HOW_TO_SEND)
    return await _authenticate(connection, text, scope)


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """Return the text that was sent as an API key, valid or not; None when there is none.

    Raise Unauthenticated for more than one, since identity must not depend on the order of fields (RFC 9110
    section 5.3), for other schemes than Bearer (RFC 6750), and for oversized values.
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


async def _authenticate(connection: HTTPConnection, text: str, scope: Scope) -> Principal:
    # The mapping behind `connection.state`: access by attribute costs ten times as much.
    state = connection.scope["state"]
    services: AccessServices = state["services"]
    keys = services.keys
    principal: Principal | None = keys.verify_cached(text)
    if principal is None:
        client = connection.scope.get("client")
        host = client[0] if client else ""
        principal = await keys.verify(text, host=host, is_call=scope == "tools:call")
    state["principal"] = principal
    if not principal.has_scope(scope):
        raise Forbidden(f"The API key lacks the scope `{scope}`.", extra={"missing_scopes": [scope]})
    return principal


class Requires(SecurityBase):
    """A dependency that returns the principal; `scope` is the scope that it needs.

    `setting` names a setting of type bool that admits requests without a key.
    """

    def __init__(self, scope: Scope, *, setting: str | None = None) -> None:
        # Only Bearer is described: a generated client that sent both headers would be rejected.
        self.model = HTTPBearer(description=_HOW_TO_SEND)
        self.scheme_name = SCHEME_NAME
        self.scope = scope
        self.setting = setting

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """Return the principal, or `ANONYMOUS`; raise what `authorise` raises."""
        if self.setting is not None and getattr(connection.state.services.settings, self.setting) is True:
            text = presented_key(connection.scope["headers"])
            if text is None:
                connection.state.principal = ANONYMOUS
                return ANONYMOUS
            return await _authenticate(connection, text, self.scope)
        return await authorise(connection, self.scope)


class PublicRoute:
    """The dependency of a public route, which needs no key."""

    scope = PUBLIC

    async def __call__(self) -> None:
        """Do nothing: every request is admitted."""


public_route = PublicRoute()


def requires(scope: Scope) -> Requires:
    """Return the dependency of a route that needs a scope."""
    return Requires(scope)


def anonymous_if(setting: str, scope: Scope = "tools:read") -> Requires:
    """Return a dependency of a route that needs a scope unless the setting admits keyless requests."""
    return Requires(scope, setting=setting)


def declared_scope(route: BaseRoute) -> str | None:
    """Return what a route declares: a scope, `open`, or None when it declares nothing (which is an error)."""
    on_endpoint = getattr(getattr(route, "endpoint", None), "scope", None)
    if isinstance(on_endpoint, str):
        return on_endpoint
    return _scope_of_dependencies(getattr(route, "dependant", None))


def _scope_of_dependencies(dependant: Any) -> str | None:
    if dependant is None:
        return None
    if isinstance(dependant.call, Requires | PublicRoute):
        return dependant.call.scope
    return next((found for sub in dependant.dependencies if (found := _scope_of_dependencies(sub))), None)


def iter_routes(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """Return all routes, including those of included routers."""
    for route in routes:
        included = getattr(getattr(route, "original_router", None), "routes", None)
        if included is None:
            yield route
        else:
            yield from iter_routes(included)
