"""The time limits of a test, so that no run hangs, and what becomes of a run whose worker dies.

A coroutine test has a limit by its class: unit 10 s, application 30 s, process 120 s. When it has passed, the coroutine is cancelled and the
test fails with the stacks of all asyncio tasks. So do coroutine fixtures; those of a wider scope than a function have the longest limit.
`@pytest.mark.time_limit(SECONDS)` is another limit for one test.

The watchdog stands behind, at twice the limit or a little later, for what does not end by a cancellation: faulthandler prints the stacks of all threads and exits,
even where the interpreter's lock is never released. It watches tests, never a worker that waits for one.

A worker of xdist that dies ends the run at once, with the name of its test.
"""

import asyncio
import faulthandler
import gc
import inspect
import os
import threading
import time
from collections.abc import Coroutine, Generator, Iterator
from contextvars import Context
from types import AsyncGeneratorType
from typing import Any, NoReturn, TypeVar

import pytest

UNIT_SECONDS = 10.0
APPLICATION_SECONDS = 30.0
PROCESS_SECONDS = 120.0
WATCHDOG_FACTOR = 2
# How much later the watchdog may exit, at most its limit: to set it starts a thread, so that it is set once for many tests.
_SLACK_SECONDS = 15.0
# A worker without a test for this long waits for the others.
_IDLE_SECONDS = 1.0
_LEAD_SECONDS = 5.0
_EXIT_SECONDS = 60.0
_CLASSES = {
    "unit": UNIT_SECONDS,
    "integration": UNIT_SECONDS,
    "api": APPLICATION_SECONDS,
    "protocols": APPLICATION_SECONDS,
}

_Result = TypeVar("_Result")


def task_stacks() -> str:
    """Return the unfinished tasks of every event loop in this process, each with the lines at which it waits."""
    # By their type alone: the objects of some libraries run code when they are asked for their class.
    tasks = [one for one in gc.get_objects() if issubclass(type(one), asyncio.Task) and not one.done()]
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
            # What `anext` returns names no frame, but refers to its generator.
            generators = [one for one in gc.get_referents(awaited) if isinstance(one, AsyncGeneratorType)]
            if not generators:
                yield f"    {awaited!r}\n"
                return
            awaited = generators[0]


class _Watchdog:
    """Exits, with the stacks of all threads, where a test takes too long, even while the interpreter's lock is never released.

    A thread prints the stacks of all asyncio tasks a little before, and ends the watch where no test follows.
    """

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._due: float | None = None
        self._exit_at: float | None = None
        # When the last test ended, None while one runs.
        self._idle_since: float | None = None
        self._name = ""
        self._thread: threading.Thread | None = None
        self._lock = threading.Lock()

    def set(self, name: str, seconds: float) -> None:
        """Watch a part of a test that may take so long."""
        if self._thread is None:
            # Not before the first test, so that a process that only distributes tests has no such thread.
            self._thread = threading.Thread(target=self._run, name="time limit", daemon=True)
            self._thread.start()
        now = time.monotonic()
        slack = min(_SLACK_SECONDS, seconds / 2)
        with self._lock:
            self._idle_since = None
            self._name, self._due = name, now + max(seconds - _LEAD_SECONDS, seconds / 2)
            if self._exit_at is None or not now + seconds <= self._exit_at <= now + seconds + slack:
                self._exit_at = now + seconds + slack
                faulthandler.dump_traceback_later(seconds + slack, exit=True, file=self._descriptor)

    def clear(self) -> None:
        """End the watch of a test; the next one probably follows at once."""
        self._due, self._idle_since = None, time.monotonic()

    def forget(self) -> None:
        """Begin anew with the next part: pytest has cancelled what is set."""
        with self._lock:
            self._exit_at = None

    def limit_exit(self, seconds: float) -> None:
        """Watch the end of the process instead of tests; with 0, nothing."""
        with self._lock:
            self._exit_at = None
            if seconds:
                faulthandler.dump_traceback_later(seconds, exit=True, file=self._descriptor)
            else:
                faulthandler.cancel_dump_traceback_later()

    def _run(self) -> None:
        while True:
            time.sleep(0.25)
            now = time.monotonic()
            with self._lock:
                due, idle_since = self._due, self._idle_since
                if self._exit_at is not None and idle_since is not None and now > idle_since + _IDLE_SECONDS:
                    faulthandler.cancel_dump_traceback_later()
                    self._exit_at = None
            if due is not None and now > due:
                self._due = None
                text = f"\n{self._name} takes too long; asyncio tasks:\n{task_stacks()}\n"
                os.write(self._descriptor, text.encode("utf-8", "backslashreplace"))


class TimeLimits:
    """The limits of the tests of this process. `watchdog_seconds` (pyproject.toml) is the longest of the watchdog; with 0 there are none."""

    def __init__(self, config: pytest.Config) -> None:
        self._longest = float(config.getini("watchdog_seconds") or 0.0) / WATCHDOG_FACTOR
        self._tests = config.rootpath / "tests"
        self._is_worker = hasattr(config, "workerinput")
        # Output is captured only later.
        self._descriptor = os.dup(2)
        self._watchdog = _Watchdog(self._descriptor)
        self._name = ""
        self._seconds = 0.0
        self._due: float | None = None

    def _get_seconds(self, item: pytest.Item) -> float:
        """Return the limit of a test: its marker's, else that of its class; other suites have what the watchdog leaves."""
        marker = item.get_closest_marker("time_limit")
        if marker is not None:
            return float(marker.args[0])
        is_coroutine = inspect.iscoroutinefunction(getattr(item, "obj", None))
        if item.get_closest_marker("process") is not None or not is_coroutine:
            # What is no coroutine is ended by the watchdog alone, and its worker with it.
            return min(PROCESS_SECONDS, self._longest)
        parts = item.path.relative_to(self._tests).parts if item.path.is_relative_to(self._tests) else ("",)
        return min(_CLASSES.get(parts[0], self._longest), self._longest)

    def _begin(self, seconds: float) -> None:
        """Begin to measure a part of the test."""
        self._seconds = seconds
        if not self._longest or not seconds:
            return
        self._due = time.monotonic() + seconds
        self._watchdog.set(self._name, WATCHDOG_FACTOR * seconds)

    def _end(self) -> None:
        self._due = None
        self._watchdog.clear()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        self._name = item.nodeid
        self._begin(self._get_seconds(item))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_call(self, item: pytest.Item) -> None:
        self._begin(self._get_seconds(item))

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_teardown(self, item: pytest.Item, nextitem: pytest.Item | None) -> None:
        seconds = self._get_seconds(item)
        if nextitem is None or nextitem.path != item.path:
            # Fixtures of the module or of the session end here, too.
            seconds = max(seconds, min(PROCESS_SECONDS, self._longest))
        self._begin(seconds)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Iterator[None]:
        try:
            return (yield)
        finally:
            self._end()

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, object, object]:
        if fixturedef.scope == "function":
            result = yield
        else:
            seconds = self._seconds
            self._begin(max(seconds, min(PROCESS_SECONDS, self._longest)))
            try:
                result = yield
            finally:
                self._begin(seconds)
        if isinstance(result, asyncio.Runner):
            self._limit_runner(result)
        return result

    @pytest.hookimpl(trylast=True)
    def pytest_exception_interact(self) -> None:
        # pytest's own plugin cancels the watchdog where a test has failed.
        self._watchdog.forget()

    @pytest.hookimpl
    def pytest_enter_pdb(self) -> None:
        self._end()
        self._watchdog.limit_exit(0)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """Limit the end of the run: that of the workers, and the summary.

        A worker has no such limit. It waits there until all others have finished, and is ended by the process that distributes the tests.
        """
        self._limit_exit(_EXIT_SECONDS)

    @pytest.hookimpl
    def pytest_unconfigure(self) -> None:
        """Limit the exit: threads may still block it."""
        self._limit_exit(min(WATCHDOG_FACTOR * self._longest, _EXIT_SECONDS))

    def _limit_exit(self, seconds: float) -> None:
        if self._longest and not self._is_worker:
            self._watchdog.limit_exit(seconds)

    def _limit_runner(self, runner: asyncio.Runner) -> None:
        """Limit all that pytest-asyncio runs by this runner: coroutine tests, and both ends of coroutine fixtures."""
        run = runner.run

        def run_limited(
            coroutine: Coroutine[Any, Any, _Result], *, context: Context | None = None
        ) -> _Result:
            return run(self._limited(coroutine), context=context)

        runner.run = run_limited  # type: ignore[method-assign,assignment]

    async def _limited(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        if self._due is None:
            return await coroutine
        loop = asyncio.get_running_loop()
        stacks = ""

        def expire() -> None:
            nonlocal stacks
            if self._due is not None:
                # Before the cancellation unwinds them.
                stacks = task_stacks()
                limit.reschedule(loop.time())

        try:
            async with asyncio.timeout(None) as limit:
                timer = loop.call_later(self._due - time.monotonic(), expire)
                try:
                    result = await coroutine
                finally:
                    timer.cancel()
        except BaseException as error:
            if not stacks:
                raise
            self._fail(stacks, error)
        if stacks:
            self._fail(stacks)
        return result

    def _fail(self, stacks: str, error: BaseException | None = None) -> NoReturn:
        ended = "" if error is None or isinstance(error, TimeoutError) else f"\nIt ended with {error!r}."
        pytest.fail(
            f"{self._name} takes longer than {self._seconds:g} s; asyncio tasks:\n{stacks}{ended}",
            pytrace=False,
        )


class DeadWorkers:
    """Ends the run where a worker of xdist dies: the others would run on for minutes, and a new one may get nothing to do."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config
        self._is_dead = False

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, error: object) -> None:
        self._is_dead = self._is_dead or error is not None

    @pytest.hookimpl(trylast=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        # xdist's report of the test in which a worker died.
        when: str = report.when
        if when == "???":
            # `--last-failed` would run only this test, as though the others had passed.
            self._config.pluginmanager.unregister(name="lfplugin")
            pytest.exit(f"{report.longrepr}; other tests did not run", returncode=1)

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if self._is_dead and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_addoption(parser: pytest.Parser) -> None:
    # Not pytest's own faulthandler_timeout, which starts a thread for each test.
    parser.addini("watchdog_seconds", "the longest limit of the watchdog of a test", default="0")


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(TimeLimits(config))
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(DeadWorkers(config))
