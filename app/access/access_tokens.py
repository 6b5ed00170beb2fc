"""Access tokens of OAuth 2.1 beside API keys: JWTs of one issuer, for one of the gateway's resources.

A token is verified as RFC 9068 section 4 says: its signature by a key of the issuer, its issuer, expiry,
audience (RFC 8707: the resource that the request is for) and scopes. It is never sent to an upstream. The
result is cached by a fingerprint of the text under a key of this process, as that of API keys is.
"""

import binascii
import os
import time
from base64 import urlsafe_b64decode
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, Final

import orjson
from joserfc import jws
from joserfc.errors import ExpiredTokenError, JoseError
from joserfc.jwt import JWTClaimsRegistry, decode

from app.access.challenges import resource_paths
from app.access.issuer_keys import IssuerKeys
from app.access.presented_tokens import MAX_TOKEN_LENGTH, TOKEN_ID_PREFIX, TokenExpired
from app.core import exact_json
from app.core.errors import Unauthenticated
from app.core.settings import Settings
from app.security.principal import Principal, TokenIdentity
from app.storage.models import TENANT

_CAPACITY: Final = 10_000
_TYPES: Final = ("jwt", "at+jwt", "application/at+jwt", "application/jwt")
_NOT_VALID: Final = "The access token is not valid."


@dataclass(frozen=True, slots=True)
class _Verified:
    principal: Principal
    until: float
    """Until when it is used without verifying the token again (seconds since the epoch)."""


class AccessTokens:
    """Verifies access tokens as these settings say, by the keys of their issuer. One per worker."""

    def __init__(self, settings: Settings, keys: IssuerKeys) -> None:
        self._settings = settings
        self._keys = keys
        self._scopes = settings.read_oauth_scope_map()
        self._algorithms = frozenset(settings.oauth_algorithms)
        self._fingerprint_key = os.urandom(32)
        self._verified: OrderedDict[bytes, _Verified] = OrderedDict()

    @staticmethod
    def has_form(text: str) -> bool:
        """Return whether a credential has the form of a signed JWT, which no API key has."""
        return text.count(".") == 2

    async def verify(self, text: str, path: str) -> Principal:
        """Return the principal of a token for the resource to which the path of a request belongs.

        Raise TokenExpired for one that has expired, Unauthenticated for any other text, and Unavailable
        without the issuer's keys.
        """
        paths = resource_paths(path, self._settings)
        resources = [self._settings.base_url + one for one in paths]
        # Of the resources of two addresses, either all or none are the same.
        material = f"{resources[-1]}\n{text}".encode("utf-8", "surrogatepass")
        fingerprint = blake2b(material, key=self._fingerprint_key).digest()
        known = self._verified.get(fingerprint)
        now = time.time()
        if known is not None and now < known.until:
            self._verified.move_to_end(fingerprint)
            return known.principal
        claims = await self._claims(text, resources)
        found = self._principal(claims)
        until = min(claims["exp"] + self._settings.oauth_leeway, now + self._settings.key_cache_seconds)
        self._verified[fingerprint] = _Verified(found, until)
        self._verified.move_to_end(fingerprint)
        while len(self._verified) > _CAPACITY:
            self._verified.popitem(last=False)
        return found

    async def aclose(self) -> None:
        """Stop reading the issuer's keys."""
        await self._keys.aclose()

    async def _claims(self, text: str, resources: list[str]) -> dict[str, Any]:
        """Return the claims of a valid token; raise as `verify` does."""
        header = _header(text)
        algorithm = header.get("alg")
        # The list has no symmetric algorithm and not `none`, and is checked before any key is looked for.
        if not isinstance(algorithm, str) or algorithm not in self._algorithms:
            raise Unauthenticated(f"{_NOT_VALID} Its algorithm is not accepted.")
        kind = header.get("typ", "jwt")
        if not isinstance(kind, str) or kind.lower() not in _TYPES:
            raise Unauthenticated(f"{_NOT_VALID} Its type is not that of an access token.")
        key_id = header.get("kid")
        if key_id is not None and not isinstance(key_id, str):
            raise Unauthenticated(_NOT_VALID)
        key = await self._keys.find(key_id)
        if key is None or key.get("alg") not in (None, algorithm):
            raise Unauthenticated(f"{_NOT_VALID} No key of its issuer has signed it.")
        try:
            registry = jws.JWSRegistry(algorithms=[algorithm])
            claims = decode(text, key, algorithms=[algorithm], registry=registry).claims
        except (JoseError, ValueError, TypeError, KeyError, RecursionError):
            raise Unauthenticated(f"{_NOT_VALID} No key of its issuer has signed it.") from None
        return self._checked(claims, resources)

    def _checked(self, claims: dict[str, Any], resources: list[str]) -> dict[str, Any]:
        """Return the claims of a token with a right signature; raise Unauthenticated for wrong claims."""
        expiry = claims.get("exp")
        if isinstance(expiry, bool) or not isinstance(expiry, int | float):
            raise Unauthenticated(f"{_NOT_VALID} It has no expiry.")
        registry = JWTClaimsRegistry(
            leeway=int(self._settings.oauth_leeway),
            iss={"essential": True, "value": self._settings.oauth_issuer or ""},
            aud={"essential": True, "values": resources},
            exp={"essential": True},
        )
        try:
            registry.validate(claims)
        except (JoseError, ValueError, TypeError) as error:
            claim = getattr(error, "claim", None)
            reason = _REASONS.get(claim or "exp", "One of its claims is not valid.")
            kind = TokenExpired if isinstance(error, ExpiredTokenError) else Unauthenticated
            raise kind(f"{_NOT_VALID} {reason}") from None
        return claims

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return what a token with these claims may do; raise Unauthenticated without a subject."""
        settings = self._settings
        client = claims.get("client_id") or claims.get("azp")
        subject = claims.get("sub") or client
        if not isinstance(subject, str):
            raise Unauthenticated(f"{_NOT_VALID} It has no subject.")
        identity = TokenIdentity(
            settings.oauth_issuer or "", subject, client if isinstance(client, str) else None
        )
        names = _names(claims.get("scope")) | _names(claims.get("scp"))
        principal = Principal(
            key_id=principal_id(identity),
            name="access token",
            tenant_id=TENANT,
            scopes=frozenset(self._scopes[name] for name in names if name in self._scopes),
            providers=_restriction(claims, settings.oauth_providers_claim),
            tags=_restriction(claims, settings.oauth_tags_claim),
            rate_limit=settings.get_default_key_rate_limit(),
            # All clients of a subject share its limit.
            rate_limit_id=principal_id(replace(identity, client=None)),
            expires_at=_moment(claims["exp"]),
            issued_at=_moment(claims.get("iat")) or datetime.now(UTC),
            token=identity,
        )
        return principal.limited_to_toolsets(_restriction(claims, settings.oauth_toolsets_claim))


def principal_id(identity: TokenIdentity) -> str:
    """Return the id of the principal of a token: a digest of issuer, subject and client, which records have
    in place of these.
    """
    text = f"{identity.issuer}\n{identity.subject}".encode()
    if identity.client is not None:
        # As JSON, so that no subject with a line end has the id of another subject with a client.
        text = exact_json.dumps([identity.issuer, identity.subject, identity.client])
    return f"{TOKEN_ID_PREFIX}{blake2b(text, digest_size=12).hexdigest()}"


_REASONS: Final[Mapping[str, str]] = {
    "aud": "It was issued for another resource.",
    "iss": "It is of another issuer.",
    "exp": "It has expired.",
    "nbf": "It is not valid yet.",
}


def _header(text: str) -> dict[str, Any]:
    """Return the header of a signed JWT, not verified; raise Unauthenticated for another text."""
    if len(text) > MAX_TOKEN_LENGTH or not text.isascii():
        raise Unauthenticated(_NOT_VALID)
    encoded = text.partition(".")[0]
    try:
        header = orjson.loads(urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)))
    except (binascii.Error, ValueError):
        raise Unauthenticated(_NOT_VALID) from None
    if not isinstance(header, dict):
        raise Unauthenticated(_NOT_VALID)
    return header


def _names(value: Any) -> frozenset[str]:
    """Return the names of a claim that is a list of strings, or a string with blanks between them."""
    if isinstance(value, str):
        return frozenset(value.split())
    return frozenset(one for one in value if isinstance(one, str)) if isinstance(value, list) else frozenset()


def _moment(seconds: Any) -> datetime | None:
    """Return a NumericDate (RFC 7519 section 2) as UTC; None for another value."""
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return None


def _restriction(claims: Mapping[str, Any], claim: str | None) -> frozenset[str] | None:
    """Return the names that a token is restricted to: none where it lacks the claim, None without one."""
    return None if claim is None else _names(claims.get(claim))
