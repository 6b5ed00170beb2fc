"""Token requests (RFC 6749 sections 4.4 and 6, RFC 7523), by Authlib over the guarded engine."""

import base64
import re
import secrets
import time
import warnings
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import httpx2
import orjson
from authlib.integrations.base_client import OAuthError
from authlib.integrations.httpx_client import AsyncOAuth2Client
from joserfc import jwt
from joserfc.errors import JoseError, SecurityWarning
from joserfc.jwk import ECKey, OKPKey, RSAKey

from app.core.errors import (
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
from app.formats.utcp.oauth2_grant import check_key_length, choose_algorithm
from app.formats.utcp.paths import compile_url
from app.outbound.assertions import ASSERTION_SECONDS, AssertionSettings
from app.outbound.http import Engine, OutboundRequest
from app.outbound.limits import Limits
from app.outbound.oauth2 import ClientRejected, ConcreteMethod, FetchedToken, TokenRequest
from app.outbound.transport import EngineTransport
from app.security.masking import mask_values
from app.security.secret import Secret

_JWT_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
_CLIENT_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ERROR_CODE = re.compile(r"[a-z0-9_.-]{1,64}")
_TOKEN_TEXT = re.compile(r"[!-~]{1,65536}")


async def request_token(
    engine: Engine, limits: Limits, request: TokenRequest, *, method: ConcreteMethod, deadline: float
) -> FetchedToken:
    """Send one token request, authenticated by `method`, and return the token.

    `deadline` is a `loop.time()`. Raise ClientRejected where the endpoint rejects the client, otherwise as
    `TokenEndpoint.fetch` does.
    """
    parameters = _parameters(request)
    transport = EngineTransport(engine, limits=limits, deadline=deadline, egress=request.egress)
    try:
        async with AsyncOAuth2Client(  # type: ignore[no-untyped-call]
            client_id=request.client_id.reveal(),
            client_secret=request.client_secret.reveal() if request.client_secret is not None else None,
            token_endpoint_auth_method=method,
            transport=transport,
            trust_env=False,
            # The engine's limits apply; httpx2 would only pass its own on to a transport that ignores
            # them.
            timeout=None,
        ) as client:
            client.register_client_auth_method(  # type: ignore[no-untyped-call]
                ("client_secret_basic", _authenticate_by_basic)
            )
            client.register_client_auth_method(  # type: ignore[no-untyped-call]
                ("client_secret_post", _authenticate_in_body)
            )
            client.register_client_auth_method(  # type: ignore[no-untyped-call]
                ("private_key_jwt", _authenticate_by_key(request))
            )
            client.register_client_auth_method(("none", _identify))  # type: ignore[no-untyped-call]
            client.register_compliance_hook(  # type: ignore[no-untyped-call]
                "access_token_response", _raise_for_status
            )
            response = await client.fetch_token(  # type: ignore[no-untyped-call]
                request.token_url, **parameters
            )
    except OAuthError as error:
        raise _client_error(error, request) from None
    except httpx2.HTTPStatusError as error:
        raise _status_error(error.response.status_code) from None
    except GatewayError as error:
        raise _as_endpoint_error(error) from None
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError, TypeError, KeyError):
        raise TokenRequestFailed(
            "The token endpoint's response is not an OAuth 2.0 token response."
        ) from None
    return _parse_response(response, request)


async def find_token_endpoint(
    engine: Engine, limits: Limits, request: TokenRequest, *, deadline: float
) -> str:
    """Return the token endpoint in the metadata of the authorization server (RFC 8414, section 3.2; OpenID
    Connect Discovery 1.0, section 4.2).

    It must have the origin of the metadata, to which the credential may be sent. Raise as
    `TokenEndpoint.fetch` does.
    """
    sent = OutboundRequest(
        "GET",
        request.metadata_url,
        [("Accept", "application/json")],
        limits=limits,
        deadline=deadline,
        egress=request.egress,
    )
    try:
        response = await engine.request(sent)
        try:
            status, body = response.status, await response.read(limits.response_bytes)
        finally:
            response.close()
    except GatewayError as error:
        raise _as_endpoint_error(error) from None
    if status != 200:
        raise TokenRequestFailed(f"The metadata of the authorization server have the status {status}.")
    try:
        endpoint = orjson.loads(body)["token_endpoint"]
        origins = [compile_url(url).origin for url in (request.metadata_url, endpoint)]
    except (ValueError, TypeError, KeyError, AttributeError, InvalidInput):
        raise TokenRequestFailed("The metadata of the authorization server name no token endpoint.") from None
    if origins[0] != origins[1]:
        raise TokenRequestFailed(
            f"The metadata name a token endpoint at another origin, {origins[1]}: if it is correct, store "
            "the credential with its `token_url`."
        )
    return str(endpoint)


def _parameters(request: TokenRequest) -> dict[str, str]:
    """Return the parameters of the request's body, without those that authenticate the client."""
    signing = request.assertion
    scope = "" if signing is not None and signing.has_scope else request.scope
    optional = (("scope", scope), ("audience", request.audience), ("resource", request.resource))
    found = {name: value for name, value in optional if value}
    if request.grant_type == "refresh_token":
        token = request.refresh_token.reveal() if request.refresh_token is not None else ""
        return {"grant_type": "refresh_token", "refresh_token": token, **found}
    if request.grant_type == "jwt_bearer":
        if signing is None:
            raise TokenRequestFailed("The stored client has no private key for its assertion.")
        issuer = signing.issuer or request.client_id.reveal()
        claims = {"iss": issuer}
        if signing.subject or not signing.has_scope:
            # For Google, a subject is a user that the account acts for, and never the account itself.
            claims["sub"] = signing.subject or issuer
        if signing.has_scope and request.scope:
            claims["scope"] = request.scope
        return {"grant_type": _JWT_BEARER, "assertion": _assertion(request, signing, claims), **found}
    return {"grant_type": "client_credentials", **found}


def _assertion(request: TokenRequest, signing: AssertionSettings, claims: dict[str, Any]) -> str:
    """Return a signed JWT with these claims, an audience, an id and a lifetime (RFC 7523 section 3)."""
    now = int(time.time())
    pem = signing.private_key.reveal()
    try:
        check_key_length(pem)
        algorithm = signing.algorithm or choose_algorithm(pem)
        key = _key_class(algorithm).import_key(pem)
        header = {"alg": algorithm, "typ": "JWT"} | ({"kid": signing.key_id} if signing.key_id else {})
        claims = {
            **claims,
            "aud": signing.audience or request.token_url,
            "jti": secrets.token_urlsafe(16),
            "iat": now,
            "exp": now + ASSERTION_SECONDS,
        }
        with warnings.catch_warnings():
            # RFC 9864 renames EdDSA to Ed25519, which few servers know yet.
            warnings.simplefilter("ignore", SecurityWarning)
            return jwt.encode(header, claims, key, algorithms=[algorithm])
    except (JoseError, ValueError, TypeError):
        raise TokenRequestFailed("The stored private key cannot sign an assertion.") from None


def _key_class(algorithm: str) -> Any:
    if algorithm.startswith(("RS", "PS")):
        return RSAKey
    return OKPKey if algorithm == "EdDSA" else ECKey


def _client_error(error: OAuthError, request: TokenRequest) -> ClientRejected:
    code = str(error.error or "")
    code = code if _ERROR_CODE.fullmatch(code) else "an error without a readable code"
    reason = f"{code}."
    if isinstance(error.description, str) and error.description:
        description = "".join(char if char.isprintable() else " " for char in error.description)
        reason += f" Its description: {description}"
    masked = mask_values(reason, request.secrets())
    return ClientRejected(f"The token endpoint rejected the stored client: {masked[:250]}", code=code)


def _authenticate_by_basic(
    client: Any, _method: str, uri: str, headers: Any, body: bytes
) -> tuple[str, Any, bytes]:
    """Add `client_secret_basic`, id and secret form-encoded (RFC 6749 section 2.3.1), which Authlib omits."""
    pair = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret or '')}"
    headers["Authorization"] = f"Basic {base64.b64encode(pair.encode('ascii')).decode('ascii')}"
    return uri, headers, body


def _authenticate_in_body(
    client: Any, _method: str, uri: str, headers: Any, body: bytes
) -> tuple[str, Any, str]:
    """Add `client_secret_post` (RFC 6749 section 2.3.1); Authlib's own fails for non-ASCII parameters."""
    pairs = {"client_id": client.client_id, "client_secret": client.client_secret}
    return uri, headers, f"{body.decode('ascii')}&{urlencode(pairs)}"


def _authenticate_by_key(request: TokenRequest) -> Callable[..., tuple[str, Any, str]]:
    """Return the method `private_key_jwt` of OpenID Connect (RFC 7523 section 2.2)."""

    def authenticate(client: Any, _method: str, uri: str, headers: Any, body: bytes) -> tuple[str, Any, str]:
        signing = request.assertion
        if signing is None:
            raise TokenRequestFailed("The stored client has no private key to authenticate itself with.")
        claims = {"iss": client.client_id, "sub": client.client_id}
        pairs = {
            "client_id": client.client_id,
            "client_assertion_type": _CLIENT_ASSERTION,
            "client_assertion": _assertion(request, signing, claims),
        }
        return uri, headers, f"{body.decode('ascii')}&{urlencode(pairs)}"

    return authenticate


def _identify(client: Any, _method: str, uri: str, headers: Any, body: bytes) -> tuple[str, Any, str]:
    """Add the client id of a client that does not authenticate itself (RFC 6749 section 3.2.1)."""
    text = body.decode("ascii")
    return uri, headers, f"{text}&{urlencode({'client_id': client.client_id})}" if client.client_id else text


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


def _status_error(status: int) -> GatewayError | ClientRejected:
    detail = f"The token endpoint responded with status {status}."
    if status in (400, 401, 403):
        return ClientRejected(detail)
    return TokenRequestFailed(detail)


def _as_endpoint_error(error: GatewayError) -> GatewayError:
    """Return the error with a text that names the token endpoint, which is not the API that was called."""
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


def _parse_response(response: dict[str, Any], request: TokenRequest) -> FetchedToken:
    token = response.get("access_token")
    kind = response.get("token_type", "bearer")
    if not isinstance(token, str) or not _TOKEN_TEXT.fullmatch(token):
        raise TokenRequestFailed("The token endpoint's response has no usable access_token.")
    if not isinstance(kind, str) or kind.lower() not in ("bearer", "n_a", ""):
        raise TokenRequestFailed("The token endpoint issued a token that is not a bearer token.")
    issued = response.get("refresh_token") if request.grant_type == "refresh_token" else None
    used = request.refresh_token
    is_new = isinstance(issued, str) and _TOKEN_TEXT.fullmatch(issued) and used != Secret(issued)
    return FetchedToken(
        access_token=Secret(token),
        expires_in=_seconds(response.get("expires_in")),
        refresh_token=Secret(issued) if is_new and isinstance(issued, str) else None,
    )


def _seconds(value: Any) -> float | None:
    """Return `expires_in`, which some endpoints send as text, in seconds; None where it is not usable."""
    if isinstance(value, bool) or not isinstance(value, (int, float, str)):
        return None
    try:
        seconds = float(value)
    except (ValueError, OverflowError):
        return None
    return seconds if 0 <= seconds < float("inf") else None
