"""How many inputs a property test generates: few in each run, many with FUZZ_LONG=1 (`make fuzz`)."""

import os
from typing import Final

from hypothesis import settings

LONG: Final = bool(os.environ.get("FUZZ_LONG"))
_LONG_FACTOR = 50


def examples(number: int) -> settings:
    """Return the settings of a test with `number` generated inputs; with FUZZ_LONG=1 it has 50 times as many.

    The limits of a single input are those of the profile in `tests/conftest.py`.
    """
    return settings(max_examples=number * (_LONG_FACTOR if LONG else 1))
