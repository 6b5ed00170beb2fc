"""The limits of a run, and the functions that a program gives it."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from utcp_gateway_client.loop.gateways import PendingApproval
from utcp_gateway_client.loop.model import CallAnswer, ToolCall

MAX_ITERATIONS: Final = 50
MAX_CALL_SECONDS: Final = 120.0


@dataclass(frozen=True, slots=True)
class Limits:
    """How long a run may take.

    `max_iterations` are requests of the model (1 to 50); `call_seconds` bounds a call (at most 120) whose
    tool has no shorter limit; `run_seconds` bounds all; `parallel_calls` run at once. Raises ValueError.
    """

    max_iterations: int = 15
    call_seconds: float = MAX_CALL_SECONDS
    run_seconds: float = 600.0
    parallel_calls: int = 8

    def __post_init__(self) -> None:
        if not 1 <= self.max_iterations <= MAX_ITERATIONS:
            raise ValueError(f"max_iterations is between 1 and {MAX_ITERATIONS}.")
        if not 0 < self.call_seconds <= MAX_CALL_SECONDS:
            raise ValueError(f"call_seconds is above 0 and at most {MAX_CALL_SECONDS:g}.")
        if self.run_seconds <= 0 or self.parallel_calls < 1:
            raise ValueError("run_seconds and parallel_calls are above 0.")


@dataclass(frozen=True, slots=True)
class Hooks:
    """Functions that are called around each call, sync or async; what they raise ends the run.

    `approve` says whether a call is made. `before_call` is told of a call that will be made, `after_call` of
    each call and its answer. `approval_required` is told of a call that a gateway has not made, and returns
    what the model gets as its result: that of `await pending.wait()`, a text, or None for the gateway's own
    text. Its time counts for the run, and not for the call. Functions that are not async run in the event
    loop, and must not block it.
    """

    approve: Callable[[ToolCall], bool | Awaitable[bool]] | None = None
    before_call: Callable[[ToolCall], Awaitable[None] | None] | None = None
    after_call: Callable[[ToolCall, CallAnswer], Awaitable[None] | None] | None = None
    approval_required: (
        Callable[[PendingApproval], CallAnswer | str | Awaitable[CallAnswer | str | None] | None] | None
    ) = None
