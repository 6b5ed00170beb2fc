"""Approval of calls: how `execute` has a call wait for the decision of another key, and what the approved
call brings.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from uuid import UUID

from app.catalog.plan import Plan
from app.core import exact_json
from app.core.errors import ApprovalOutdated, Conflict, GatewayError
from app.core.upstream_mode import UpstreamMode
from app.formats.toolclad.envelope import Evidence
from app.protocols.base import Result
from app.security.principal import Principal


@dataclass(frozen=True, slots=True)
class ApprovedCall:
    """The approval of a call: `fingerprint` and `description_digest` are those of the tool's `Plan` when the
    call was requested; None for a call that release 0.2 stored, without the latter.
    """

    fingerprint: bytes
    description_digest: bytes | None = None

    def check(self, plan: Plan) -> None:
        """Raise ApprovalOutdated where the tool is not as it was when the call was requested."""
        if self.fingerprint != plan.fingerprint:
            raise ApprovalOutdated(f"The tool {plan.name} was changed after the call was requested.")
        if self.description_digest not in (None, plan.description_digest):
            raise ApprovalOutdated(
                f"The description or annotations of the tool {plan.name} were changed after the call was "
                "requested."
            )


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


@dataclass(frozen=True, slots=True)
class EndedCall:
    """How a call ended whose approval was decided or has expired: its `result`, or the `error` that it failed
    with, also where it was never made. `call_id` is that of the call that was made.
    """

    call_id: str | None
    result: Result | None = field(default=None, repr=False)
    error: GatewayError | None = None
    evidence: Evidence | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class RequestedCall:
    """A call whose approval was requested, now or earlier: `approval` as JSON values. `ended` is None while
    it waits, and while it is made.
    """

    tool: str
    """The canonical name of the tool."""
    approval: dict[str, Any] = field(repr=False)
    ended: EndedCall | None = None


def describe_comment(comment: str) -> str:
    """Return a sentence with the comment of a decision, to be added to another one; "" without a comment."""
    return f" The comment of the decision: {exact_json.dumps(comment).decode()}." if comment else ""


class CallApprovals(Protocol):
    """Stores calls that wait for approval."""

    async def request(self, call: WaitingCall) -> RequestedCall:
        """Store a call, sealed, and return it with its approval; the same one for a repeated idempotency
        key, also once it has ended.

        Raise IdempotencyMismatch for the key of another call, RateLimited where too many calls of the API key
        wait, and Unavailable without PostgreSQL.
        """


class NoCallApprovals:
    """Rejects calls that need approval: where there is nobody to approve them."""

    async def request(self, call: WaitingCall) -> RequestedCall:
        """See `CallApprovals`."""
        raise Conflict(f"The tool {call.plan.name} requires approval, which is not available here.")
