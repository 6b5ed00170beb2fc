"""`/me`: the key of the request."""

from dataclasses import replace
from typing import Annotated

from fastapi import APIRouter, Depends

from app.access import repository
from app.access.keys.service import StoredKey
from app.access.keys.warnings import KeyWarningPolicy, read_key_warnings
from app.api.authorisation import requires_key
from app.api.dependencies import UsesServices
from app.api.keys.schemas import KeyView
from app.api.me.schemas import (
    GrantedScope,
    MeView,
    RateLimitUsage,
    VisibleView,
    described_token,
)
from app.catalog.tools import count_visible
from app.core.errors import Unauthenticated
from app.core.schemas import problem_responses
from app.security.principal import Principal

router = APIRouter(tags=["keys"])

AnyKey = Annotated[Principal, Depends(requires_key)]


@router.get(
    "/me",
    operation_id="getMe",
    summary="Get the key of the request",
    # No key lacks the right.
    responses={status: one for status, one in problem_responses().items() if status != 403},
)
async def get_me(principal: AnyKey, services: UsesServices) -> MeView:
    """Get the API key of the request, or the access token: its rights and what they mean, what is left of its
    rate limit, when it expires, how much it may see, and warnings. Any valid key may read this about itself.
    """
    settings = services.settings
    async with services.database.read_session() as session:
        if principal.token is None:
            row = await repository.find_visible(session, principal.key_id, principal=principal)
            if row is None:
                raise Unauthenticated("The API key was revoked a moment ago.")
            policy = KeyWarningPolicy.from_settings(settings)
            (warnings,) = await read_key_warnings(session, [row], policy, viewer=_viewer(principal))
            described = KeyView.of(StoredKey(row, warnings)).model_dump()
        else:
            described = described_token(principal)
        providers, tools = await count_visible(session, principal)
    if principal.toolsets is not None:
        providers, tools = await services.collections.count_visible(principal)
    limit = None
    if principal.rate_limit is not None:
        state = await services.calls.rate_limiter.read(
            principal.tenant_id, key_id=principal.rate_limit_owner, key=principal.rate_limit
        )
        limit = RateLimitUsage.of(state)
    sees_tools = principal.has_scope("tools:read") or principal.has_scope("tools:call")
    sees_providers = principal.has_scope("tools:read") or principal.has_scope("providers:read")
    return MeView(
        **described,
        tenant_id=principal.tenant_id,
        is_admin=principal.has_scope("admin"),
        scope_descriptions=GrantedScope.list_of(described["scopes"], base_url=settings.public_base_url or ""),
        rate_limit_usage=limit,
        visible=VisibleView(providers=providers if sees_providers else 0, tools=tools if sees_tools else 0),
    )


def _viewer(principal: Principal) -> Principal:
    """Return whom the warnings are for: of a key that is limited to toolsets, without this limit."""
    return replace(principal, providers=principal.own_providers)
