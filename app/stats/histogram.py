"""The histogram of durations: its bins are fixed, so that counts of any minutes and tools can be added.

Bin 0 is up to 0.1 ms; each further bin ends at 2^(1/4) = 1.19 times the end of the one before it. A
percentile is reported as the geometric middle of the bin that contains the value of its rank, so that it
differs from that value by less than 9.1 % (and by at most 0.5 % more, from rounding), between 0.1 ms and a
day.
"""

from typing import Final

UNTIMED: Final = -1
"""The bin of calls whose duration is not known: their end was never recorded."""
FIRST_BIN_MS: Final = 0.1
BINS_PER_DOUBLING: Final = 4
LAST_BIN: Final = 120
RELATIVE_ERROR: Final = 2 ** (1 / (2 * BINS_PER_DOUBLING)) - 1
"""The maximum relative error of a percentile: 0.091."""

BIN_SQL: Final = (
    f"CASE WHEN {{ms}} <= {FIRST_BIN_MS} THEN 0 ELSE least({LAST_BIN},"
    f" ceil(ln({{ms}} / {FIRST_BIN_MS}) * {BINS_PER_DOUBLING} / ln(2.0::float8))) END"
)
"""The bin of a duration `{ms}` in milliseconds (double precision), as an SQL expression."""


def bin_middle_ms(number: int) -> float:
    """Return the duration in milliseconds that stands for a bin, rounded to three significant digits."""
    if number <= 0:
        return FIRST_BIN_MS
    middle = FIRST_BIN_MS * 2.0 ** ((number - 0.5) / BINS_PER_DOUBLING)
    return float(f"{middle:.3g}")
