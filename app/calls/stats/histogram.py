"""The histogram of durations: its bins are fixed, so that counts of any minutes and tools can be added.

Bin 0 is up to 0.1 ms; each further bin ends at 2^(1/4) = 1.19 times the end of the one before it. With the
calls of a bin, the sum and the maximum of their durations are stored. A percentile is the maximum of the bin
that contains the value of its rank, where the rank is that of the bin's last call, else the mean of its other
calls: so it is exact where these are one or two calls, and otherwise differs from the value by less than
19 %, between 0.1 ms and a day.
"""

from typing import Final

UNTIMED: Final = -1
"""The bin of calls whose duration is not known: their end was never recorded."""
FIRST_BIN_MS: Final = 0.1
BINS_PER_DOUBLING: Final = 4
LAST_BIN: Final = 120
RELATIVE_ERROR: Final = 2 ** (1 / BINS_PER_DOUBLING) - 1
"""The maximum relative error of a percentile: 0.189."""

BIN_SQL: Final = (
    f"CASE WHEN {{ms}} <= {FIRST_BIN_MS} THEN 0 ELSE least({LAST_BIN},"
    f" ceil(ln({{ms}} / {FIRST_BIN_MS}) * {BINS_PER_DOUBLING} / ln(2.0::float8))) END"
)
"""The bin of a duration `{ms}` in milliseconds (double precision), as an SQL expression."""

PERCENTILE_SQL: Final = (
    "round(min(CASE WHEN ceil({share} * timed) >= reached THEN longest"
    " ELSE (duration_ms - longest) / nullif(calls - 1, 0) END)"
    f" FILTER (WHERE bin > {UNTIMED} AND reached >= {{share}} * timed)::numeric, 3)::float8"
)
"""The value of the rank `{share}` (from 0 to 1) of all timed calls, in milliseconds, as an SQL aggregate over
rows of bins: `bin`, `calls`, the sum `duration_ms` and the maximum `longest` of their durations, `timed` (the
calls of all bins with a known duration), and `reached` (those of this bin and those before it).
"""
