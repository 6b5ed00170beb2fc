"""The marker `process`: a test that starts a program carries it, and runs after the others.

It is found by what the code of a test and of its fixtures refers to: the modules `subprocess` and `multiprocessing`, and the functions and
classes of the tests that lead there. Where only the application starts a program, the test is marked by hand.
"""

import inspect
import multiprocessing
import subprocess
from collections.abc import Generator, Iterator
from functools import cache
from types import CodeType, FunctionType
from typing import Any

import pytest

from app.core.processes import run_child_process

_STARTS = (subprocess, multiprocessing, run_child_process)
_STARTING_NAMES = {"create_subprocess_exec", "create_subprocess_shell"}


@pytest.hookimpl(wrapper=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> Generator[None, None, None]:
    """Mark the tests before others choose by markers, and order them after others have ordered them."""
    for item in items:
        if item.get_closest_marker("process") is None and any(map(starts_program, _list_functions(item))):
            item.add_marker("process")
    yield
    items.sort(key=lambda item: item.get_closest_marker("process") is not None)


def _list_functions(item: pytest.Item) -> Iterator[Any]:
    """Yield the functions that a test runs: its own, and those of its fixtures."""
    if isinstance(item, pytest.Function):
        yield item.function
        for definitions in item._fixtureinfo.name2fixturedefs.values():
            yield definitions[-1].func


@cache
def starts_program(function: Any) -> bool:
    """Return whether a function refers, in code of the tests, to what starts a program."""
    waiting: list[Any] = [getattr(function, "__func__", function)]
    seen: set[Any] = set()
    while waiting:
        value = waiting.pop()
        if any(value is start for start in _STARTS):
            return True
        if not isinstance(value, FunctionType | type) or value in seen or not _is_ours(value):
            continue
        seen.add(value)
        if isinstance(value, type):
            waiting += vars(value).values()
            continue
        # Of a context manager, the generator.
        value = inspect.unwrap(value)
        names = set(_list_names(value.__code__))
        if names & _STARTING_NAMES:
            return True
        waiting += [value.__globals__[name] for name in names & value.__globals__.keys()]
    return False


def _is_ours(value: FunctionType | type) -> bool:
    return (value.__module__ or "").startswith("tests.")


def _list_names(code: CodeType) -> Iterator[str]:
    """Yield the global names and attributes of a function and of those within it."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _list_names(constant)
