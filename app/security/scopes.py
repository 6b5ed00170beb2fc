"""The scopes of API keys, and their comparison."""

from collections.abc import Iterable
from typing import Literal, get_args

Scope = Literal[
    "providers:read",
    "providers:write",
    "credentials:write",
    "tools:read",
    "tools:call",
    "keys:manage",
    "calls:read",
    "calls:bodies",
    "metrics:read",
    "admin",
]
SCOPES: tuple[Scope, ...] = get_args(Scope)
ADMIN: Scope = "admin"
"""Includes every scope, also those of later releases."""


def missing_scopes(required: Iterable[str], *, held: frozenset[str]) -> tuple[str, ...]:
    """Return the required scopes that `held` does not include, sorted."""
    if ADMIN in held:
        return ()
    return tuple(sorted(set(required) - held))
