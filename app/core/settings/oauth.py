"""Settings of OAuth 2.1: which access tokens are accepted beside API keys."""

from typing import Final, Literal
from urllib.parse import urlsplit

from pydantic import Field, field_validator
from pydantic_settings import BaseSettings

from app.core.loopback import is_loopback
from app.core.settings.word_list import WordList

TOKEN_SCOPES: Final = ("tools:read", "tools:call")
"""The scopes that an access token can have: tokens administer nothing."""

_ALGORITHMS: Final = (
    "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA",
)  # fmt: skip


class OAuthSettings(BaseSettings, defer_build=True):
    """Settings of the OAuth 2.1 resource server. Times are in seconds."""

    # OAuth 2.1
    oauth_issuer: str | None = Field(
        None,
        description="Issuer of the access tokens (JWT) that are accepted beside API keys, exactly as in their"
        " claim `iss`: https, or http at a loopback address; unset: API keys only.",
    )
    oauth_jwks_url: str | None = Field(
        None,
        description="URL of the issuer's keys, https as the issuer; unset: as its metadata says (RFC 8414).",
    )
    oauth_resources: Literal["endpoints", "gateway"] = Field(
        "endpoints",
        description="What a token's audience is: the URL of /mcp, of the toolset's /mcp or, for other"
        " routes, of the gateway; or, for all of them, also that of the gateway.",
    )
    oauth_algorithms: WordList = Field(
        ("RS256", "PS256", "ES256", "EdDSA"), description="Signatures that are accepted; none is symmetric."
    )
    oauth_leeway: float = Field(
        30, ge=0, le=300, description="By how much the clocks of issuer and gateway may differ."
    )
    oauth_jwks_seconds: float = Field(
        300, ge=10, le=86400, description="After how long the issuer's keys are read again."
    )
    oauth_scopes: WordList = Field(
        (),
        description="Scopes of the issuer for those of the gateway, `NAME=tools:read` or `NAME=tools:call`;"
        " unset: the names are the same.",
    )
    oauth_providers_claim: str | None = Field(
        None, description="Claim with the names of the providers that a token is for; unset: all."
    )
    oauth_tags_claim: str | None = Field(
        None, description="Claim with the tags whose tools a token is for; unset: all."
    )
    oauth_toolsets_claim: str | None = Field(
        None, description="Claim with the toolsets that a token is limited to; unset: not limited."
    )

    @field_validator("oauth_issuer", "oauth_jwks_url")
    @classmethod
    def _is_url(cls, value: str | None) -> str | None:
        if value is None:
            return None
        try:
            parts = urlsplit(value)
            host = parts.hostname or ""
        except ValueError:
            host = ""
        if not host or parts.scheme not in ("https", "http"):
            msg = "must be a URL that begins with https://"
            raise ValueError(msg)
        if parts.scheme == "http" and not is_loopback(value):
            # Whoever is between could replace the keys (RFC 8414 section 2, RFC 9700 section 2.6).
            msg = "must begin with https://; http:// is accepted for a loopback address only"
            raise ValueError(msg)
        if parts.username is not None or parts.query or parts.fragment:
            msg = "must have no user, query or fragment"
            raise ValueError(msg)
        return value

    @field_validator("oauth_algorithms")
    @classmethod
    def _is_asymmetric(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        if not value or not set(value) <= set(_ALGORITHMS):
            msg = f"must be some of {', '.join(_ALGORITHMS)}"
            raise ValueError(msg)
        return value

    @field_validator("oauth_scopes")
    @classmethod
    def _maps_to_scopes(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for pair in value:
            name, _, scope = pair.partition("=")
            if not name or scope not in TOKEN_SCOPES:
                msg = "must be NAME=tools:read or NAME=tools:call"
                raise ValueError(msg)
        return value

    def read_oauth_scope_map(self) -> dict[str, str]:
        """Return the scope of the gateway for each of the issuer's; of several for one, the last."""
        pairs = (pair.partition("=") for pair in self.oauth_scopes)
        return {name: scope for name, _, scope in pairs} or {scope: scope for scope in TOKEN_SCOPES}
