"""The time limit of a test: when it has passed, all stacks are printed and the process exits, so that no run hangs.

pytest's own `faulthandler_timeout` (pyproject.toml) prints the stacks of all threads and exits, even where the
interpreter's lock is never released; xdist then reports the test as failed and starts another worker. This
module adds: the stacks of asyncio tasks, which are on no thread; `@pytest.mark.time_limit(SECONDS)`, for tests
that may take longer; and a limit for the time after the last test.
"""

import asyncio
import faulthandler
import gc
import os
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

_LEAD_SECONDS = 5.0
_EXIT_SECONDS = 120.0


class _Watch:
    """A thread that prints the stacks of all asyncio tasks once, a little before the limit."""

    def __init__(self, descriptor: int) -> None:
        self.descriptor = descriptor
        self._due: float | None = None
        self._name = ""
        self._thread: threading.Thread | None = None

    def set(self, name: str, seconds: float) -> None:
        if self._thread is None:
            # Not before the first test, so that a process that only distributes tests has no such thread.
            self._thread = threading.Thread(target=self._run, name="time limit", daemon=True)
            self._thread.start()
        self._name, self._due = name, time.monotonic() + max(seconds - _LEAD_SECONDS, seconds / 2)

    def clear(self) -> None:
        self._due = None

    def _run(self) -> None:
        while True:
            time.sleep(0.25)
            due = self._due
            if due is not None and time.monotonic() > due:
                self._due = None
                text = f"\n{self._name} takes too long; asyncio tasks:\n{task_stacks()}\n"
                os.write(self.descriptor, text.encode("utf-8", "backslashreplace"))


_WATCH: pytest.StashKey[_Watch] = pytest.StashKey()


def task_stacks() -> str:
    """Return the unfinished tasks of every event loop in this process, each with the lines at which it waits."""
    tasks = [one for one in gc.get_objects() if isinstance(one, asyncio.Task) and not one.done()]
    return "\n".join(f"  {task.get_name()}\n" + "".join(_frames(task.get_coro())) for task in tasks)


def _frames(awaited: Any) -> Iterator[str]:
    """Yield the frames from the task's own coroutine down to what it awaits."""
    while awaited is not None:
        for prefix, waits in (("cr", "await"), ("gi", "yieldfrom"), ("ag", "await")):
            frame = getattr(awaited, f"{prefix}_frame", None)
            if frame is not None:
                code = frame.f_code
                yield f"    {code.co_filename}:{frame.f_lineno} in {code.co_qualname}\n"
                awaited = getattr(awaited, f"{prefix}_{waits}")
                break
        else:
            yield f"    {awaited!r}\n"
            return


def pytest_configure(config: pytest.Config) -> None:
    # Output is captured only later.
    config.stash[_WATCH] = _Watch(os.dup(2))


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    watch = item.config.stash[_WATCH]
    seconds = float(item.config.getini("faulthandler_timeout") or 0.0)
    marker = item.get_closest_marker("time_limit")
    if seconds > 0 and marker is not None:
        (seconds,) = marker.args
        # In place of pytest's, which is cancelled with it.
        faulthandler.dump_traceback_later(seconds, exit=True, file=watch.descriptor)
    if seconds > 0:
        watch.set(item.nodeid, seconds)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    try:
        return (yield)
    finally:
        item.config.stash[_WATCH].clear()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """Limit the exit, too: threads, children and workers may still block it after the fixtures are closed."""
    seconds = min(float(session.config.getini("faulthandler_timeout") or 0.0), _EXIT_SECONDS)
    if seconds > 0:
        faulthandler.dump_traceback_later(seconds, exit=True, file=session.config.stash[_WATCH].descriptor)
