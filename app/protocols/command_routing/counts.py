"""What a worker counts of commands and of messages of UBP, for the metrics."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Final, Literal, get_args

CommandOutcome = Literal["success", "error", "not-connected", "disconnected", "timeout", "cancelled"]
"""How a command for an executor has ended: `error` is another status of its response than SUCCESS."""
MessageRejection = Literal["malformed", "too-large", "too-many-commands", "stopping", "unexpected"]
"""Why a message was rejected or ignored: one that is `unexpected` belongs to no open command."""

OUTCOMES: Final[tuple[CommandOutcome, ...]] = get_args(CommandOutcome)
REJECTIONS: Final[tuple[MessageRejection, ...]] = get_args(MessageRejection)


@dataclass(slots=True)
class CommandCounts:
    """`outcomes` of the commands that this worker has routed, how many of them were `relayed` to another
    worker, the messages that it has `rejected`, and the entries of other workers in Redis that were
    `unreadable`. They only grow.
    """

    outcomes: Counter[CommandOutcome] = field(default_factory=Counter)
    relayed: int = 0
    rejected: Counter[MessageRejection] = field(default_factory=Counter)
    unreadable: int = 0
