"""Tokens of OAuth 2.0: which grant, which authentication of the client, and which of them works.

The requests themselves are in `token_requests`, which is imported at the first one: Authlib and what it
needs take a tenth of the start of a worker, and many gateways have no OAuth 2.0 credential.
"""

import asyncio
import importlib
from collections import OrderedDict
from dataclasses import dataclass, replace
from typing import Any, Literal, Protocol
from urllib.parse import quote_plus
from uuid import UUID

from app.core.errors import GatewayError, TokenRequestFailed
from app.formats.utcp.oauth2_grant import AuthMethod, GrantType
from app.outbound.assertions import AssertionSettings
from app.outbound.egress import EgressSettings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.security.secret import Secret

ConcreteMethod = Literal["client_secret_basic", "client_secret_post", "private_key_jwt", "none"]

TOKEN_LIMITS = Limits(connect=5.0, first_byte=10.0, total=10.0, idle=10.0, response_bytes=256 * 1024)
# RFC 6749 section 5.2: with these errors, the client was authenticated and something else was wrong.
_CLIENT_WAS_AUTHENTICATED = frozenset(
    {"invalid_scope", "invalid_target", "unsupported_grant_type", "invalid_grant"}
)
_MAX_REMEMBERED = 4096
_METADATA_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Everything that decides which token is issued.

    `credential_id` and `version` identify the stored credential. `refresh_token` is the one that its owner
    stored, even after the endpoint has issued others. `metadata_url` is where the token endpoint is found, if
    `token_url` is empty. `assertion` says how assertions are signed, None where
    there is no private key.
    """

    tenant_id: UUID
    credential_id: UUID
    version: int
    token_url: str
    client_id: Secret
    client_secret: Secret | None
    scope: str = ""
    audience: str = ""
    resource: str = ""
    auth_method: AuthMethod = "auto"
    egress: EgressSettings | None = None
    metadata_url: str = ""
    grant_type: GrantType = "client_credentials"
    refresh_token: Secret | None = None
    assertion: AssertionSettings | None = None

    def secrets(self) -> tuple[str, ...]:
        """Return the secrets of the client, as stored and as sent by HTTP Basic, to be masked in texts of the
        endpoint.
        """
        found = (self.client_secret, self.client_id, self.refresh_token)
        values = [one.reveal() for one in found if one is not None and one.reveal()]
        return tuple(dict.fromkeys([*values, *map(quote_plus, values)]))

    def parts(self) -> tuple[bytes, ...]:
        """Return all fields as bytes for a keyed digest: requests that differ in one never share a token."""
        return (
            self.tenant_id.bytes,
            self.credential_id.bytes,
            str(self.version).encode(),
            # A URL has no blank, so that no token URL is mistaken for one of metadata.
            (self.token_url or f"metadata {self.metadata_url}").encode(),
            self.client_id.reveal().encode(),
            b"" if self.client_secret is None else self.client_secret.reveal().encode(),
            self.scope.encode(),
            self.audience.encode(),
            self.resource.encode(),
            self.auth_method.encode(),
            self.egress.key if self.egress is not None else b"",
            self.grant_type.encode(),
            b"" if self.refresh_token is None else self.refresh_token.reveal().encode(),
            *(() if self.assertion is None else self.assertion.parts()),
        )


@dataclass(frozen=True, slots=True)
class FetchedToken:
    """A token as issued; `expires_in` is in seconds, None where the endpoint did not say.

    `refresh_token` is the one that replaces the one that was used, None where that remains valid.
    """

    access_token: Secret
    expires_in: float | None
    refresh_token: Secret | None = None


class RefreshTokens(Protocol):
    """Where the refresh tokens of stored credentials are, after an endpoint has replaced them."""

    async def current(self, request: TokenRequest) -> Secret:
        """Return the refresh token to use: the last one that was issued, else that of the request."""

    async def replace(self, request: TokenRequest, issued: Secret) -> None:
        """Store a newly issued refresh token."""


class ClientRejected(Exception):
    """Raised where the endpoint rejects the request; it may require the other authentication method."""

    def __init__(self, detail: str, *, code: str = "") -> None:
        super().__init__(code)
        self.detail = detail
        self.code = code


class TokenEndpoint:
    """Requests tokens from token endpoints.

    With the method `auto`, a client with a secret authenticates in the body first, and by HTTP Basic where
    that is rejected; the method that worked is cached for that version of the credential. A client without
    one authenticates by its private key, except in the grant jwt_bearer, whose assertion is its proof.

    `refresh_tokens` stores those that endpoints issue; without it, a refresh token is used as it was given.
    """

    def __init__(
        self,
        engine: Engine,
        *,
        limits: Limits = TOKEN_LIMITS,
        refresh_tokens: RefreshTokens | None = None,
    ) -> None:
        self._engine = engine
        self._refresh_tokens = refresh_tokens
        self.limits = limits
        self._endpoints: OrderedDict[tuple[str, bytes], tuple[str, float]] = OrderedDict()
        self._working_methods: OrderedDict[tuple[UUID, int], ConcreteMethod] = OrderedDict()

    async def fetch(self, request: TokenRequest) -> FetchedToken:
        """Return a new token, within `limits.total` for all attempts together.

        Raises TokenRequestFailed, UpstreamTimeout, UpstreamUnreachable and BlockedAddress. No error contains
        the client's secret, nor any of the endpoint's text except its error code and masked description.
        """
        grant: Any = await asyncio.to_thread(importlib.import_module, "app.outbound.token_requests")
        deadline = asyncio.get_running_loop().time() + self.limits.total
        if not request.metadata_url or request.token_url:
            return await self._fetch(grant, request, deadline)
        endpoint = await self._find_endpoint(grant, request, deadline)
        try:
            return await self._fetch(grant, replace(request, token_url=endpoint), deadline)
        except GatewayError:
            # The server may have moved its endpoint: the next attempt reads the metadata anew.
            self._endpoints.pop(_identify_metadata(request), None)
            raise

    async def _fetch(self, grant: Any, request: TokenRequest, deadline: float) -> FetchedToken:
        store = self._refresh_tokens
        if request.grant_type != "refresh_token" or store is None:
            token: FetchedToken = await self._request(grant, request, request.refresh_token, deadline)
            return token
        used = await store.current(request)
        try:
            token = await self._request(grant, request, used, deadline)
        except TokenRequestFailed:
            newer = await store.current(request)
            if newer == used:
                raise
            # Another process has used it in the meantime.
            token = await self._request(grant, request, newer, deadline)
        if token.refresh_token is not None:
            await store.replace(request, token.refresh_token)
        return token

    async def _find_endpoint(self, grant: Any, request: TokenRequest, deadline: float) -> str:
        """Return the token endpoint that the metadata name, which are read anew after an hour."""
        now = asyncio.get_running_loop().time()
        key = _identify_metadata(request)
        known = self._endpoints.get(key)
        if known is None or known[1] <= now:
            found = await grant.find_token_endpoint(self._engine, self.limits, request, deadline=deadline)
            known = self._endpoints[key] = found, now + _METADATA_SECONDS
            if len(self._endpoints) > _MAX_REMEMBERED:
                self._endpoints.popitem(last=False)
        return known[0]

    async def _request(
        self, grant: Any, request: TokenRequest, refresh_token: Secret | None, deadline: float
    ) -> FetchedToken:
        """Request a token by each method that may work; `deadline` is a `loop.time()`."""
        methods = self._methods(request)
        for attempt, method in enumerate(methods, start=1):
            try:
                token: FetchedToken = await grant.request_token(
                    self._engine,
                    self.limits,
                    replace(request, refresh_token=refresh_token),
                    method=method,
                    deadline=deadline,
                )
            except ClientRejected as rejection:
                if attempt == len(methods) or rejection.code in _CLIENT_WAS_AUTHENTICATED:
                    raise TokenRequestFailed(rejection.detail) from None
                continue
            if request.auth_method == "auto" and len(methods) > 1:
                self._remember(request, method)
            return token
        raise AssertionError("at least one method is tried")

    def _methods(self, request: TokenRequest) -> tuple[ConcreteMethod, ...]:
        if request.auth_method != "auto":
            return (request.auth_method,)
        if request.client_secret is None:
            by_key = request.assertion is not None and request.grant_type != "jwt_bearer"
            return ("private_key_jwt",) if by_key else ("none",)
        if self._working_methods.get((request.credential_id, request.version)) == "client_secret_basic":
            return ("client_secret_basic", "client_secret_post")
        return ("client_secret_post", "client_secret_basic")

    def _remember(self, request: TokenRequest, method: ConcreteMethod) -> None:
        self._working_methods[request.credential_id, request.version] = method
        if len(self._working_methods) > _MAX_REMEMBERED:
            self._working_methods.popitem(last=False)


def _identify_metadata(request: TokenRequest) -> tuple[str, bytes]:
    return request.metadata_url, b"" if request.egress is None else request.egress.key
