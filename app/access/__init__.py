"""Who may do what: verifying API keys, authorising every route, and the stored keys and events."""

from app.access.authorise import (
    anonymous_if,
    authorise,
    declared_scope,
    public_route,
    require_recent,
    requires,
    requires_any,
    requires_key,
)
from app.access.verifier import KeyCachePolicy, KeyVerifier

__all__ = [
    "KeyCachePolicy",
    "KeyVerifier",
    "anonymous_if",
    "authorise",
    "declared_scope",
    "public_route",
    "require_recent",
    "requires",
    "requires_any",
    "requires_key",
]
