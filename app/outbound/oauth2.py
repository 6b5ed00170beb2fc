"""OAuth 2.0 client credentials (RFC 6749 section 4.4) through Authlib, over the guarded engine."""

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
    TokenRefused,
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
_Concrete = Literal["client_secret_basic", "client_secret_post"]

TOKEN_LIMITS = Limits(connect=5.0, first_byte=10.0, total=10.0, idle=10.0, response_bytes=256 * 1024)
# RFC 6749 section 5.2: with these, the client was known and something else was wrong.
_CLIENT_WAS_KNOWN = frozenset({"invalid_scope", "invalid_target", "unsupported_grant_type"})
_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,64}")
_TOKEN_TEXT = re.compile(r"[!-~]{1,65536}")
_REMEMBERED = 4096


@dataclass(frozen=True, slots=True)
class TokenRequest:
    """Everything that decides which token one gets. `credential_id` and `version` name the stored
    credential."""

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
        """All fields as bytes, for a keyed digest: two requests that differ in one never share a token."""
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
    """A token as the endpoint gave it; `expires_in` in seconds, None where it did not say."""

    access_token: Secret
    expires_in: float | None


class TokenEndpoint:
    """Asks token endpoints for tokens.

    With the method `auto`, the client authenticates in the body first and by a basic header after a refusal;
    what worked is remembered for that version of the credential.
    """

    def __init__(self, engine: Engine, *, limits: Limits = TOKEN_LIMITS) -> None:
        self._engine = engine
        self.limits = limits
        self._worked: OrderedDict[tuple[UUID, int], _Concrete] = OrderedDict()

    async def fetch(self, request: TokenRequest) -> FetchedToken:
        """One new token, within `limits.total` for all attempts together. Raises TokenRefused,
        UpstreamTimeout, UpstreamUnreachable or BlockedAddress.

        No error holds the client's secret, nor the endpoint's text but its code and masked description.
        """
        methods = self._methods(request)
        deadline = asyncio.get_running_loop().time() + self.limits.total
        for attempt, method in enumerate(methods, start=1):
            try:
                token = await self._ask(request, method=method, deadline=deadline)
            except _ClientRefused as refusal:
                if attempt == len(methods) or refusal.code in _CLIENT_WAS_KNOWN:
                    raise TokenRefused(refusal.detail) from None
                continue
            if request.auth_method == "auto":
                self._remember(request, method)
            return token
        raise AssertionError("at least one method is tried")

    def _methods(self, request: TokenRequest) -> tuple[_Concrete, ...]:
        if request.auth_method != "auto":
            return (request.auth_method,)
        if self._worked.get((request.credential_id, request.version)) == "client_secret_basic":
            return ("client_secret_basic", "client_secret_post")
        return ("client_secret_post", "client_secret_basic")

    def _remember(self, request: TokenRequest, method: _Concrete) -> None:
        self._worked[request.credential_id, request.version] = method
        if len(self._worked) > _REMEMBERED:
            self._worked.popitem(last=False)

    async def _ask(self, request: TokenRequest, *, method: _Concrete, deadline: float) -> FetchedToken:
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
                # The engine's limits hold; httpx2's own would only be passed on to a transport that ignores
                # them.
                timeout=None,
            ) as client:
                client.register_client_auth_method(  # type: ignore[no-untyped-call]
                    ("client_secret_post", _in_the_body)
                )
                client.register_compliance_hook(  # type: ignore[no-untyped-call]
                    "access_token_response", _refuse_without_code
                )
                answer = await client.fetch_token(  # type: ignore[no-untyped-call]
                    request.token_url, grant_type="client_credentials", **extra
                )
        except OAuthError as error:
            raise _refusal(error, request) from None
        except httpx2.HTTPStatusError as error:
            raise _status_refusal(error.response.status_code) from None
        except GatewayError as error:
            raise _of_the_endpoint(error) from None
        except UnicodeEncodeError:
            raise TokenRefused("A basic header cannot carry the stored client's characters.") from None
        except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, KeyError):
            raise TokenRefused("The token endpoint's answer is not an OAuth 2.0 token response.") from None
        return _read(answer)


class _ClientRefused(Exception):
    """The endpoint refused; perhaps it wants the client to authenticate in the other way."""

    def __init__(self, detail: str, *, code: str = "") -> None:
        super().__init__(code)
        self.detail = detail
        self.code = code


def _refusal(error: OAuthError, request: TokenRequest) -> _ClientRefused:
    code = str(error.error or "")
    code = code if _ERROR_CODE.fullmatch(code) else "an error without a readable code"
    told = f"{code}."
    if isinstance(error.description, str) and error.description:
        told += f" It says: {''.join(char if char.isprintable() else ' ' for char in error.description)}"
    masked = mask_values(told, (request.client_secret.reveal(), request.client_id.reveal()))
    return _ClientRefused(f"The token endpoint refused the stored client: {masked[:250]}", code=code)


def _in_the_body(client: Any, _method: str, uri: str, headers: Any, body: bytes) -> tuple[str, Any, str]:
    """`client_secret_post` (RFC 6749 section 2.3.1); Authlib's own fails where a parameter is not ASCII."""
    pairs = {"client_id": client.client_id, "client_secret": client.client_secret}
    return uri, headers, f"{body.decode('ascii')}&{urlencode(pairs)}"


def _refuse_without_code(response: httpx2.Response) -> httpx2.Response:
    """Authlib takes any JSON object without an `error` for a token, also one that came with a 401."""
    if response.is_error:
        try:
            body = response.json()
        except ValueError:
            body = None
        if not isinstance(body, dict) or "error" not in body:
            response.raise_for_status()
    return response


def _status_refusal(status: int) -> GatewayError | _ClientRefused:
    detail = f"The token endpoint answered with status {status}."
    if status in (400, 401, 403):
        return _ClientRefused(detail)
    return TokenRefused(detail)


def _of_the_endpoint(error: GatewayError) -> GatewayError:
    """Say that the failure is the token endpoint's, or the reader would look at the API itself."""
    if isinstance(error, BlockedAddress):
        return BlockedAddress("The gateway's network policy does not allow the token endpoint.")
    if isinstance(error, UpstreamTimeout):
        return UpstreamTimeout("The token endpoint did not answer in time.")
    if isinstance(error, UpstreamUnreachable):
        return UpstreamUnreachable("The token endpoint cannot be reached.")
    if isinstance(error, (UpstreamMalformed, ResponseTooLarge)):
        return TokenRefused("The token endpoint's answer cannot be read.")
    if isinstance(error, InvalidInput):
        return TokenRefused("The token URL is not a usable http or https URL.")
    return error if isinstance(error, UpstreamError) else TokenRefused()


def _read(answer: dict[str, Any]) -> FetchedToken:
    token = answer.get("access_token")
    kind = answer.get("token_type", "bearer")
    if not isinstance(token, str) or not _TOKEN_TEXT.fullmatch(token):
        raise TokenRefused("The token endpoint's answer holds no usable access_token.")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a", ""):
        raise TokenRefused("The token endpoint gave a token that is not a bearer token.")
    return FetchedToken(access_token=Secret(token), expires_in=_seconds(answer.get("expires_in")))


def _seconds(value: Any) -> float | None:
    """`expires_in`, which some endpoints send as text; None where it says nothing usable."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < float("inf") else None
