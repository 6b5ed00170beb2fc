"""What happens in a run, for user interfaces."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from utcp_gateway_client.loop.gateways import PendingApproval
from utcp_gateway_client.loop.model import Message, ToolCall, Usage

Stopped = Literal["done", "iterations", "time", "length", "refusal"]
"""Why a run has ended: the model made no further call; a limit of the run; the limit of the model's output;
the model or its provider refused.
"""


@dataclass(frozen=True, slots=True)
class CallRecord:
    """A call that was answered. `preview` is the beginning of the answer, at most 500 bytes of it."""

    iteration: int
    call: ToolCall
    is_error: bool
    seconds: float
    preview: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run has ended. `text` is the last text of the model, `history` what a further run continues.

    `reason` is the provider's own word for the end of the last response. `calls` are in the order in which
    the model has made them.
    """

    text: str
    stopped: Stopped
    history: Sequence[Message] = field(repr=False)
    iterations: int = 0
    calls: Sequence[CallRecord] = ()
    usage: Usage = field(default_factory=Usage)
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of the model's text, as it is written."""

    text: str


@dataclass(frozen=True, slots=True)
class ModelResponded:
    """The model has responded with a text, with calls, or both."""

    iteration: int
    text: str
    calls: Sequence[ToolCall]
    usage: Usage


@dataclass(frozen=True, slots=True)
class CallStarted:
    """A call is being made."""

    iteration: int
    call: ToolCall


@dataclass(frozen=True, slots=True)
class ApprovalRequired:
    """A gateway has not made a call, which somebody has to approve first."""

    iteration: int
    pending: PendingApproval


@dataclass(frozen=True, slots=True)
class CallFinished:
    """A call is answered."""

    record: CallRecord


@dataclass(frozen=True, slots=True)
class MessagesAdded:
    """The history has these further messages."""

    messages: Sequence[Message] = field(repr=False)


@dataclass(frozen=True, slots=True)
class RunFinished:
    """The last event."""

    result: RunResult


Event = (
    TextDelta | ModelResponded | CallStarted | ApprovalRequired | CallFinished | MessagesAdded | RunFinished
)
