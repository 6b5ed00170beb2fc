"""The response of `GET /me`: what a key may do, and how much of it is left."""

from typing import Any, Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.api.keys.schemas import KeyView
from app.core.errors import SCOPES_PATH
from app.core.schemas import TokenHolder
from app.security.gcra import RateLimitState
from app.security.keys import derived_id
from app.security.principal import Principal
from app.security.scopes import DESCRIPTIONS, SCOPES, Scope


class GrantedScope(BaseModel):
    """A scope, and what it allows."""

    name: Scope
    description: str
    documentation_url: str

    @classmethod
    def list_of(cls, scopes: list[str], *, base_url: str) -> list[Self]:
        """Return the views of a key's scopes, in the order of `GET /scopes`."""
        return [
            cls(name=one, description=DESCRIPTIONS[one], documentation_url=f"{base_url}{SCOPES_PATH}/{one}")
            for one in SCOPES
            if one in scopes
        ]


class RateLimitUsage(BaseModel):
    """The rate limit for calls of tools that applies to a key, and what is left of it now."""

    requests: int
    per_seconds: int
    burst: int
    is_default: bool = Field(description="Whether it is the gateway's rate limit for keys without their own.")
    remaining: int = Field(description="Calls that could be made at once.", ge=0)
    reset_seconds: int = Field(description="Seconds until the limit is unused again.", ge=0)

    @classmethod
    def of(cls, state: RateLimitState) -> Self:
        """Return the view of the state of a key's limit."""
        bucket = state.buckets[0]
        return cls(
            **bucket.limit.to_stored(),
            is_default=not bucket.limit.is_own,
            remaining=state.remaining()[0],
            reset_seconds=state.reset_seconds()[0],
        )


class VisibleView(BaseModel):
    """How much a key may see."""

    providers: int = Field(
        description="Providers within its restrictions; 0 without `providers:read` and `tools:read`. Of a "
        "key that is limited to toolsets: those of the tools in them.",
        ge=0,
    )
    tools: int = Field(
        description="Tools within its restrictions, disabled ones included; 0 without `tools:read` and "
        "`tools:call`. Of a key that is limited to toolsets: the enabled ones in them.",
        ge=0,
    )


class TokenView(TokenHolder):
    """For whom the access token of the request was issued."""

    principal: str = Field(
        description="`oauth:` and a digest of issuer, subject and client: the `key_id` of its calls.",
        examples=["oauth:6f1d0b2c4e8a7b3c5d9e0f1a"],
    )


class MeView(KeyView):
    """The key of the request, or its access token, and what it may do. Of a token, `id` is derived from its
    principal, and `created_at` is when it was issued, or first used where it does not say.
    """

    access_token: TokenView | None = Field(
        None, description="For whom the access token was issued; null for an API key."
    )
    tenant_id: UUID
    is_admin: bool = Field(description="Whether it has `admin`, which includes every other scope.")
    scope_descriptions: list[GrantedScope] = Field(description="What its `scopes` allow.")
    rate_limit_usage: RateLimitUsage | None = Field(description="null where no rate limit applies.")
    visible: VisibleView


def described_token(principal: Principal) -> dict[str, Any]:
    """Return the members of a `MeView` that describe the access token of a principal in place of a key."""
    token = principal.token
    own = principal.own_providers
    return {
        "id": derived_id(principal.key_id),
        "access_token": None if token is None else {**token.as_json(), "principal": principal.key_id},
        "name": principal.name,
        "owner": "",
        "purpose": "",
        "scopes": [one for one in SCOPES if one in principal.scopes],
        "providers": None if own is None else sorted(own),
        "tags": None if principal.tags is None else sorted(principal.tags),
        "toolsets": None if principal.toolsets is None else sorted(principal.toolsets),
        "rate_limit": None,
        "argument_repair": None,
        "schemas": None,
        "state": "active",
        "created_at": principal.issued_at,
        "expires_at": principal.expires_at,
        "revoked_at": None,
        "last_used_at": None,
        "rotated_from": None,
        "successor_id": None,
        "warnings": [],
    }
