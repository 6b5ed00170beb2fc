"""Lists on narrow terminals: the columns that matter, a line for each row, and short local times."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.cli.table_layout import GAP, choose_column_widths, shorten_time
from tests.harness.cases import for_each
from tests.unit.cli.test_terminal import on_terminal


@for_each(
    ("widths", "importance", "available", "found"),
    [
        ([8, 24, 24, 10], [0, 1, 2, 3], 100, {0: 8, 1: 24, 2: 24, 3: 10}),
        ([8, 40, 40, 40], [0, 1, 2, 3], 80, {0: 8, 1: 30, 2: 24, 3: 12}),
        ([12, 8, 40], [0, 1, 2], 200, {0: 12, 1: 8, 2: 40}),
        ([12, 8, 40], [0, 1, 2], 60, {0: 12, 1: 8, 2: 36}),
        ([12, 8, 40], [0, 2, 1], 44, {0: 12, 2: 30}),
        ([30, 30, 30, 30], [3, 0, 1, 2], 60, {0: 28, 3: 30}),
        ([36, 50], [1, 0], 60, {1: 50}),
        ([90], [0], 60, {0: 60}),
    ],
)
def test_the_least_important_columns_are_left_out(
    widths: list[int], importance: list[int], available: int, found: Mapping[int, int]
) -> None:
    assert choose_column_widths(widths, importance, available) == found


def test_an_id_is_whole_or_left_out() -> None:
    widths = [8, 20, 20, 36]
    assert choose_column_widths(widths, [0, 1, 2, 3], 80, uncut={3}) == {0: 8, 1: 20, 2: 20}
    assert choose_column_widths(widths, [0, 1, 3, 2], 80, uncut={3}) == {0: 8, 1: 20, 3: 36}


@given(
    widths=st.lists(st.integers(1, 200), min_size=1, max_size=12),
    available=st.integers(40, 200),
    data=st.data(),
)
def test_every_table_fits(widths: list[int], available: int, data: st.DataObject) -> None:
    importance = data.draw(st.permutations(range(len(widths))))
    found = choose_column_widths(widths, importance, available)
    assert importance[0] in found
    assert list(found) == sorted(found)
    assert sum(found.values()) + GAP * (len(found) - 1) <= available
    assert all(0 < width <= widths[index] for index, width in found.items())


NOW = datetime(2030, 5, 17, 9, 0, tzinfo=timezone(timedelta(hours=2)))


@for_each(
    ("text", "shown"),
    [
        ("2030-05-17T06:59:59.123456Z", "08:59:59"),
        ("2030-05-16T22:30:00+00:00", "00:30:00"),
        ("2030-05-16T21:30:00Z", "16 May 23:30"),
        ("2031-01-31T00:00:00Z", "2031-01-31"),
        ("2030-05-17", "2030-05-17"),
        ("at 2030-05-17T06:59:59Z", "at 2030-05-17T06:59:59Z"),
        *[
            (text, text)
            for text in (
                "2026-02-30T00:00:00Z",
                "9999-12-31T23:59:59Z",
                "2030-13-01T00:00:00Z",
                "2030-05-17T06:59:59+99:99",
            )
        ],
    ],
)
def test_times_are_local_and_short(text: str, shown: str) -> None:
    assert shorten_time(text, NOW) == shown


def test_lists_are_readable_at_60_and_80_columns(
    stub: Any, clean_environment: None, monkeypatch: Any
) -> None:
    monkeypatch.setenv("TZ", "Asia/Tokyo")
    key = {
        "id": "AbCdEfGhJkMn", "name": "the agent of the billing team in the north", "owner": "2031-01-31T20:00:00Z",
        "scopes": ["tools:read", "tools:call", "keys:read"], "providers": ["library", "warehouse"],
        "tags": None, "rate_limit": {"requests": 5, "per_seconds": 1, "burst": 2}, "state": "active",
        "expires_at": "2031-01-31T20:00:00Z", "last_used_at": f"{datetime.now(UTC).year}-01-01T20:00:00Z",
    }  # fmt: skip
    stub.on("GET", "/keys", {"items": [key] * 3, "next_cursor": None})
    for width, columns in ((60, "ID NAME STATE"), (80, "ID NAME SCOPES LAST USED STATE"), (300, "TAGS RATE")):
        monkeypatch.setenv("COLUMNS", str(width))
        _, shown = on_terminal("keys", "list", url=stub.url)
        plain = shown.replace("\x1b[1m", "").replace("\x1b[0m", "").splitlines()
        rows = [line for line in plain if line.startswith("AbCdEfGhJkMn")]
        assert len(rows) == 3, shown
        assert max(len(line.rstrip()) for line in plain[:4]) <= width
        assert [name for name in columns.split() if name not in plain[0]] == [], shown
        assert ("Without " in shown) is (width < 300)
    assert "02 Jan 05:00" in rows[0]
    assert rows[0].count("2031-02-01") == rows[0].count("2031-01-31T20:00:00Z") == 1
