"""How many inputs a property test generates: few in each run, many with FUZZ_LONG=1 (`make fuzz`)."""

import os
from typing import Final

from hypothesis import HealthCheck, settings

LONG: Final = bool(os.environ.get("FUZZ_LONG"))
_LONG_FACTOR = 50


def examples(number: int) -> settings:
    """Return the settings of a test with `number` generated inputs; with FUZZ_LONG=1 it has 50 times as many.

    A single input has no time limit, because the machine may be busy.
    """
    return settings(
        max_examples=number * (_LONG_FACTOR if LONG else 1),
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow],
    )
