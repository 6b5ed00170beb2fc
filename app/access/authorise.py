"""The one gate: every route names the scope that it needs, and nothing passes without a verified key.

    Depends(requires("tools:read"))       a route of FastAPI
    Depends(anonymous_if("utcp_anonymous"))   the same, open to readers without a key if that setting says so
    Depends(openly)                       open to all, on purpose
    endpoint.scope = "tools:call"         a plain Starlette route, which calls `authorise()` itself

A route that declares none of them fails the test that walks the routes (`declared_scope`).
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

OPEN: Literal["open"] = "open"
SCHEME_NAME = "apiKey"
ANONYMOUS = Principal(
    key_id="anonymous",
    name="anonymous",
    tenant_id=TENANT,
    scopes=frozenset({"tools:read"}),
    anonymous=True,
)

_LONGEST_VALUE = len("Bearer ") + KEY_LENGTH + 16
_HOW = "Send an API key as `Authorization: Bearer <key>` or as `X-API-Key: <key>`."


class AccessServices(Protocol):
    """What the gate uses of `state.services`."""

    @property
    def keys(self) -> KeyVerifier:
        """Verifies API keys."""


async def authorise(connection: HTTPConnection, scope: Scope) -> Principal:
    """The caller, kept as `state.principal` too.

    Raises `Unauthenticated` without a valid key, `Forbidden` when the key lacks the scope, and
    `Unavailable` when that cannot be found out.
    """
    text = presented_key(connection.scope["headers"])
    if text is None:
        raise Unauthenticated(_HOW)
    return await _admit(connection, text, scope)


def presented_key(headers: Iterable[tuple[bytes, bytes]]) -> str | None:
    """The text that was sent as a key, of whatever form; None when there is none.

    Raises `Unauthenticated` for more than one, since it must not be a matter of order who somebody is
    (RFC 9110 section 5.3), for other schemes than Bearer (RFC 6750) and for oversized values.
    """
    found: bytes | None = None
    for name, value in headers:
        if name not in (b"authorization", b"x-api-key"):
            continue
        if found is not None:
            raise Unauthenticated("More than one API key was sent. " + _HOW)
        if len(value) > _LONGEST_VALUE:
            raise Unauthenticated("The API key is not valid.")
        if name == b"x-api-key":
            found = value
        elif value[:7].lower() == b"bearer ":
            found = value[7:].lstrip(b" ")
        else:
            raise Unauthenticated("The Authorization header is not `Bearer <key>`.")
    return None if found is None else found.decode("latin-1")


async def _admit(connection: HTTPConnection, text: str, scope: Scope) -> Principal:
    # The mapping behind `connection.state`, whose attributes cost ten times as much.
    state = connection.scope["state"]
    services: AccessServices = state["services"]
    keys = services.keys
    principal: Principal | None = keys.verify_cached(text)
    if principal is None:
        client = connection.scope.get("client")
        host = client[0] if client else ""
        principal = await keys.verify(text, host=host, is_call=scope == "tools:call")
    state["principal"] = principal
    if not principal.has(scope):
        raise Forbidden(f"The API key lacks the scope `{scope}`.", extra={"missing_scopes": [scope]})
    return principal


class Requires(SecurityBase):
    """A dependency that answers with the caller; `.scope` is what it needs.

    `setting` names a setting of type bool that lets readers without any key in.
    """

    def __init__(self, scope: Scope, *, setting: str | None = None) -> None:
        # Only Bearer is described: a generated client that sent both headers would be refused.
        self.model = HTTPBearer(description=_HOW)
        self.scheme_name = SCHEME_NAME
        self.scope = scope
        self.setting = setting

    async def __call__(self, connection: HTTPConnection) -> Principal:
        """The caller; errors as `authorise`."""
        if self.setting is not None and getattr(connection.state.services.settings, self.setting) is True:
            text = presented_key(connection.scope["headers"])
            if text is None:
                connection.state.principal = ANONYMOUS
                return ANONYMOUS
            return await _admit(connection, text, self.scope)
        return await authorise(connection, self.scope)


class Openly:
    """The dependency of a route that is open to all."""

    scope = OPEN

    async def __call__(self) -> None:
        """Lets everybody pass."""


openly = Openly()


def requires(scope: Scope) -> Requires:
    """The dependency of a route that needs a scope."""
    return Requires(scope)


def anonymous_if(setting: str, scope: Scope = "tools:read") -> Requires:
    """The dependency of a route that needs a scope unless the setting opens it to readers without a key."""
    return Requires(scope, setting=setting)


def declared_scope(route: BaseRoute) -> str | None:
    """What a route declares: a scope, `open`, or None when it declares nothing (which is a fault)."""
    on_endpoint = getattr(getattr(route, "endpoint", None), "scope", None)
    if isinstance(on_endpoint, str):
        return on_endpoint
    return _scope_within(getattr(route, "dependant", None))


def _scope_within(dependant: Any) -> str | None:
    if dependant is None:
        return None
    if isinstance(dependant.call, Requires | Openly):
        return dependant.call.scope
    return next((found for sub in dependant.dependencies if (found := _scope_within(sub))), None)


def every_route(routes: Iterable[BaseRoute]) -> Iterator[BaseRoute]:
    """All routes, those of included routers, too."""
    for route in routes:
        included = getattr(getattr(route, "original_router", None), "routes", None)
        if included is None:
            yield route
        else:
            yield from every_route(included)
