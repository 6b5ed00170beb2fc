"""The layout of tables on a terminal: which columns it has room for, how wide they are, and short times."""

import re
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Final

#: Columns between two columns of a table.
GAP: Final = 2
#: A column is left out rather than made narrower than this: the second and the third of importance, others.
_NEXT, _NARROW = 24, 12
#: So much of the terminal the most important column may take for its longest value.
_FIRST: Final = 0.6
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")


def choose_column_widths(
    widths: Sequence[int], importance: Sequence[int], available: int, *, uncut: Collection[int] = ()
) -> Mapping[int, int]:
    """Return the width of each column to show, by its index, so that all fit into `available` characters.

    `widths` are those of the longest values, and `importance` the indices with the most important first:
    the last of these are left out where there is no room for them, and the first gets what room there is.
    `uncut` have their whole width or none.
    """
    first = importance[0]
    least = {
        index: widths[index] if index in uncut else min(widths[index], _NEXT if rank < 3 else _NARROW)
        for rank, index in enumerate(importance)
    }
    least[first] = min(widths[first], max(_NARROW, int(available * _FIRST)))
    shown = list(importance)
    while len(shown) > 1 and _add_widths(shown, least) > available:
        shown.pop()
    left = available - _add_widths(shown, least)
    widths_by_column: dict[int, int] = {}
    for index in shown:
        more = min(widths[index] - least[index], max(left, 0))
        widths_by_column[index] = least[index] + more
        left -= more
    return dict(sorted(widths_by_column.items()))


def shorten_time(text: str, now: datetime) -> str:
    """Return a time of RFC 3339 as a local one, as short as it is clear: of today without its date, of this
    year without that. `now` has an offset, which is that of the result. Other text is returned unchanged.
    """
    if not _TIME.fullmatch(text):
        return text
    try:
        local = datetime.fromisoformat(text).astimezone(now.tzinfo)
    except (ValueError, OverflowError):
        return text
    if local.date() == now.date():
        return f"{local:%H:%M:%S}"
    return f"{local:%d %b %H:%M}" if local.year == now.year else f"{local:%Y-%m-%d}"


def _add_widths(shown: Sequence[int], widths: Mapping[int, int]) -> int:
    return sum(widths[index] for index in shown) + GAP * (len(shown) - 1)
