"""Progress that a running function reports to who has called it."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a call is: `progress` grows from report to report, up to `total` where that is known."""

    progress: float
    total: float | None = None
    message: str | None = None


ProgressListener = Callable[[Progress], None]

_listener: ContextVar[ProgressListener | None] = ContextVar("utcp_gateway_client_progress", default=None)


def report_progress(progress: float, total: float | None = None, message: str | None = None) -> None:
    """Report how far the running call is. Does nothing where nobody listens.

    Functions call it in any thread or task that was started with the context of the call, as
    `asyncio.to_thread` and `asyncio.create_task` do.
    """
    listener = _listener.get()
    if listener is not None:
        listener(Progress(progress, total, message))


@contextmanager
def progress_to(listener: ProgressListener) -> Iterator[None]:
    """Give `listener` the progress that is reported within; it may be called in other threads."""
    token = _listener.set(listener)
    try:
        yield
    finally:
        _listener.reset(token)
