"""Who may do what: verifying API keys, authorising every route, and the stored keys and events."""

from app.access.authorise import anonymous_if, authorise, declared_scope, public_route, requires
from app.access.verifier import KeyVerifier

__all__ = ["KeyVerifier", "anonymous_if", "authorise", "declared_scope", "public_route", "requires"]
