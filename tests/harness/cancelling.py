"""Ending tasks by one cancellation, at any moment: also at that at which what they wait for is done."""

import asyncio
import random
import time
from collections.abc import Coroutine
from types import CellType, CoroutineType, FunctionType
from typing import Any

_WAITS = {asyncio.Event.wait.__code__: "fut", asyncio.sleep.__code__: "future"}
"""The coroutines of asyncio that wait for a future of their own, and the name of the variable with it."""
_STUCK_SECONDS = 8.0


def find_coroutine(task: "asyncio.Task[Any]", name: str) -> "CoroutineType[Any, Any, Any] | None":
    """Return the coroutine of this qualified name that a task awaits, however deep."""
    coroutine: Any = task.get_coro()
    while isinstance(coroutine, CoroutineType):
        if coroutine.__qualname__ == name:
            return coroutine
        coroutine = coroutine.cr_await
    return None


def begin_again(coroutine: "CoroutineType[Any, Any, Any]") -> Coroutine[Any, Any, Any]:
    """Return an unfinished coroutine anew, with the arguments that it has."""
    frame, code = coroutine.cr_frame, coroutine.cr_code
    assert frame is not None, "it has ended"
    cells = tuple(CellType(frame.f_locals[name]) for name in code.co_freevars)
    function = FunctionType(code, frame.f_globals, closure=cells)
    positional = code.co_varnames[: code.co_argcount]
    named = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
    again: Coroutine[Any, Any, Any] = function(
        *(frame.f_locals[name] for name in positional), **{name: frame.f_locals[name] for name in named}
    )
    return again


async def end_by_one_cancellation(task: "asyncio.Task[Any]", number: int) -> float:
    """Cancel the task once, at a moment of the kind that `number` chooses; return the seconds until it has ended.

    Fail where it does not end, or by anything but the cancellation.
    """
    kind = number % 4
    if kind == 0:
        # While it begins.
        await _pass_iterations(random.randrange(20))
    elif kind == 1:
        await asyncio.sleep(random.random() * 0.005)
    else:
        # As it wakes up (2), or in the iterations after that (3).
        waits_for = await _wait_until_idle(task)
        if waits_for is not None:
            waits_for.set_result(True)
            await _pass_iterations((number // 4) % 2 if kind == 2 else random.randrange(2, 8))
    began = time.monotonic()
    task.cancel()
    ended, _ = await asyncio.wait({task}, timeout=_STUCK_SECONDS)
    seconds = time.monotonic() - began
    while not task.done():
        task.cancel()
        await asyncio.wait({task}, timeout=1)
    assert ended, "it lost its cancellation"
    assert task.cancelled(), f"it ended with {task.exception()!r}"
    return seconds


async def _pass_iterations(number: int) -> None:
    for _ in range(number):
        await asyncio.sleep(0)


async def _wait_until_idle(task: "asyncio.Task[Any]") -> "asyncio.Future[Any] | None":
    """Return what the task waits for once that is an event or a pause; None if it has not come to that in a short time."""
    for round_number in range(40):
        waits_for = _find_wait(task)
        if waits_for is not None and not waits_for.done():
            return waits_for
        await asyncio.sleep(0 if round_number < 20 else 0.001)
    return None


def _find_wait(task: "asyncio.Task[Any]") -> "asyncio.Future[Any] | None":
    coroutine: Any = task.get_coro()
    while isinstance(coroutine, CoroutineType) and (frame := coroutine.cr_frame) is not None:
        if isinstance(coroutine.cr_await, CoroutineType):
            coroutine = coroutine.cr_await
            continue
        variables = frame.f_locals
        if coroutine.cr_code in _WAITS:
            future = variables.get(_WAITS[coroutine.cr_code])
            return future if isinstance(future, asyncio.Future) else None
        # Some wait for another task, as `asyncio.wait_for` of Python 3.11 does.
        inner = next((value for value in variables.values() if isinstance(value, asyncio.Task)), None)
        coroutine = None if inner is None else inner.get_coro()
    return None
