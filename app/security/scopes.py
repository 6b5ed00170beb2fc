"""What an API key may do: the scopes, and the reading of them."""

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
"""Stands for every scope, those of later releases too."""


def missing(wanted: Iterable[str], *, held: frozenset[str]) -> tuple[str, ...]:
    """Return the scopes of `wanted` that `held` does not give, sorted."""
    if ADMIN in held:
        return ()
    return tuple(sorted(set(wanted) - held))
