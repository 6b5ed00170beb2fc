"""The heartbeat of a worker: how late its event loop is, and its figures published for the other workers."""

import asyncio
import time

import structlog

from app.telemetry.metrics import Metrics

_BEAT_SECONDS = 0.1
_PUBLISH_SECONDS = 0.5
# Ten thousand series take some milliseconds: then rarer, so that it stays below 2 % of a processor.
_INTERVAL_PER_COST = 50

_log = structlog.get_logger(__name__)


class Pulse:
    """Beats in the running loop from `start` to `aclose`; a beat costs some 10 us."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._publish_at = 0.0
        self._is_failing = False

    def start(self) -> None:
        """Take the worker's place among the others, and begins."""
        self._metrics.start()
        self._next(asyncio.get_running_loop())

    def aclose(self) -> None:
        """Ends, and publishes the last figures."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None
        self._metrics.aclose()

    def _next(self, loop: asyncio.AbstractEventLoop) -> None:
        self._due = loop.time() + _BEAT_SECONDS
        self._handle = loop.call_at(self._due, self._beat, loop)

    def _beat(self, loop: asyncio.AbstractEventLoop) -> None:
        now = loop.time()
        # uvloop rounds to milliseconds, and may be early.
        self._metrics.observe_lag(max(0.0, now - self._due))
        if now >= self._publish_at:
            self._publish(now)
        self._next(loop)

    def _publish(self, now: float) -> None:
        began = time.perf_counter()
        try:
            self._metrics.publish()
        except OSError as error:
            if not self._is_failing:
                _log.warning("the figures of this worker cannot be published", reason=error.strerror)
            self._is_failing = True
        else:
            self._is_failing = False
        self._publish_at = (
            now + max(_PUBLISH_SECONDS, _INTERVAL_PER_COST * (time.perf_counter() - began)) - 0.01
        )
