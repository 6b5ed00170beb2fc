"""Calls that wait for an approval."""

from typing import Any, Final, Protocol

from utcp_gateway_client.gateway.errors import ApprovalDenied, GatewayError, problem_error
from utcp_gateway_client.gateway.exchange import Steps, Wait
from utcp_gateway_client.gateway.models import ApprovalResult, ApprovalSummary, ApprovalView
from utcp_gateway_client.gateway.results import CallResult, approved_result

_POLL_SECONDS: Final = (0.5, 10.0)
_DENIED: Final = frozenset({"rejected", "expired"})


class _Approvals(Protocol):
    """What of the operations a wait needs."""

    def approval(self, approval_id: str) -> Steps[ApprovalView]:
        """Return the approval."""

    def approval_result(self, approval_id: str) -> Steps[ApprovalResult]:
        """Return the result of its call."""


class ApprovalPending(GatewayError):
    """The call was not made: somebody has to approve it first. `approval` is the approval.

    `wait()` waits for the decision and returns the value of the call. `approve()` and `reject()` decide, with
    a key that may: another one than that of the call. In async code these are awaited.
    """

    def __init__(self, approval: ApprovalSummary) -> None:
        super().__init__(f"The call waits for the approval {approval.id}.")
        self.approval = approval

    @property
    def id(self) -> str:
        """Id of the approval."""
        return str(self.approval.id)


class SyncApprovalPending(ApprovalPending):
    """The call of a `Gateway` waits for an approval."""

    def __init__(self, approval: ApprovalSummary, gateway: Any) -> None:
        super().__init__(approval)
        self._gateway = gateway

    def wait(self, timeout: float | None = None) -> Any:
        """Wait for the decision and return the value of the call.

        Raises ApprovalDenied, the ProblemError that the call failed with, and TimeoutError after `timeout`
        seconds.
        """
        return self._gateway.wait_for_approval(self.id, timeout=timeout).value

    def approve(self, comment: str = "") -> ApprovalView:
        """Approve the call, which makes it; raise PermissionDenied for the key that requested it."""
        view: ApprovalView = self._gateway.approve(self.id, comment=comment)
        return view

    def reject(self, comment: str = "") -> ApprovalView:
        """Reject the call."""
        view: ApprovalView = self._gateway.reject(self.id, comment=comment)
        return view


class AsyncApprovalPending(ApprovalPending):
    """The call of an `AsyncGateway` waits for an approval."""

    def __init__(self, approval: ApprovalSummary, gateway: Any) -> None:
        super().__init__(approval)
        self._gateway = gateway

    async def wait(self, timeout: float | None = None) -> Any:
        """Wait for the decision and return the value of the call.

        Raises ApprovalDenied, the ProblemError that the call failed with, and TimeoutError after `timeout`
        seconds.
        """
        return (await self._gateway.wait_for_approval(self.id, timeout=timeout)).value

    async def approve(self, comment: str = "") -> ApprovalView:
        """Approve the call, which makes it; raise PermissionDenied for the key that requested it."""
        view: ApprovalView = await self._gateway.approve(self.id, comment=comment)
        return view

    async def reject(self, comment: str = "") -> ApprovalView:
        """Reject the call."""
        view: ApprovalView = await self._gateway.reject(self.id, comment=comment)
        return view


def wait_for_approval(approvals: _Approvals, approval_id: str, timeout: float | None) -> Steps[CallResult]:
    """Return the result of the call once it has been approved and made."""
    delay, longest = _POLL_SECONDS
    waited = 0.0
    while True:
        view = yield from approvals.approval(approval_id)
        if view.state in _DENIED:
            raise ApprovalDenied(view.state, view.comment)
        if view.state in {"executed", "failed"}:
            break
        if timeout is not None and waited >= timeout:
            raise TimeoutError(f"The approval {approval_id} was not decided within {timeout:g} seconds.")
        delay = delay if timeout is None else min(delay, max(timeout - waited, 0.01))
        yield Wait(delay)
        waited += delay
        delay = min(longest, delay * 1.5)
    result = yield from approvals.approval_result(approval_id)
    if result.problem is not None:
        status = result.problem.get("status")
        raise problem_error(status if isinstance(status, int) else 500, result.problem)
    return approved_result(result)
