"""The OAuth 2.0 client credentials grant (RFC 6749 section 4.4), by Authlib over the guarded engine."""

import asyncio
import re
from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import urlencode
from uuid import UUID

import httpx2
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client

from app.errors import (
    BlockedAddress,
    GatewayError,
    InvalidInput,
    ResponseTooLarge,
    TokenRequestFailed,
    UpstreamError,
    UpstreamMalformed,
    UpstreamTimeout,
    UpstreamUnreachable,
)
from app.outbound.egress import EgressSettings
from app.outbound.http import Engine
from app.outbound.limits import Limits
from app.outbound.transport import EngineTransport
from app.security.masking import mask_values
from app.security.secret import Secret

AuthMethod = Literal["auto", "client_secret_basic", "client_secret_post"]
_ConcreteMethod = Literal["client_secret_basic", "client_secret_post"]

TOKEN_LIMITS = Limits(connect=5.0, first_byte=10.0, total=10.0, idle=10.0, response_bytes=256 * 1024)
# RFC 6749 section 5.2: with these errors, the client was authenticated and something else was wrong.
_CLIENT_WAS_AUTHENTICATED = frozenset({"invalid_scope", "invalid_target", "unsupported_grant_type"})
_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,64}")
_TOKEN_TEXT = re.compile(r"[!-~]{1,65536}")
_MAX_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Everything that decides which token is issued.

    `credential_id` and `version` identify the stored credential.
    """

    tenant_id: UUID
    credential_id: UUID
    version: int
    token_url: str
    client_id: Secret
    client_secret: Secret
    scope: str = ""
    audience: str = ""
    resource: str = ""
    auth_method: AuthMethod = "auto"
    egress: EgressSettings | None = None

    def parts(self) -> tuple[bytes, ...]:
        """Return all fields as bytes for a keyed digest: requests that differ in one never share a token."""
        return (
            self.tenant_id.bytes,
            self.credential_id.bytes,
            str(self.version).encode(),
            self.token_url.encode(),
            self.client_id.reveal().encode(),
            self.client_secret.reveal().encode(),
            self.scope.encode(),
            self.audience.encode(),
            self.resource.encode(),
            self.auth_method.encode(),
            self.egress.key if self.egress is not None else b"",
        )


@dataclass(frozen=True, slots=True)
class FetchedToken:
    """A token as issued; `expires_in` is in seconds, None where the endpoint did not say."""

    access_token: Secret
    expires_in: float | None


class TokenEndpoint:
    """Requests tokens from token endpoints.

    With the method `auto`, the client authenticates in the body first, and by HTTP Basic where that is
    rejected; the method that worked is remembered for that version of the credential.
    """

    def __init__(self, engine: Engine, *, limits: Limits = TOKEN_LIMITS) -> None:
        self._engine = engine
        self.limits = limits
        self._working_methods: OrderedDict[tuple[UUID, int], _ConcreteMethod] = OrderedDict()

    async def fetch(self, request: TokenRequest) -> FetchedToken:
        """Return a new token, within `limits.total` for all attempts together.

        Raises TokenRequestFailed, UpstreamTimeout, UpstreamUnreachable and BlockedAddress. No error contains
        the client's secret, nor any of the endpoint's text except its error code and masked description.
        """
        methods = self._methods(request)
        deadline = asyncio.get_running_loop().time() + self.limits.total
        for attempt, method in enumerate(methods, start=1):
            try:
                token = await self._request(request, method=method, deadline=deadline)
            except _ClientRejected as refusal:
                if attempt == len(methods) or refusal.code in _CLIENT_WAS_AUTHENTICATED:
                    raise TokenRequestFailed(refusal.detail) from None
                continue
            if request.auth_method == "auto":
                self._remember(request, method)
            return token
        raise AssertionError("at least one method is tried")

    def _methods(self, request: TokenRequest) -> tuple[_ConcreteMethod, ...]:
        if request.auth_method != "auto":
            return (request.auth_method,)
        if self._working_methods.get((request.credential_id, request.version)) == "client_secret_basic":
            return ("client_secret_basic", "client_secret_post")
        return ("client_secret_post", "client_secret_basic")

    def _remember(self, request: TokenRequest, method: _ConcreteMethod) -> None:
        self._working_methods[request.credential_id, request.version] = method
        if len(self._working_methods) > _MAX_REMEMBERED:
            self._working_methods.popitem(last=False)

    async def _request(
        self, request: TokenRequest, *, method: _ConcreteMethod, deadline: float
    ) -> FetchedToken:
        extra = {
            name: value
            for name, value in (
                ("scope", request.scope),
                ("audience", request.audience),
                ("resource", request.resource),
            )
            if value
        }
        transport = EngineTransport(
            self._engine, limits=self.limits, deadline=deadline, egress=request.egress
        )
        try:
            async with AsyncOAuth2Client(  # type: ignore[no-untyped-call]
                client_id=request.client_id.reveal(),
                client_secret=request.client_secret.reveal(),
                token_endpoint_auth_method=method,
                transport=transport,
                trust_env=False,
                # The engine's limits apply; httpx2 would only pass its own on to a transport that ignores
                # them.
                timeout=None,
            ) as client:
                client.register_client_auth_method(  # type: ignore[no-untyped-call]
                    ("client_secret_post", _authenticate_in_body)
                )
                client.register_compliance_hook(  # type: ignore[no-untyped-call]
                    "access_token_response", _raise_for_status
                )
                response = await client.fetch_token(  # type: ignore[no-untyped-call]
                    request.token_url, grant_type="client_credentials", **extra
                )
        except OAuthError as error:
            raise _client_error(error, request) from None
        except httpx2.HTTPStatusError as error:
            raise _status_error(error.response.status_code) from None
        except GatewayError as error:
            raise _as_endpoint_error(error) from None
        except UnicodeEncodeError:
            raise TokenRequestFailed(
                "The stored client has characters that HTTP Basic cannot carry."
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, KeyError):
            raise TokenRequestFailed(
                "The token endpoint's response is not an OAuth 2.0 token response."
            ) from None
        return _parse_response(response)


class _ClientRejected(Exception):
    """Raised where the endpoint rejects the request; it may require the other authentication method."""

    def __init__(self, detail: str, *, code: str = "") -> None:
        super().__init__(code)
        self.detail = detail
        self.code = code


def _client_error(error: OAuthError, request: TokenRequest) -> _ClientRejected:
    code = str(error.error or "")
    code = code if _ERROR_CODE.fullmatch(code) else "an error without a readable code"
    reason = f"{code}."
    if isinstance(error.description, str) and error.description:
        description = "".join(char if char.isprintable() else " " for char in error.description)
        reason += f" Its description: {description}"
    masked = mask_values(reason, (request.client_secret.reveal(), request.client_id.reveal()))
    return _ClientRejected(f"The token endpoint rejected the stored client: {masked[:250]}", code=code)


def _authenticate_in_body(
    client: Any, _method: str, uri: str, headers: Any, body: bytes
) -> tuple[str, Any, str]:
    """Add `client_secret_post` (RFC 6749 section 2.3.1); Authlib's own fails for non-ASCII parameters."""
    pairs = {"client_id": client.client_id, "client_secret": client.client_secret}
    return uri, headers, f"{body.decode('ascii')}&{urlencode(pairs)}"


def _raise_for_status(response: httpx2.Response) -> httpx2.Response:
    """Raise for an error status; Authlib would accept any JSON object without an `error`, even with a 401."""
    if response.is_error:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or "error" not in body:
            response.raise_for_status()
    return response


def _status_error(status: int) -> GatewayError | _ClientRejected:
    detail = f"The token endpoint responded with status {status}."
    if status in (400, 401, 403):
        return _ClientRejected(detail)
    return TokenRequestFailed(detail)


def _as_endpoint_error(error: GatewayError) -> GatewayError:
    """Return the error with a text that names the token endpoint, so that nobody looks at the API itself."""
    if isinstance(error, BlockedAddress):
        return BlockedAddress("The gateway's network policy does not allow the token endpoint.")
    if isinstance(error, UpstreamTimeout):
        return UpstreamTimeout("The token endpoint did not respond in time.")
    if isinstance(error, UpstreamUnreachable):
        return UpstreamUnreachable("The token endpoint cannot be reached.")
    if isinstance(error, (UpstreamMalformed, ResponseTooLarge)):
        return TokenRequestFailed("The token endpoint's response cannot be read.")
    if isinstance(error, InvalidInput):
        return TokenRequestFailed("The token URL is not a usable http or https URL.")
    return error if isinstance(error, UpstreamError) else TokenRequestFailed()


def _parse_response(response: dict[str, Any]) -> FetchedToken:
    token = response.get("access_token")
    kind = response.get("token_type", "bearer")
    if not isinstance(token, str) or not _TOKEN_TEXT.fullmatch(token):
        raise TokenRequestFailed("The token endpoint's response has no usable access_token.")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a", ""):
        raise TokenRequestFailed("The token endpoint issued a token that is not a bearer token.")
    return FetchedToken(access_token=Secret(token), expires_in=_seconds(response.get("expires_in")))


def _seconds(value: Any) -> float | None:
    """Return `expires_in`, which some endpoints send as text, in seconds; None where it is not usable."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < float("inf") else None
