"""The selection of a page of calls: what its URL says, as parameters of the API."""

from datetime import UTC, datetime, timedelta

from starlette.datastructures import QueryParams

from app.console.views.call_selection import read_selection, whole_intervals
from tests.harness.cases import for_each

NOW = datetime(2026, 11, 24, 12, 34, 56, tzinfo=UTC)


def selection(text):
    return read_selection(QueryParams(text), NOW)


@for_each(
    ("text", "period", "since", "interval"),
    [
        ("", "24h", "2026-11-23T13:00:00Z", "hour"),
        ("period=1h", "1h", "2026-11-24T11:35:00Z", "minute"),
        ("period=7d", "7d", "2026-11-17T13:00:00Z", "hour"),
        ("period=30d", "30d", "2026-10-26T00:00:00Z", "day"),
        ("period=%27", "24h", "2026-11-23T13:00:00Z", "hour"),
    ],
)
def test_periods_are_whole_intervals_up_to_that_of_now(text, period, since, interval):
    found = selection(text)
    assert (found.period, found.since, found.until, found.interval) == (period, since, "", interval)


@for_each(
    ("text", "since", "until", "interval"),
    [
        ("since=2026-11-24T10:00", "2026-11-24T10:00:00Z", "", "minute"),
        ("since=2026-11-24T10:00%2B02:00", "2026-11-24T08:00:00Z", "", "hour"),
        ("since=2026-11-01", "2026-11-01T00:00:00Z", "", "day"),
        ("until=2026-11-20T10:00", "2026-11-19T10:00:00Z", "2026-11-20T10:00:00Z", "hour"),
        (
            "since=2026-11-01&until=2026-11-02&period=1h",
            "2026-11-01T00:00:00Z",
            "2026-11-02T00:00:00Z",
            "hour",
        ),
        ("since=yesterday", "yesterday", "", "hour"),
        ("until=soon", "", "soon", "hour"),
        ("since=9999-12-31T23:59-14:00", "9999-12-31T23:59-14:00", "", "hour"),
    ],
)
def test_times_have_precedence_and_what_is_none_is_left_to_the_api(text, since, until, interval):
    found = selection(text)
    assert (found.period, found.since, found.until, found.interval) == ("custom", since, until, interval)


def test_period_of_a_further_page_begins_when_that_of_the_first_one_did():
    first = selection("period=24h")
    later = read_selection(
        QueryParams({"period": "24h", "at": first.moment.isoformat()}), NOW + timedelta(hours=5)
    )
    assert later.query() == first.query()
    assert selection("at=never").moment == NOW


def test_filters_are_those_of_the_api_and_statistics_get_those_that_they_have():
    found = selection("tool=a.b&error=true&status=500&safe=false&unknown=1&outcome=&cursor=x&follow=1")
    assert found.filters == {"tool": "a.b", "error": "true", "status": "500", "safe": "false"}
    assert found.other_filters == ["status", "safe"]
    assert set(found.statistics_query(limit=0)) == {"tool", "error", "interval", "since", "until", "limit"}
    assert set(found.query(limit=5)) == {"tool", "error", "status", "safe", "since", "until", "limit"}


def test_whole_intervals_contain_their_last_moment():
    for moment in (NOW, NOW.replace(minute=0, second=0), NOW.replace(hour=0, minute=0, second=0)):
        begin = whole_intervals(moment, timedelta(hours=24), "hour")
        assert begin.minute == begin.second == 0
        assert begin + timedelta(hours=23) <= moment < begin + timedelta(hours=24)
