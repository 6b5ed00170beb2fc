"""The response of `GET /me`: what a key may do, and how much of it is left."""

from typing import Self
from uuid import UUID

from pydantic import BaseModel, Field

from app.errors import SCOPES_PATH
from app.keys.schemas import KeyView
from app.security.gcra import RateLimitState
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
        description="Providers within its restrictions; 0 without `providers:read` and `tools:read`.", ge=0
    )
    tools: int = Field(
        description="Tools within its restrictions, disabled ones included; 0 without `tools:read` and "
        "`tools:call`.",
        ge=0,
    )


class MeView(KeyView):
    """The key of the request, and what it may do."""

    tenant_id: UUID
    is_admin: bool = Field(description="Whether it has `admin`, which includes every other scope.")
    scope_descriptions: list[GrantedScope] = Field(description="What its `scopes` allow.")
    rate_limit_usage: RateLimitUsage | None = Field(description="null where no rate limit applies.")
    visible: VisibleView
