"""Who may do what: verifying API keys, authorising every route, and the stored keys and events."""

from app.access.authorise import authorise, require_recent
from app.access.verifier import KeyCachePolicy, KeyVerifier

__all__ = [
    "KeyCachePolicy",
    "KeyVerifier",
    "authorise",
    "require_recent",
]
