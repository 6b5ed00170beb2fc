"""What each scope of API keys allows, and which operations of the OpenAPI document need it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.security.scopes import DESCRIPTIONS, SCOPES, Scope

_METHODS: Final = ("get", "post", "put", "patch", "delete")


@dataclass(frozen=True, slots=True)
class ScopeDescription:
    """A scope: what it allows, and the operations that need it, as `GET /providers`, in path order."""

    name: Scope
    description: str
    operations: tuple[str, ...]

    def as_json(self) -> dict[str, Any]:
        """Return the description as JSON."""
        return {"name": self.name, "description": self.description, "operations": list(self.operations)}


def list_any_key_operations(document: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the operations for any valid key, as `GET /me`, in path order."""
    return tuple(
        f"{method.upper()} {path}"
        for path, item in sorted(document["paths"].items())
        for method in _METHODS
        if item.get(method, {}).get("x-required-scopes") == []
    )


def describe_scopes(document: Mapping[str, Any]) -> list[ScopeDescription]:
    """Return all scopes, with the operations of an OpenAPI document that require each
    (`x-required-scopes`).
    """
    needing: dict[str, list[str]] = {}
    for path, item in sorted(document["paths"].items()):
        for method in _METHODS:
            for scope in item.get(method, {}).get("x-required-scopes", ()):
                needing.setdefault(scope, []).append(f"{method.upper()} {path}")
    return [ScopeDescription(name, DESCRIPTIONS[name], tuple(needing.get(name, ()))) for name in SCOPES]
