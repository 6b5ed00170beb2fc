"""Which calls a page shows: filters and a period, in its URL.

The parameters are those of `GET /calls`, and `period` (1h, 24h, 7d, 30d) in place of `since` and `until`. The
period ends now; `at` says when that was, in the links to further pages of a list, whose cursor is valid for
one beginning of the period only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta
from typing import Any, Final, Literal

from starlette.datastructures import QueryParams

from app.api.calls.schemas import CallSelection as RequestedCalls
from app.api.stats.schemas import StatsQuery

FILTERS: Final = tuple(RequestedCalls.model_fields)
"""The filters that a list, a stream and an export of calls have."""
STATISTICS_FILTERS: Final = tuple(name for name in FILTERS if name in StatsQuery.model_fields)
"""Those of them that the statistics have, too."""
DEFAULT_PERIOD: Final = "24h"
CUSTOM: Final = "custom"
"""The period of a URL with `since` or `until`."""

Interval = Literal["minute", "hour", "day"]

STEPS: Final[Mapping[Interval, timedelta]] = {
    "minute": timedelta(minutes=1),
    "hour": timedelta(hours=1),
    "day": timedelta(days=1),
}
_LENGTHS: Final[Mapping[str, tuple[timedelta, Interval]]] = {
    "1h": (timedelta(hours=1), "minute"),
    "24h": (timedelta(hours=24), "hour"),
    "7d": (timedelta(days=7), "hour"),
    "30d": (timedelta(days=30), "day"),
}
_MINUTES_UP_TO: Final = timedelta(hours=3)
_HOURS_UP_TO: Final = timedelta(days=8)


@dataclass(frozen=True, slots=True)
class CallSelection:
    """Filters, and the period as `since` and `until` of the API: RFC 3339, or text that the API rejects.

    `interval` is that of a chart of the period. `until` is empty where the period ends now, at `moment`.
    """

    filters: Mapping[str, str]
    period: str
    since: str
    until: str
    interval: Interval
    moment: datetime

    def query(self, **more: Any) -> dict[str, Any]:
        """Return the parameters of `GET /calls`, with further ones."""
        return {**self.filters, "since": self.since, "until": self.until, **more}

    def statistics_query(self, **more: Any) -> dict[str, Any]:
        """Return the parameters of `GET /stats`, with further ones; it has not all filters."""
        known = {name: value for name, value in self.filters.items() if name in STATISTICS_FILTERS}
        return {**known, "interval": self.interval, "since": self.since, "until": self.until, **more}

    @property
    def other_filters(self) -> list[str]:
        """The names of the filters that the statistics do not have."""
        return [name for name in self.filters if name not in STATISTICS_FILTERS]


def read_selection(query: QueryParams, now: datetime | None = None) -> CallSelection:
    """Return the selection of a URL; unknown periods are the default one.

    A period of a list is whole intervals, of which the last one is that of now: so its list, its statistics
    and its charts agree.
    """
    moment = _read_time(query.get("at", "")) or now or datetime.now(UTC)
    filters = {name: query[name] for name in FILTERS if query.get(name)}
    since, until = query.get("since", ""), query.get("until", "")
    if since or until:
        begin, end = _read_time(since), _read_time(until) if until else moment
        interval: Interval = "hour" if begin is None or end is None else _choose_interval(end - begin)
        if not since and end is not None:
            begin, interval = end - _LENGTHS[DEFAULT_PERIOD][0], "hour"
        return CallSelection(
            filters,
            CUSTOM,
            since if begin is None else _write_time(begin),
            until if end is None or not until else _write_time(end),
            interval,
            moment,
        )
    period = query.get("period", "")
    if period not in _LENGTHS:
        period = DEFAULT_PERIOD
    length, interval = _LENGTHS[period]
    return CallSelection(
        filters, period, _write_time(whole_intervals(moment, length, interval)), "", interval, moment
    )


def whole_intervals(moment: datetime, length: timedelta, interval: Interval) -> datetime:
    """Return when a period of whole intervals begins whose last one contains `moment` (UTC)."""
    step = STEPS[interval]
    epoch = datetime(2000, 1, 1, tzinfo=UTC)
    return epoch + ((moment - epoch) // step + 1) * step - length


def _choose_interval(length: timedelta) -> Interval:
    if length <= _MINUTES_UP_TO:
        return "minute"
    return "hour" if length <= _HOURS_UP_TO else "day"


def _read_time(text: str) -> datetime | None:
    """Return a time in UTC; without an offset, it is one of UTC. None for other text."""
    try:
        moment = datetime.fromisoformat(text)
        moment = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
    # Periods begin and end up to 30 days beside it.
    return moment if MINYEAR < moment.year < MAXYEAR else None


def _write_time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
