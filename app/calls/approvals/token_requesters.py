"""Principals of access tokens that have requested a call: a token has no row to read them from again.

What the token permitted is stored with the call, sealed. It is used for this call alone, once another key has
approved it: tokens live for minutes, and decisions of people take longer (decision 79).
"""

from typing import Any

from app.security.principal import Principal, TokenIdentity
from app.storage.models import TENANT


def serialise_rights(principal: Principal) -> dict[str, Any] | None:
    """Return what a token permits as JSON values, at the address of the call; None for an API key."""
    if principal.token is None:
        return None
    return {
        **principal.token.as_json(),
        "scopes": sorted(principal.scopes),
        "providers": None if principal.providers is None else sorted(principal.providers),
        "tags": None if principal.tags is None else sorted(principal.tags),
        "toolset": principal.toolset,
    }


def restore_principal(key_id: str, stored: dict[str, Any]) -> Principal:
    """Return the principal of what `serialise_rights` has returned; its calls count against no rate limit, as
    they were counted when they were requested.
    """
    return Principal(
        key_id=key_id,
        name="access token",
        tenant_id=TENANT,
        scopes=frozenset(stored["scopes"]),
        providers=None if stored["providers"] is None else frozenset(stored["providers"]),
        tags=None if stored["tags"] is None else frozenset(stored["tags"]),
        toolset=stored["toolset"],
        token=TokenIdentity(stored["issuer"], stored["subject"], stored["client"]),
    )
