"""Which credentials a tool requires: alternatives (OR) of slots that go together (AND).

This is OpenAPI's list of Security Requirement Objects, with slots in place of security schemes.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

CLIENT_CERTIFICATE: Final = "client certificate"
"""Stands for the client certificate of a provider among slots, whose names have no blanks."""


class SlotRequirement(NamedTuple):
    """One slot that a tool requires, with the OAuth2 scopes that its operation requires.

    With `certificate`, it is the client certificate of the provider that is required (mutual TLS), and no
    credential of the slot.
    """

    slot: str
    scopes: tuple[str, ...] = ()
    certificate: bool = False


SecurityRequirements = tuple[tuple[SlotRequirement, ...], ...]


def compile_security(security: Iterable[Iterable[Mapping[str, Any]]]) -> SecurityRequirements:
    """Return the requirements of a tool's `security`: `[[{"slot": ..., "scopes": [...]}, ...], ...]`."""
    return tuple(tuple(_compile_need(need) for need in alternative) for alternative in security)


def _compile_need(need: Mapping[str, Any]) -> SlotRequirement:
    return SlotRequirement(
        need["slot"], tuple(need.get("scopes") or ()), certificate=need.get("certificate") is True
    )


def security_json(requirements: SecurityRequirements) -> list[list[dict[str, Any]]]:
    """Return the requirements of a tool as its stored `security`; the inverse of `compile_security`."""
    return [[_dump_need(need) for need in alternative] for alternative in requirements]


def _dump_need(need: SlotRequirement) -> dict[str, Any]:
    stored = {"slot": need.slot, "scopes": list(need.scopes)}
    return {**stored, "certificate": True} if need.certificate else stored


def slot_names(requirements: Iterable[Sequence[SlotRequirement]]) -> frozenset[str]:
    """Return all slots of which any alternative needs a credential."""
    return frozenset(need.slot for needs in requirements for need in needs if not need.certificate)


SlotAlternatives = tuple[tuple[str, ...], ...]
"""The slots of each alternative of a tool that needs a credential; empty for one that needs none.

`CLIENT_CERTIFICATE` stands for the certificate of the provider.
"""


@lru_cache(maxsize=4_096)
def slot_alternatives(requirements: SecurityRequirements) -> SlotAlternatives:
    """Return the slots of each alternative; none where there is no alternative, or one is empty, since
    credentials are optional then. The tools of a provider share one object.
    """
    if not all(requirements):
        return ()
    return tuple(
        tuple(CLIENT_CERTIFICATE if need.certificate else need.slot for need in alternative)
        for alternative in requirements
    )
