"""The notifications of progress that wait to be sent: rising values, at a bounded rate."""

import math
from collections import deque
from typing import Any, Final

MAX_BURST: Final = 20
"""So many notifications may be sent at once."""
INTERVAL: Final = 0.1
"""Seconds between two notifications after that; of the reports that come meanwhile, the last one is sent."""
_MAX_MESSAGE: Final = 500
_SMALL_STEP: Final = 1e-6


class ProgressQueue:
    """Reports of the progress of one call.

    MCP requires that the value rises with each notification: a report whose value does not is dropped. A
    report that is not the upstream's own (`describe_still_running`) raises the value by as little as can be.
    """

    __slots__ = ("_has_held", "_last_reported", "_last_sent", "_next", "_waiting")

    def __init__(self) -> None:
        self._waiting: deque[tuple[float, dict[str, Any]]] = deque()
        self._has_held = False
        self._next = 0.0
        self._last_reported = -math.inf
        self._last_sent = -math.inf

    def __len__(self) -> int:
        return len(self._waiting)

    def add(self, progress: float, total: float | None, message: str | None, *, now: float) -> None:
        """Add a report, unless its value does not rise; `now` is a `loop.time()`."""
        if not math.isfinite(progress) or progress <= self._last_reported:
            return
        self._last_reported = progress
        report: dict[str, Any] = {"progress": progress}
        if total is not None and math.isfinite(total):
            report["total"] = total
        if message is not None:
            # A lone surrogate cannot be sent.
            report["message"] = message[:_MAX_MESSAGE].encode("utf-8", "replace").decode()
        if self._waiting and (self._has_held or len(self._waiting) > MAX_BURST):
            due, _ = self._waiting.pop()
            self._waiting.append((due, report))
            return
        self._next = max(self._next, now - (MAX_BURST - 1) * INTERVAL)
        self._has_held = self._next > now
        self._waiting.append((self._next, report))
        self._next += INTERVAL

    def seconds(self, now: float) -> float:
        """Return the seconds until the first report may be sent; there must be one."""
        return max(0.0, self._waiting[0][0] - now)

    def take(self) -> dict[str, Any]:
        """Remove the first report, and return it as the parameters of its notification."""
        _, report = self._waiting.popleft()
        if not self._waiting:
            self._has_held = False
        self._last_sent = max(report["progress"], math.nextafter(self._last_sent, math.inf))
        return {**report, "progress": self._last_sent}

    def describe_still_running(self) -> dict[str, Any]:
        """Return the parameters of a notification that says only that the call is still running."""
        last = max(self._last_sent, 0.0)
        self._last_sent = max(last + _SMALL_STEP, math.nextafter(last, math.inf))
        return {"progress": self._last_sent, "message": "The call is still running."}
