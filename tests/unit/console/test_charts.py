"""Charts: their ticks, gaps and positions, also of values that cannot be drawn."""

import re
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest

from app.console.templating import environment
from app.console.views.charts import (
    BOTTOM,
    LEFT,
    RIGHT,
    TOP,
    WIDTH,
    Period,
    bar_chart,
    compact_duration,
    compact_number,
    line_chart,
    nice_ticks,
    sparkline,
)
from tests.harness.cases import for_each

NOON = datetime(2026, 11, 24, 12, tzinfo=UTC)
HOUR = timedelta(hours=1)
UNDRAWABLE = (None, float("nan"), float("inf"), -1, True, "12", "<script>", [1], 10**400)


def day():
    return Period(NOON - 24 * HOUR, NOON, HOUR)


def point(hours, **values):
    return {"at": (NOON + hours * HOUR).isoformat(), **values}


def rectangles(path):
    """Return (x, y, width, height) of each rectangle of a path."""
    return [
        tuple(float(one) for one in found)
        for found in re.findall(r"M(\S+) (\S+?)h([\d.]+)v([\d.]+)h-[\d.]+z", path)
    ]


@for_each(
    ("maximum", "whole", "ticks"),
    [
        (0, True, [0, 1]),
        (1, True, [0, 1]),
        (3, True, [0, 1, 2, 3]),
        (4, True, [0, 1, 2, 3, 4]),
        (5, True, [0, 2, 4, 6]),
        (97, True, [0, 25, 50, 75, 100]),
        (1_200, True, [0, 500, 1000, 1500]),
        (0.2, False, [0, 0.25, 0.5, 0.75, 1]),
        (37.4, False, [0, 10, 20, 30, 40]),
        (5e-324, False, [0, 0.25, 0.5, 0.75, 1]),
    ],
)
def test_ticks_are_round_numbers_up_to_the_maximum(maximum, whole, ticks):
    assert nice_ticks(maximum, is_whole=whole) == pytest.approx(ticks)


@pytest.mark.parametrize("whole", [True, False])
def test_ticks_of_any_maximum_are_few_and_reach_it(whole):
    for exponent in range(-5, 299):
        for digits in (1, 1.0001, 2.5, 3.7, 9.99):
            maximum = digits * 10.0**exponent
            ticks = nice_ticks(maximum, is_whole=whole)
            assert 2 <= len(ticks) <= 5
            assert ticks[0] == 0
            assert ticks[-1] >= maximum
            assert not whole or all(one == int(one) for one in ticks)


def test_numbers_are_shortened():
    values = (0, 7, 0.25, 999, 1_500, 20_000, 1_000_000, 2.5e9, 1e12, 3e18)
    assert [compact_number(one) for one in values] == [
        "0", "7", "0.25", "999", "1.5k", "20k", "1M", "2.5G", "1T", "3e+18",
    ]  # fmt: skip
    assert compact_number(1_500, "de") == "1,5k"
    assert [compact_duration(one) for one in (0.5, 250, 1_500, 30_000)] == [
        "0.5 ms",
        "250 ms",
        "1.5 s",
        "30 s",
    ]
    assert compact_duration(1_500, "de") == "1,5 s"


def test_bars_stand_on_the_axis_with_errors_at_their_top():
    chart = bar_chart(day(), [point(-24, calls=100, errors=25), point(-1, calls=50, errors=0)])
    (first, second), (error,) = rectangles(chart.paths[0]), rectangles(chart.paths[1])
    plot = BOTTOM - TOP
    assert [one.text for one in chart.ticks] == ["0", "25", "50", "75", "100"]
    assert error[1] == pytest.approx(TOP)
    assert error[3] == pytest.approx(plot / 4)
    assert first[1] == pytest.approx(TOP + plot / 4)
    assert first[1] + first[3] == pytest.approx(BOTTOM)
    assert second[3] == pytest.approx(plot / 2)
    assert (first[0], error[0]) == (error[0], first[0])
    assert LEFT <= first[0] < second[0]
    assert second[0] + second[2] <= RIGHT
    assert [row.time for row in chart.rows] == ["2026-11-23 12:00", "2026-11-24 11:00"]
    assert [row.values for row in chart.rows] == [(100, 25), (50, 0)]


def test_one_error_among_many_calls_is_visible():
    chart = bar_chart(day(), [point(-3, calls=1_000_000, errors=1), point(-2, calls=1, errors=1)])
    (many, one) = rectangles(chart.paths[1])
    assert many[3] >= 1.5
    assert one[3] >= 1
    assert one[1] + one[3] == pytest.approx(BOTTOM)


def test_more_errors_than_calls_are_the_whole_bar():
    chart = bar_chart(day(), [point(-3, calls=2, errors=7)])
    assert chart.paths[0] == ""
    assert rectangles(chart.paths[1])[0][3] == pytest.approx(BOTTOM - TOP)


def test_colours_are_those_of_the_series_also_where_the_first_one_is_empty():
    charts = environment("en").get_template("charts.html").make_module({"root": ""})
    all_failed = bar_chart(day(), [point(-3, calls=2, errors=2)])
    html = charts.bars(all_failed, "c", "Calls", "2 calls", ["Calls", "Errors"])
    assert 'class="chart-bars-2"' in html
    assert 'class="chart-bars-1"' not in html
    only_p95 = line_chart(day(), [point(-3, p50_ms=None, p95_ms=2)])
    assert 'class="chart-lines-1"' not in charts.lines(only_p95, "d", "Duration", "", ["p50", "p95"])


def test_texts_of_a_chart_are_escaped_and_its_values_are_a_table():
    charts = environment("en").get_template("charts.html").make_module({"root": ""})
    html = charts.bars(bar_chart(day(), [point(-3, calls=1_200, errors=2)]), "c", "<b>", "<i>", ["<u>", "E"])
    assert not re.search("<[biu]>", html)
    assert re.search(r'<th scope="row">2026-11-24 09:00\s*<td>1,200\s*<td>2', html)
    assert 'role="img" aria-label="&lt;b&gt;. &lt;i&gt;"' in html
    empty = charts.bars(bar_chart(day(), []), "c", "Calls", "", ["Calls", "Errors"])
    assert "No calls in this period." in empty
    assert "<svg" not in empty


def test_chart_without_points_is_empty():
    for chart in (bar_chart(day(), []), line_chart(day(), [])):
        assert chart.is_empty
        assert chart.paths == ("", "")
        assert chart.rows == ()


def test_period_without_intervals_has_an_empty_chart():
    chart = bar_chart(Period(NOON, NOON, HOUR), [point(0, calls=1, errors=0)])
    assert chart.is_empty
    assert chart.times == ()


@for_each("value", UNDRAWABLE, violations={"value": 7})
def test_what_cannot_be_drawn_is_a_gap(value):
    points = [point(-3, p50_ms=value, p95_ms=value), point(-2, p50_ms=5, p95_ms=value)]
    chart = line_chart(day(), points)
    assert [row.values for row in chart.rows] == [(5, None)]
    assert chart.paths[1] == ""
    assert bar_chart(day(), [point(-3, calls=value, errors=value)]).is_empty
    assert sparkline([value]).path == ""


@for_each(
    "at",
    ["", "yesterday", "2026-11-24T10:00:00", None, 12, "2036-01-01T00:00:00Z"],
    violations={"at": "2026-11-24T10:00:00Z"},
)
def test_points_without_a_time_of_the_period_are_left_out(at):
    assert bar_chart(day(), [{"at": at, "calls": 1, "errors": 0}]).is_empty


def test_lines_are_interrupted_by_gaps_and_a_single_value_is_a_dot():
    known = {-10: 10, -9: 20, -7: 40, -3: 30, -2: 30}
    chart = line_chart(day(), [point(at, p50_ms=value, p95_ms=value) for at, value in known.items()])
    assert re.sub(r"[\d. ]+", "", chart.paths[0]) == "MLMhML"
    (_, y) = re.findall(r"M(\S+) (\S+?)h0", chart.paths[0])[0]
    assert float(y) == pytest.approx(TOP)
    assert [one.text for one in chart.ticks] == ["0 ms", "10 ms", "20 ms", "30 ms", "40 ms"]


def test_one_point_is_one_dot():
    chart = line_chart(day(), [point(-1, p50_ms=3, p95_ms=3)])
    assert chart.paths[0].startswith("M")
    assert chart.paths[0].endswith("h0")
    assert sparkline([5]).path.endswith("h0")


def test_huge_values_stay_within_the_chart():
    points = [point(at, calls=10**at_power, errors=1) for at, at_power in ((-3, 30), (-2, 299), (-1, 3))]
    chart = bar_chart(day(), points)
    for path in chart.paths:
        for x, y, width, height in rectangles(path):
            assert LEFT <= x <= x + width <= RIGHT
            assert TOP - 0.01 <= y <= y + height <= BOTTOM + 0.01
    assert all(len(one.text) <= 7 for one in chart.ticks)
    slow = line_chart(day(), [point(-3, p50_ms=1e290, p95_ms=1), point(-2, p50_ms=1, p95_ms=86_400_000)])
    assert all(
        TOP - 0.01 <= float(y) <= BOTTOM + 0.01 for y in re.findall(r"[ML]\S+ ([\d.]+)", slow.paths[0])
    )


def test_durations_of_one_axis_have_one_unit():
    slow = line_chart(day(), [point(-3, p50_ms=700, p95_ms=3_600)])
    assert [one.text for one in slow.ticks] == ["0 s", "1 s", "2 s", "3 s", "4 s"]
    middling = line_chart(day(), [point(-3, p50_ms=700, p95_ms=1_400)], language="de")
    assert [one.text for one in middling.ticks] == ["0 s", "0,5 s", "1 s", "1,5 s"]


@for_each(
    ("since", "until", "step", "labels"),
    [
        (NOON - HOUR, NOON, HOUR / 60, ["11:00", "11:10", "11:20", "11:30", "11:40", "11:50"]),
        (NOON - 24 * HOUR, NOON, HOUR, ["12:00", "18:00", "11-24", "06:00"]),
        (NOON - 72 * HOUR, NOON, HOUR, ["12:00", "11-22", "12:00", "11-23", "12:00", "11-24"]),
        (datetime(2026, 11, 17, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), 24 * HOUR,
         ["11-18", "11-20", "11-22"]),
        (datetime(2026, 10, 25, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), 24 * HOUR,
         ["10-26", "11-02", "11-09", "11-16"]),
        (datetime(2025, 10, 20, tzinfo=UTC), datetime(2026, 11, 24, tzinfo=UTC), 24 * HOUR,
         ["2026-01", "2026-04", "2026-07", "2026-10"]),
        (datetime(1990, 6, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC), 24 * HOUR,
         ["2000-01", "2010-01", "2020-01"]),
    ],
)  # fmt: skip
def test_times_are_round_and_in_utc(since, until, step, labels):
    times = line_chart(Period(since, until, step), []).times
    assert [one.text for one in times] == labels
    assert all(LEFT <= one.position <= WIDTH - 22 for one in times)


def test_times_are_those_of_utc_for_other_offsets():
    period = Period(datetime.fromisoformat("2026-11-24T02:30:00+05:30"), NOON, HOUR)
    assert [one.text for one in line_chart(period, []).times] == ["21:00", "11-24", "03:00", "06:00", "09:00"]
    chart = bar_chart(period, [{"at": "2026-11-24T03:45:00+05:30", "calls": 1, "errors": 0}])
    assert [row.time for row in chart.rows] == ["2026-11-23 22:00"]


def test_days_have_their_label_below_their_middle():
    period = Period(NOON.replace(hour=0) - 7 * 24 * HOUR, NOON.replace(hour=0), 24 * HOUR)
    chart = bar_chart(period, [{"at": "2026-11-18T00:00:00Z", "calls": 1, "errors": 0}])
    label = next(one for one in chart.times if one.text == "11-18")
    assert label.position == pytest.approx(chart.rows[0].x + chart.rows[0].width / 2, abs=0.02)


def test_periods_are_bounded():
    for step in (timedelta(0), -HOUR, timedelta(microseconds=1)):
        with pytest.raises(ValueError, match="intervals"):
            Period(NOON - 24 * HOUR, NOON, step)
    with pytest.raises(ValueError, match="intervals"):
        Period(NOON, NOON - HOUR, HOUR)


def test_narrow_bars_are_no_targets():
    assert bar_chart(day(), []).has_targets
    assert not bar_chart(Period(NOON - 168 * HOUR, NOON, HOUR), []).has_targets


def test_bars_of_a_long_period_do_not_overlap():
    period = Period(NOON - 400 * 24 * HOUR, NOON, 24 * HOUR)
    days = [{"at": period.since + at * 24 * HOUR, "calls": 5, "errors": 1} for at in range(400)]
    found = rectangles(bar_chart(period, days).paths[0])
    assert len(found) == 400
    assert all(one[0] + one[2] <= other[0] for one, other in pairwise(found))


def test_sparkline_spans_its_width_from_zero():
    path = sparkline([0, 5, 10]).path
    assert path == "M2 18L40 10L78 2"
    assert sparkline([]).path == ""
    assert sparkline([0, 0]).path == "M2 18L78 18"
    assert sparkline([4, None, 4]).path == "M2 2h0M78 2h0"
