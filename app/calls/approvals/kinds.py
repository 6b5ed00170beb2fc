"""The kinds of approvals, and the interface of what handles a decision about them."""

from collections import Counter
from dataclasses import dataclass
from typing import Final, Literal, Protocol, get_args

from sqlalchemy.ext.asyncio import AsyncSession

from app.calls.arguments.shown import Shown
from app.security.principal import Principal
from app.security.scopes import Scope
from app.storage.models import Approval

ApprovalKind = Literal["origin", "credential", "definition", "call"]
"""What is approved: calls or tokens at new origins, another use of stored credentials, another definition of
tools, or one call."""
ApprovalState = Literal["pending", "approved", "rejected", "expired", "executed", "failed"]
ApprovalDecisionName = Literal["approve", "reject"]
CHANGE_KINDS: Final[tuple[ApprovalKind, ...]] = ("origin", "credential", "definition")
"""The kinds of pending changes of a provider."""
KINDS: Final[tuple[ApprovalKind, ...]] = get_args(ApprovalKind)
DECIDING_SCOPES: Final[dict[ApprovalKind, Scope]] = {
    "origin": "credentials:write",
    "credential": "credentials:write",
    "definition": "credentials:write",
    "call": "approvals:decide",
}
"""The scope that decides about each kind."""

ApprovalCounts = Counter[tuple[str, str]]
"""How many approvals of a kind have come into a state in this process, for the metrics."""


@dataclass(frozen=True, slots=True)
class Decision:
    """A decision: who made it, and why. `if_match` is an ETag that the subject must have, None for any."""

    principal: Principal
    comment: str = ""
    if_match: str | None = None


class ApprovalHandler(Protocol):
    """Does what is approved, for some kinds."""

    async def approve(self, approval: Approval, decision: Decision) -> Approval:
        """Do what is approved, once; return the approval in its state after it.

        Raise Conflict where somebody else has decided meanwhile, and ApprovalOutdated where nothing was done
        because it can no longer be done as it was requested.
        """

    async def describe(self, approval: Approval) -> Shown:
        """Return the request that would be sent if a pending approval were approved now, made from what is
        stored; raise NotFound where nothing is sent, and ApprovalOutdated where it can no longer be done.
        """

    async def discard(self, session: AsyncSession, approval: Approval) -> None:
        """Delete what was stored for an approval that was rejected or has expired, in its transaction."""

    async def aclose(self) -> None:
        """Wait for what is being done, for a bounded time."""


def decidable_kinds(principal: Principal) -> tuple[ApprovalKind, ...]:
    """Return the kinds about which the scopes of a key let it decide."""
    return tuple(kind for kind in KINDS if principal.has_scope(DECIDING_SCOPES[kind]))
