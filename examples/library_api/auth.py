"""The three kinds of auth: an API key, a login, and a token of the own token endpoint (RFC 6749, 4.4)."""

import base64
import binascii
import hmac
import secrets
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated
from urllib.parse import unquote_plus

from fastapi import Depends, HTTPException, Request, Security
from fastapi.openapi.models import OAuthFlowClientCredentials, OAuthFlows
from fastapi.security import APIKeyHeader, HTTPBasic, HTTPBasicCredentials, OAuth2, SecurityScopes

from examples.library_api.credentials import LibraryCredentials
from examples.library_api.registration import KEY_SLOT, LOGIN_SLOT, OAUTH_SLOT, SCOPES

TOKEN_SECONDS = 300
_TOKENS_MAX = 10_000

_KEY = APIKeyHeader(
    name="X-Library-Key", scheme_name=KEY_SLOT, description="The key of a library system", auto_error=False
)
_LOGIN = HTTPBasic(scheme_name=LOGIN_SLOT, description="The login of the staff", auto_error=False)
_OAUTH = OAuth2(
    flows=OAuthFlows(clientCredentials=OAuthFlowClientCredentials(tokenUrl="/oauth/token", scopes=SCOPES)),
    scheme_name=OAUTH_SLOT,
    auto_error=False,
)


def _equal(one: str, other: str) -> bool:
    return hmac.compare_digest(one.encode(), other.encode())


class TokenError(Exception):
    """An error of the token endpoint (RFC 6749, section 5.2): a status and an error code."""

    def __init__(self, status: int, code: str) -> None:
        super().__init__(code)
        self.status, self.code = status, code


@dataclass(slots=True)
class TokenIssuer:
    """Issues bearer tokens and verifies them; expired ones are dropped."""

    credentials: LibraryCredentials
    _tokens: dict[str, tuple[frozenset[str], float]] = field(default_factory=dict)

    def issue(self, form: Mapping[str, str], authorization: str | None) -> dict[str, str | int]:
        """Return the response to a token request; the client is in the form or in a basic header (2.3.1)."""
        if authorization is not None:
            client, secret = _client_of(authorization)
        else:
            client, secret = form.get("client_id", ""), form.get("client_secret", "")
        known = _equal(client, self.credentials.client_id) & _equal(secret, self.credentials.client_secret)
        if not known:
            raise TokenError(401, "invalid_client")
        if form.get("grant_type") != "client_credentials":
            raise TokenError(400, "unsupported_grant_type" if "grant_type" in form else "invalid_request")
        scopes = form.get("scope", "").split() or list(SCOPES)
        if not set(scopes) <= set(SCOPES):
            raise TokenError(400, "invalid_scope")
        now = time.monotonic()
        self._tokens = {token: issued for token, issued in self._tokens.items() if issued[1] > now}
        if len(self._tokens) >= _TOKENS_MAX:
            raise TokenError(503, "temporarily_unavailable")
        token = secrets.token_urlsafe(24)
        self._tokens[token] = (frozenset(scopes), now + TOKEN_SECONDS)
        return {
            "access_token": token,
            "token_type": "Bearer",
            "expires_in": TOKEN_SECONDS,
            "scope": " ".join(scopes),
        }

    def scopes_of(self, token: str) -> frozenset[str] | None:
        """Return the scopes of a valid token, None for any other."""
        issued = self._tokens.get(token)
        return issued[0] if issued and issued[1] > time.monotonic() else None


def _client_of(authorization: str) -> tuple[str, str]:
    kind, _, value = authorization.partition(" ")
    try:
        client, separator, secret = base64.b64decode(value, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        separator = client = secret = ""
    if kind.lower() != "basic" or not separator:
        raise TokenError(401, "invalid_client")
    return unquote_plus(client), unquote_plus(secret)


def _credentials(request: Request) -> LibraryCredentials:
    found = request.app.state.credentials
    assert isinstance(found, LibraryCredentials)  # noqa: S101 - set by create_app
    return found


def with_key(request: Request, key: Annotated[str | None, Security(_KEY)]) -> None:
    """Require the API key."""
    if key is None or not _equal(key, _credentials(request).library_key):
        raise HTTPException(401, "The header X-Library-Key holds no valid key.")


def with_login(request: Request, login: Annotated[HTTPBasicCredentials | None, Security(_LOGIN)]) -> None:
    """Require the login of the staff."""
    known = _credentials(request)
    if login is None or not _equal(login.username, known.username) & _equal(login.password, known.password):
        raise HTTPException(401, "A valid login is needed.", {"WWW-Authenticate": 'Basic realm="library"'})


def with_token(
    request: Request, scopes: SecurityScopes, header: Annotated[str | None, Depends(_OAUTH)]
) -> None:
    """Require a token with the scopes of the route (RFC 6750, section 3.1)."""
    kind, _, token = (header or "").partition(" ")
    issuer = request.app.state.tokens
    assert isinstance(issuer, TokenIssuer)  # noqa: S101 - set by create_app
    held = issuer.scopes_of(token) if kind.lower() == "bearer" else None
    if held is None:
        raise HTTPException(
            401, "A valid token is needed.", {"WWW-Authenticate": 'Bearer error="invalid_token"'}
        )
    if not held.issuperset(scopes.scopes):
        challenge = f'Bearer error="insufficient_scope", scope="{scopes.scope_str}"'
        raise HTTPException(403, f"The token lacks {scopes.scope_str}.", {"WWW-Authenticate": challenge})
