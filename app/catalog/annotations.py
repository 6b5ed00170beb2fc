"""The hints about the effects of a tool, by which hosts ask their users and agents choose."""

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from types import MappingProxyType
from typing import Any, Final, Protocol, Self

from app.formats.toolclad.contract import get_risk_tier
from app.protocols.call_templates import protocol_of
from app.protocols.registry import PROTOCOLS

_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
_NO_HEADERS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Annotations:
    """What is known of the effects of a tool; None: nothing (MCP, `ToolAnnotations`)."""

    read_only: bool = False
    destructive: bool | None = None
    idempotent: bool | None = None
    open_world: bool = True

    @classmethod
    def of_method(cls, method: str | None) -> Self:
        """Return what a method of HTTP tells (RFC 9110 section 9.2): POST and PATCH may do anything."""
        if method in _SAFE:
            return cls(read_only=True)
        if method in ("PUT", "DELETE"):
            return cls(destructive=True, idempotent=True)
        return cls() if method is None else cls(idempotent=False)

    @classmethod
    def of_template(cls, template: Mapping[str, Any]) -> Self:
        """Return what a stored call template tells."""
        record = PROTOCOLS.get(protocol_of(template))
        known = cls.of_method(None if record is None else record.http_method(template))
        tier = get_risk_tier(template)
        # A manifest states what may happen; of a tool of high risk, the worst is assumed.
        return replace(known, read_only=False, destructive=True) if tier == "high" else known

    def overridden(self, given: Mapping[str, Any] | None) -> "Annotations":
        """Return them with what an operator has set; members that are None are not set, and those that are no
        hints about effects are not read.
        """
        changes = {
            name: value for name, value in (given or {}).items() if name in _HINTS and value is not None
        }
        if changes.get("read_only"):
            # A tool that only reads destroys nothing, whatever its method says.
            changes = {"destructive": None, "idempotent": None} | changes
        return replace(self, **changes) if changes else self


_HINTS: Final = frozenset(one.name for one in fields(Annotations))


def header_inputs_of(given: Mapping[str, Any] | None) -> Mapping[str, str]:
    """Return the inputs that clients repeat in headers, of what an operator has set about a tool."""
    return (given or {}).get("header_inputs") or _NO_HEADERS


class KnownEffects(Protocol):
    """What is known of the effects of a tool: `Annotations`, or a tool that has their members."""

    @property
    def read_only(self) -> bool: ...
    @property
    def destructive(self) -> bool | None: ...
    @property
    def idempotent(self) -> bool | None: ...


def effects(known: KnownEffects, *, requires_approval: bool, deprecated: bool) -> dict[str, bool | None]:
    """Return what is known of the effects of a tool, and what else decides whether to call it.

    `idempotent` is None where nothing is known.
    """
    return {
        "read_only": known.read_only,
        # A tool that is not read-only counts as destructive where nothing is known (MCP, `ToolAnnotations`).
        "destructive": not known.read_only and known.destructive is not False,
        "idempotent": known.idempotent,
        "requires_approval": requires_approval,
        "deprecated": deprecated,
    }
