"""Admission of calls: under overload some are rejected at once, so that the others are served in time.

Two measures, neither of which costs a call anything without overload. The first is the number of calls in
progress. The second is the lag of the event loop: a timer that is late in all samples of a tenth of a second
(as in CoDel, RFC 8289, the minimum of the samples counts, so that a single delay does not) shows that work is
queueing. Then a growing share of new calls is rejected, until the lag is acceptable again.
"""

import asyncio
import random
from collections.abc import Callable
from typing import Final

import structlog

log = structlog.get_logger(__name__)

_SAMPLE_SECONDS: Final = 0.025
_SAMPLES: Final = 5
# Per sample, the share rises by a tenth of its distance to 1, and falls by a fiftieth of 1.
_RISE: Final = 0.1
_FALL: Final = 0.02
_MAX_PRESSURE: Final = 0.95


def _count_none() -> int:
    return 0


class Admission:
    """The admission of one worker. `running` are the calls in progress, `rejected` counts the rejected calls,
    and `pressure` is the share of new calls that is rejected.

    At most `max_running` calls are admitted; `max_lag` (seconds) is the acceptable lag of the loop. The lag
    is ignored while fewer than `min_running` calls are in progress: then they are not its cause. `unverified`
    returns how many of the calls in progress wait for their key to be looked up: anybody can send any number
    of these, so they count in neither measure.
    """

    __slots__ = (
        "_handle",
        "_late",
        "_loop",
        "_max_lag",
        "_next",
        "max_running",
        "min_running",
        "pressure",
        "rejected",
        "running",
        "unverified",
    )

    def __init__(self, *, max_running: int, max_lag: float, min_running: int = 64) -> None:
        self.max_running = max_running
        self.min_running = min_running
        self.running = 0
        self.rejected = 0
        self.pressure = 0.0
        self.unverified: Callable[[], int] = _count_none
        self._max_lag = max_lag
        self._late = [0.0] * _SAMPLES
        self._loop: asyncio.AbstractEventLoop | None = None
        self._handle: asyncio.TimerHandle | None = None
        self._next = 0.0

    def rejects(self) -> bool:
        """Return whether a new call must be rejected; count it if so.

        It need not be asked while there are fewer calls than `max_running`, and no pressure.
        """
        running = self.running - self.unverified()
        if running < self.max_running and not (
            self.pressure and running >= self.min_running and random.random() < self.pressure  # noqa: S311
        ):
            return False
        self.rejected += 1
        return True

    def start(self) -> None:
        """Start to measure the lag of the running loop."""
        self._loop = asyncio.get_running_loop()
        self._watch()

    def stop(self) -> None:
        """Stop the measurement."""
        if self._handle is not None:
            self._handle.cancel()
        self.pressure = 0.0

    def record_lag(self, late: float) -> None:
        """Record the lag of a timer (`late`, in seconds), and adapt the pressure."""
        self._late = [*self._late[1:], late]
        if min(self._late) > self._max_lag:
            if not self.pressure and self.running >= self.min_running:
                log.warning("calls are being rejected: the event loop is late", seconds=round(late, 3))
            self.pressure = min(self.pressure + _RISE * (1 - self.pressure), _MAX_PRESSURE)
        elif self.pressure:
            self.pressure = max(self.pressure - _FALL, 0.0)

    def _watch(self) -> None:
        loop = self._loop
        if loop is None:
            return
        now = loop.time()
        if self._next:
            self.record_lag(now - self._next)
        self._next = now + _SAMPLE_SECONDS
        self._handle = loop.call_at(self._next, self._watch)
