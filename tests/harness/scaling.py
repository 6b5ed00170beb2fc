"""Whether work grows linearly with its input: by the ratio of CPU times of two sizes, not by a number of seconds."""

import time
from collections.abc import Callable

_TRIES = 3
_FLOOR_SECONDS = 0.01
"""Shorter times cannot be distinguished from noise: to allocate 3 MB takes 9 ms on a busy machine."""


def assert_linear(work: Callable[[int], object], size: int, *, factor: int = 8) -> None:
    """Fail if `factor` times the size takes more than four times as much CPU time per unit of it.

    `work` is called with `size` and `factor * size`, several times each; the shortest counts, because other work on the
    machine can only make one longer. Quadratic work takes `factor` times as much per unit.
    """
    small, large = _shortest(work, size), _shortest(work, factor * size)
    assert large <= 4 * factor * max(small, _FLOOR_SECONDS / factor), (small, large)


def _shortest(work: Callable[[int], object], size: int) -> float:
    seconds = []
    for _ in range(_TRIES):
        began = time.thread_time()
        work(size)
        seconds.append(time.thread_time() - began)
    return min(seconds)
