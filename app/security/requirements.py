"""Which credentials a tool requires: alternatives (OR) of slots that go together (AND).

This is OpenAPI's list of Security Requirement Objects, with slots in place of security schemes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, NamedTuple


class SlotRequirement(NamedTuple):
    """One slot that a tool requires, with the OAuth2 scopes that its operation requires."""

    slot: str
    scopes: tuple[str, ...] = ()


SecurityRequirements = tuple[tuple[SlotRequirement, ...], ...]


def compile_security(security: Iterable[Iterable[Mapping[str, Any]]]) -> SecurityRequirements:
    """Return the requirements of a tool's `security`: `[[{"slot": ..., "scopes": [...]}, ...], ...]`."""
    return tuple(
        tuple(SlotRequirement(need["slot"], tuple(need.get("scopes") or ())) for need in alternative)
        for alternative in security
    )


def security_json(requirements: SecurityRequirements) -> list[list[dict[str, Any]]]:
    """Return the requirements of a tool as its stored `security`; the inverse of `compile_security`."""
    return [
        [{"slot": need.slot, "scopes": list(need.scopes)} for need in alternative]
        for alternative in requirements
    ]


def slot_names(requirements: Iterable[Sequence[SlotRequirement]]) -> frozenset[str]:
    """Return all slots that any alternative names."""
    return frozenset(need.slot for alternative in requirements for need in alternative)


SlotAlternatives = tuple[tuple[str, ...], ...]
"""The slots of each alternative of a tool that needs a credential; empty for one that needs none."""


@lru_cache(maxsize=4_096)
def slot_alternatives(requirements: SecurityRequirements) -> SlotAlternatives:
    """Return the slots of each alternative; none where there is no alternative, or one is empty, since
    credentials are optional then. The tools of a provider share one object.
    """
    if not all(requirements):
        return ()
    return tuple(tuple(need.slot for need in alternative) for alternative in requirements)
