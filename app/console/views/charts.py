"""Charts as SVG, laid out on the server: bars of counts, lines of durations, and sparklines for tables.

A chart is a value with every position and text; `templates/charts.html` writes it, with its values as a
table. Positions are units of a view box, so that a chart has the width of its place. Numbers that cannot be
drawn (missing, negative, not finite, not numbers) are gaps.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar, Final

WIDTH: Final = 480
HEIGHT: Final = 190
LEFT: Final = 62
"""Where the plot begins: the labels of the vertical axis are on the left of it."""
RIGHT: Final = WIDTH - 10
TOP: Final = 10
BOTTOM: Final = HEIGHT - 26
"""Where the plot ends: the labels of the horizontal axis are below it."""
SPARK_WIDTH: Final = 80
SPARK_HEIGHT: Final = 20

_MAX_INTERVALS: Final = 20_000
_TICKS: Final = 4
_TIME_TICKS: Final = 6
# Of a label of the horizontal axis, in the largest text that a style sheet sets.
_HALF_LABEL: Final = 22
_MIN_BAR: Final = 1.0
_MIN_PART: Final = 1.5
# From this many bars on, single ones are too narrow to be pointed at.
_MAX_TARGETS: Final = 72
_DAY: Final = timedelta(days=1)
_STEPS: Final = tuple(
    timedelta(minutes=one) for one in (1, 2, 5, 10, 15, 30, 60, 120, 180, 360, 720)
) + tuple(timedelta(days=one) for one in (1, 2, 7, 14))
_MONTHS: Final = (1, 2, 3, 6, 12, 24, 60, 120, 240)
_MONDAY: Final = datetime(2024, 1, 1, tzinfo=UTC)
_LARGE: Final = ((1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k"))


@dataclass(frozen=True, slots=True)
class Period:
    """The intervals of a chart: those of the length `step` from `since` until `until`, both aware times.

    Raise ValueError for a step that is not positive, and for more than 20,000 intervals.
    """

    since: datetime
    until: datetime
    step: timedelta

    def __post_init__(self) -> None:
        if self.step <= timedelta() or not 0 <= (self.until - self.since) / self.step <= _MAX_INTERVALS:
            msg = f"A chart has from 0 to {_MAX_INTERVALS} intervals."
            raise ValueError(msg)

    @property
    def count(self) -> int:
        """The number of intervals, of which the last may be cut."""
        return math.ceil((self.until - self.since) / self.step)

    def index(self, moment: datetime) -> int | None:
        """Return the number of the interval that contains a time; None outside of the period."""
        return (moment - self.since) // self.step if self.since <= moment < self.until else None


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of an axis: its position along the axis, and its label."""

    position: float
    text: str


@dataclass(frozen=True, slots=True)
class ChartRow:
    """The values of one interval, None where one is missing; `x` and `width` are its place in the plot."""

    time: str
    values: tuple[float | int | None, ...]
    x: float
    width: float


@dataclass(frozen=True, slots=True)
class Chart:
    """A chart with two axes: `paths` are the data of SVG paths, one a series, in the order of the values.

    `rows` are the intervals that have a value. `has_targets` says that single intervals are wide enough to be
    pointed at.
    """

    width: ClassVar[int] = WIDTH
    height: ClassVar[int] = HEIGHT
    left: ClassVar[int] = LEFT
    right: ClassVar[int] = RIGHT
    top: ClassVar[int] = TOP
    bottom: ClassVar[int] = BOTTOM

    ticks: tuple[Tick, ...]
    times: tuple[Tick, ...]
    paths: tuple[str, ...]
    rows: tuple[ChartRow, ...]
    has_targets: bool

    @property
    def is_empty(self) -> bool:
        """Whether there is no value at all."""
        return not self.rows


@dataclass(frozen=True, slots=True)
class Sparkline:
    """A line without axes: `path` is the data of an SVG path, empty where there is no value."""

    path: str


def bar_chart(
    period: Period,
    points: Sequence[Mapping[str, Any]],
    *,
    whole: str = "calls",
    part: str = "errors",
    language: str = "en",
) -> Chart:
    """Return the chart of a count and of a part of it, which is at the top of each bar.

    `points` are those of a series of `GET /stats`, in any order: `at` is a time or RFC 3339 text. The first
    path is the rest of each bar, the second one the part. A part that is not 0 is always visible.
    """
    rows = _build_rows(period, points, (whole, part))
    ticks = nice_ticks(max((row.values[0] or 0 for row in rows), default=0), is_whole=True)
    rests, parts = [], []
    for row in rows:
        amount = row.values[0] or 0
        if not amount:
            continue
        height = max(_measure_height(amount, ticks), _MIN_BAR)
        share = min((row.values[1] or 0) / amount, 1)
        top = min(max(height * share, _MIN_PART), height) if share else 0.0
        gap = min(row.width / 5, 2)
        x, width = row.x + gap / 2, row.width - gap
        if height > top:
            rests.append(_draw_rectangle(x, BOTTOM - height + top, width, height - top))
        if top:
            parts.append(_draw_rectangle(x, BOTTOM - height, width, top))
    return Chart(
        ticks=_count_ticks(ticks, language),
        times=_build_time_ticks(period),
        paths=("".join(rests), "".join(parts)),
        rows=rows,
        has_targets=period.count <= _MAX_TARGETS,
    )


def line_chart(
    period: Period,
    points: Sequence[Mapping[str, Any]],
    *,
    lines: Sequence[str] = ("p50_ms", "p95_ms"),
    language: str = "en",
) -> Chart:
    """Return the chart of durations in milliseconds, a line each; `points` as of `bar_chart`.

    A line is interrupted where an interval has no value; a value between two such intervals is a dot.
    """
    rows = _build_rows(period, points, lines)
    ticks = nice_ticks(max((value for row in rows for value in row.values if value is not None), default=0))
    paths = []
    for number in range(len(lines)):
        points_by_interval: dict[int, tuple[float, float]] = {}
        for row in rows:
            value = row.values[number]
            if value is not None:
                slot = round((row.x - LEFT) / _measure_slot(period))
                points_by_interval[slot] = (row.x + row.width / 2, BOTTOM - _measure_height(value, ticks))
        paths.append(_draw_line(points_by_interval))
    return Chart(
        ticks=_write_duration_ticks(ticks, language),
        times=_build_time_ticks(period),
        paths=tuple(paths),
        rows=rows,
        has_targets=period.count <= _MAX_TARGETS,
    )


def sparkline(values: Sequence[Any]) -> Sparkline:
    """Return the line of values at equal distances, from 0 to the largest of them; None is a gap."""
    drawn = [_read_finite(value) for value in values]
    top = max((value for value in drawn if value is not None), default=0) or 1
    distance = (SPARK_WIDTH - 4) / max(len(drawn) - 1, 1)
    height = SPARK_HEIGHT - 4
    points_by_index = {
        number: (2 + number * distance, SPARK_HEIGHT - 2 - value / top * height)
        for number, value in enumerate(drawn)
        if value is not None
    }
    return Sparkline(_draw_line(points_by_index))


def nice_ticks(maximum: float, *, is_whole: bool = False) -> list[float]:
    """Return two to five values at equal distances, from 0 to at least `maximum`, with few digits.

    `is_whole`: only whole numbers. The last one is at least 1.
    """
    maximum = max(maximum, 1)
    exponent = math.floor(math.log10(maximum / _TICKS))
    factors = (1, 2, 2.5, 5, 10, 20)
    if is_whole and exponent < 1:
        factors = (1, 2, 5, 10, 20, 50)
        exponent = max(exponent, 0)
    # A power of ten below 1 is not exact, its inverse is.
    unit = 10.0**exponent if exponent >= 0 else 1 / 10.0**-exponent
    step = next((unit * factor for factor in factors if unit * factor * _TICKS >= maximum), maximum)
    count = max(math.ceil(maximum / step), 1)
    return [step * number for number in range(count + 1)]


def compact_number(value: float, language: str = "en") -> str:
    """Return a number in few letters, such as 1.5k, 20M or 3e+18."""
    if value >= 1e15:
        return f"{value:.0e}"
    for size, letter in _LARGE:
        if value >= size:
            return _write_decimal(value / size, language) + letter
    return _write_decimal(value, language)


def compact_duration(milliseconds: float, language: str = "en") -> str:
    """Return a duration in few letters, such as 250 ms, 1.5 s or 20k s."""
    if milliseconds < 1000:
        return _write_decimal(milliseconds, language) + " ms"
    return compact_number(milliseconds / 1000, language) + " s"


def _build_rows(
    period: Period, points: Sequence[Mapping[str, Any]], names: Sequence[str]
) -> tuple[ChartRow, ...]:
    """Return the intervals of the period that have a value, in their order."""
    width = _measure_slot(period)
    rows: dict[int, ChartRow] = {}
    for point in points:
        moment = _read_time(point["at"])
        index = None if moment is None else period.index(moment)
        values = tuple(_read_finite(point.get(name)) for name in names)
        if index is None or all(value is None for value in values):
            continue
        began = period.since + index * period.step
        text = began.astimezone(UTC).strftime("%Y-%m-%d" if period.step >= _DAY else "%Y-%m-%d %H:%M")
        rows[index] = ChartRow(text, values, _round(LEFT + index * width), _round(width))
    return tuple(rows[index] for index in sorted(rows))


def _measure_slot(period: Period) -> float:
    return (RIGHT - LEFT) / max(period.count, 1)


def _read_finite(value: Any) -> float | int | None:
    """Return a number from 0 on that can be drawn; None for everything else."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        is_drawable = 0 <= float(value) < 1e300
    except OverflowError:
        return None
    return value if is_drawable else None


def _read_time(value: Any) -> datetime | None:
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value)
        except ValueError:
            return None
    return value if isinstance(value, datetime) and value.tzinfo is not None else None


def _measure_height(value: float, ticks: Sequence[float]) -> float:
    return value / ticks[-1] * (BOTTOM - TOP)


def _count_ticks(values: Sequence[float], language: str) -> tuple[Tick, ...]:
    return tuple(
        Tick(_round(BOTTOM - _measure_height(one, values)), compact_number(one, language)) for one in values
    )


def _write_duration_ticks(values: Sequence[float], language: str) -> tuple[Tick, ...]:
    # All in one unit: 500 ms beside 1 s would have to be read twice.
    if values[-1] < 1000:
        texts = [_write_decimal(one, language) + " ms" for one in values]
    else:
        texts = [compact_number(one / 1000, language) + " s" for one in values]
    return tuple(
        Tick(_round(BOTTOM - _measure_height(one, values)), text)
        for one, text in zip(values, texts, strict=True)
    )


def _build_time_ticks(period: Period) -> tuple[Tick, ...]:
    """Return ticks at round times in UTC whose labels are within the chart."""
    if not period.count:
        return ()
    # A day's bar has its label below its middle; shorter intervals begin at their label.
    shift = _measure_slot(period) / 2 if period.step >= _DAY else 0.0
    scale = _measure_slot(period) / period.step.total_seconds()
    ticks = []
    for moment, text in _list_round_times(period):
        x = LEFT + (moment - period.since).total_seconds() * scale + shift
        if LEFT <= x <= WIDTH - _HALF_LABEL:
            ticks.append(Tick(_round(x), text))
    return tuple(ticks)


def _list_round_times(period: Period) -> Iterator[tuple[datetime, str]]:
    """Yield round times of the period with their labels: time of day, day, or month."""
    since, until = period.since.astimezone(UTC), period.until.astimezone(UTC)
    length = until - since
    step = next((one for one in _STEPS if one >= period.step and one * _TIME_TICKS >= length), None)
    if step is None:
        yield from _list_month_starts(since, until)
        return
    moment = _MONDAY + ((since - _MONDAY) // step) * step
    while moment < until:
        if moment >= since:
            is_day = step >= _DAY or (moment.hour, moment.minute) == (0, 0)
            yield moment, moment.strftime("%m-%d" if is_day else "%H:%M")
        moment += step


def _list_month_starts(since: datetime, until: datetime) -> Iterator[tuple[datetime, str]]:
    months = (until.year - since.year) * 12 + until.month - since.month + 1
    step = next((one for one in _MONTHS if one * _TIME_TICKS >= months), months)
    number = -(-(since.year * 12 + since.month - 1) // step) * step
    while number // 12 <= until.year:
        moment = datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC)
        if since <= moment < until:
            yield moment, moment.strftime("%Y-%m")
        number += step


def _draw_line(points: Mapping[int, tuple[float, float]]) -> str:
    """Return the path through points by the number of their interval, interrupted where one is missing."""
    parts = []
    for number in sorted(points):
        x, y = points[number]
        text = f"{_write_number(x)} {_write_number(y)}"
        if number - 1 in points:
            parts.append(f"L{text}")
        else:
            # A line of no length is a dot, by its round ends.
            parts.append(f"M{text}" + ("" if number + 1 in points else "h0"))
    return "".join(parts)


def _draw_rectangle(x: float, y: float, width: float, height: float) -> str:
    across, down = _write_number(width), _write_number(height)
    return f"M{_write_number(x)} {_write_number(y)}h{across}v{down}h-{across}z"


def _round(value: float) -> float:
    return round(value, 2)


def _write_number(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _write_decimal(value: float, language: str) -> str:
    text = f"{value:.2f}".rstrip("0").rstrip(".")
    return text.replace(".", ",") if language == "de" else text
