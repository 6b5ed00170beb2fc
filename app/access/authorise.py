"""Authorisation: no request passes without a verified key that has the scope of its route.

`app.api.authorisation` is how routes declare the scope.
"""

from collections.abc import Awaitable, Iterable, MutableMapping
from typing import Any, Final, Literal, Protocol

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
HOW_TO_SEND: Final = "Send an API key as `Authorization: Bearer <key>` or as `X-API-Key: <key>`."


class Connection(Protocol):
    """A request whose ASGI scope has a state with the services of the application."""

    @property
    def scope(self) -> MutableMapping[str, Any]:
        """The scope of ASGI."""


class AccessServices(Protocol):
    """The part of `state.services` that authorisation uses."""

    @property
    def keys(self) -> KeyVerifier:
        """The verifier of API keys."""

    @property
    def access_tokens(self) -> TokenVerifier | None:
        """The verifier of access tokens; None where no issuer is configured."""


async def authorise(
    connection: Connection, scope: Scope | None, *alternatives: Scope, recent: bool = False
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


async def require_recent(connection: Connection) -> None:
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
            raise Unauthenticated("More than one API key was sent. " + HOW_TO_SEND)
        if len(value) > _MAX_VALUE_LENGTH:
            raise Unauthenticated("The API key is not valid.")
        if name == b"x-api-key":
            found = value
        elif value[:7].lower() == b"bearer ":
            found = value[7:].lstrip(b" ")
        else:
            raise Unauthenticated("The Authorization header is not `Bearer <key>`.")
    return None if found is None else found.decode("latin-1")


async def _session_principal(connection: Connection, *, recent: bool) -> Principal:
    """Return the principal of the session for which the console makes the request; raise Unauthenticated
    without one, and Forbidden where its key must be presented again.
    """
    source: PrincipalSource | None = connection.scope.get("state", {}).get(SESSION_PRINCIPAL)
    if source is None:
        raise Unauthenticated("The request has no API key. " + HOW_TO_SEND)
    return await source(recent=recent)


def _require_alternative(principal: Principal, scope: Scope, alternatives: tuple[Scope, ...]) -> None:
    """Raise Forbidden for a principal without the scope, unless it has one of the alternatives."""
    if not alternatives:
        raise scopes_missing(f"The API key lacks the scope `{scope}`.", [scope])
    if not any(map(principal.has_scope, alternatives)):
        names = ", ".join(f"`{name}`" for name in (scope, *alternatives))
        raise scopes_missing(f"The API key has none of the scopes {names}: one is enough.", [scope])


async def _verify(connection: Connection, services: AccessServices, text: str, *, is_call: bool) -> Principal:
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


async def require_same_rights(connection: Connection, scope: Scope, principal: Principal) -> None:
    """Authorise a request again whose response is still being written for `principal`. Raise what `authorise`
    raises, and Forbidden where the key has other restrictions by now.
    """
    renewed = await authorise(connection, scope)
    if _restrictions(renewed) != _restrictions(principal):
        raise Forbidden("The restrictions of the API key have changed.", hint="Send the request again.")


def _restrictions(principal: Principal) -> tuple[frozenset[str] | None, ...]:
    return principal.own_providers, principal.tags, principal.toolsets
