"""The threads that work for an event loop, and the end of a process in which some of them still run.

A thread cannot be cancelled. Without this, both the event loop and the interpreter would wait at their end
until it is done, however long after the shutdown timeout that is.
"""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Final

EXIT_SECONDS: Final = 3.0
"""How long the interpreter may take for its own end, before the process ends without it."""


class WorkThreads(ThreadPoolExecutor):
    """The default executor of an event loop, which does not wait for its threads at the end."""

    def __init__(self) -> None:
        super().__init__(thread_name_prefix="work")

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:  # noqa: ARG002
        """Drop the work that has not begun, and leave the rest alone: whoever needed it was cancelled."""
        super().shutdown(wait=False, cancel_futures=True)


def end_within(seconds: float, code: int) -> None:
    """End the process with this exit code in so many seconds, unless the interpreter ends before."""
    timer = threading.Timer(seconds, os._exit, (code,))
    timer.daemon = True
    timer.start()
