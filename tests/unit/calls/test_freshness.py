"""What an upstream's headers allow: RFC 9111 by cases."""

import time
from email.utils import formatdate

import pytest

from app.calls.response.freshness import (
    assess_freshness,
    parse_cache_control,
    read_max_age,
    select_relevant_headers,
)
from app.catalog.cache_rule import CacheRule
from tests.harness.cases import for_each

RULE = CacheRule(seconds=1000, default_seconds=0, stale_if_error=0)
TAG = {"etag": '"1"'}


def date(seconds: float) -> str:
    return formatdate(time.time() + seconds, usegmt=True)


@for_each(
    ("headers", "fresh"),
    [
        ({"cache-control": "max-age=60"}, 60),
        ({"cache-control": "max-age=60, s-maxage=30"}, 30),
        ({"cache-control": "max-age=60, s-maxage=300"}, 300),
        ({"cache-control": "private, max-age=60, s-maxage=300"}, 60),
        ({"cache-control": "max-age=5000"}, 1000),
        ({"cache-control": 'max-age="60"'}, 60),
        ({"cache-control": "MAX-AGE=60"}, 60),
        ({"cache-control": "max-age=60, max-age=10"}, 10),
        ({"cache-control": "max-age=10, max-age=60"}, 10),
        ({"cache-control": "max-age=99999999999999999999"}, 1000),
        ({"cache-control": "max-age=60", "expires": "0"}, 60),
    ],
)
def test_how_long_it_is_fresh(headers, fresh) -> None:
    freshness = assess_freshness(headers, RULE)
    assert freshness is not None
    assert freshness.lifetime == pytest.approx(fresh, abs=1)


@pytest.mark.parametrize("offset", [0, 100])
def test_a_date_of_expiry_counts_from_the_upstreams_own_clock(offset) -> None:
    freshness = assess_freshness({"expires": date(100 + offset), "date": date(offset)}, RULE)
    assert freshness is not None
    assert freshness.lifetime == pytest.approx(100, abs=1)


@for_each(
    "headers",
    [
        {"cache-control": "no-store, max-age=60"},
        {"cache-control": "max-age=60", "vary": "*"},
        {"cache-control": "max-age=60", "vary": "Accept, *"},
        {},
        {"cache-control": "max-age=0"},
        {"cache-control": "max-age=-5"},
        {"cache-control": "max-age=soon"},
        {"cache-control": "no-cache"},
        {"cache-control": 'no-cache="set-cookie", max-age=60'},
        {"expires": "0"},
        {"expires": "never"},
        {"expires": date(-100)},
        {"cache-control": "max-age=60", "age": "60"},
        {"cache-control": "max-age=60", "date": date(-100)},
    ],
)
def test_what_is_not_cached(headers) -> None:
    assert assess_freshness(headers, RULE) is None


@for_each(
    "headers",
    [
        TAG,
        {"last-modified": date(-1000)},
        {**TAG, "cache-control": "no-cache"},
        {**TAG, "cache-control": "max-age=0, must-revalidate"},
        {**TAG, "expires": "0"},
        {**TAG, "pragma": "no-cache"},
    ],
)
def test_what_is_kept_to_be_asked_about(headers) -> None:
    freshness = assess_freshness(headers, RULE)
    assert freshness is not None
    assert freshness.lifetime == 0
    assert freshness.conditions()


def test_an_upstream_that_says_nothing() -> None:
    freshness = assess_freshness({}, CacheRule(seconds=1000, default_seconds=20))
    assert freshness is not None
    assert freshness.lifetime == 20
    assert (
        assess_freshness({"cache-control": "no-cache"}, CacheRule(seconds=1000, default_seconds=20)) is None
    )


def test_age_counts_what_went_by_elsewhere() -> None:
    freshness = assess_freshness({"cache-control": "max-age=60", "age": "20"}, RULE)
    assert freshness is not None
    assert freshness.age == 20
    older = assess_freshness({"cache-control": "max-age=60", "age": "20", "date": date(-40)}, RULE)
    assert older is not None
    assert 38 <= older.age <= 41


def test_a_clock_that_goes_ahead_is_no_age() -> None:
    freshness = assess_freshness({"cache-control": "max-age=60", "date": date(3600)}, RULE)
    assert freshness is not None
    assert freshness.age == 0


@for_each(
    ("said", "grace"),
    [
        ("max-age=60", 300),
        ("max-age=60, stale-if-error=10", 10),
        ("max-age=60, stale-if-error=9999", 300),
        ("max-age=60, must-revalidate", 0),
        ("max-age=60, proxy-revalidate", 0),
    ],
)
def test_how_long_it_stands_in_for_an_error(said, grace) -> None:
    freshness = assess_freshness({"cache-control": said}, CacheRule(seconds=1000, stale_if_error=300))
    assert freshness is not None
    assert freshness.stale_if_error == grace


def test_private_is_private_in_any_spelling() -> None:
    for said in ("private, max-age=9", 'max-age=9, Private="x-user"'):
        freshness = assess_freshness({"cache-control": said}, RULE)
        assert freshness is not None
        assert freshness.private


def test_the_conditions() -> None:
    freshness = assess_freshness({"etag": 'W/"a"', "last-modified": "Sat, 21 Nov 2026 10:00:00 GMT"}, RULE)
    assert freshness is not None
    assert freshness.conditions() == (
        ("If-None-Match", 'W/"a"'),
        ("If-Modified-Since", "Sat, 21 Nov 2026 10:00:00 GMT"),
    )
    assert freshness.confirms({})
    assert freshness.confirms({"ETag": '"a"'})
    assert not freshness.confirms({"ETag": '"b"'})


@pytest.mark.parametrize("value", ['"caf\udce9"', '"a\x01"', '"é"'])
def test_nothing_is_requested_in_words_that_cannot_be_sent(value: str) -> None:
    assert assess_freshness({"etag": value, "last-modified": value}, RULE) is None
    freshness = assess_freshness({"etag": value, "cache-control": "max-age=9"}, RULE)
    assert freshness is not None
    assert freshness.conditions() == ()


def test_repeated_headers_are_one() -> None:
    class Repeated(dict):
        def items(self):
            return [("Cache-Control", "max-age=5"), ("cache-control", "private"), ("X-Other", "1")]

    assert select_relevant_headers(Repeated()) == {"cache-control": "max-age=5, private"}


def test_what_clients_may_say() -> None:
    assert read_max_age(parse_cache_control("no-cache")) == 0
    assert read_max_age(parse_cache_control("max-age=0")) == 0
    assert read_max_age(parse_cache_control("max-age=7, foo")) == 7
    assert read_max_age(parse_cache_control("foo")) > 1e6


@for_each("rubbish", ["=", ",,,", '"', 'max-age="', "max-age=" + "9" * 10_000, "\x00", "é=1"])
def test_rubbish_raises_nothing(rubbish) -> None:
    parse_cache_control(rubbish)
    assess_freshness({"cache-control": rubbish, "expires": rubbish, "age": rubbish, "date": rubbish}, RULE)
