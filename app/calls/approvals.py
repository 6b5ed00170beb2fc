"""Approval of calls: how `execute` has a call wait for the decision of another key, and what the approved
call brings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from app.catalog.plan import Plan
from app.errors import Conflict
from app.security.principal import Principal
from app.security.upstream_mode import UpstreamMode


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """The approval of a call: `fingerprint` is that of the tool's definition when the call was requested."""

    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class WaitingCall:
    """What `execute` hands to `CallApprovals`: a call whose arguments are valid and whose principal may make
    it.
    """

    call_id: UUID
    principal: Principal
    plan: Plan
    arguments: dict[str, Any] = field(repr=False)
    idempotency_key: str | None = None
    cdn_loop: bytes = b""
    toolset: str | None = None
    """The toolset by whose address the call came; None for the registry."""
    presets: Mapping[str, Any] = field(default_factory=dict, repr=False)
    """The arguments that the toolset has set, by JSON pointer: only who decides sees them."""
    upstream: UpstreamMode | None = None
    """The upstream mode of the call; None: live."""
    recording_run: str = ""


class CallApprovals(Protocol):
    """Stores calls that wait for approval."""

    async def request(self, call: WaitingCall) -> dict[str, Any]:
        """Store a call, sealed, and return its approval as JSON values; the same one for a repeated
        idempotency key.

        Raise IdempotencyMismatch for the key of another call, RateLimited where too many calls of the API key
        wait, and Unavailable without PostgreSQL.
        """


class NoCallApprovals:
    """Rejects calls that need approval: where there is nobody to approve them."""

    async def request(self, call: WaitingCall) -> dict[str, Any]:
        """See `CallApprovals`."""
        raise Conflict(f"The tool {call.plan.name} requires approval, which is not available here.")
