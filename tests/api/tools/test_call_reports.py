"""/stats and /calls.csv: counts and exports of the calls that the key may see."""

import csv
import io
from datetime import UTC, datetime, timedelta

import pytest

from app.calls.log.entries import CallLogEntry
from app.core.uuid7 import uuid7
from app.storage.models import TENANT
from tests.harness.cases import for_each

CANARY = "canary-2f8d1c"


@pytest.fixture
async def calls(api):
    """Calls of two providers, of which `inner` has the tag internal."""
    inner = await api.provider("inner", tags=["internal"])
    open_ = await api.provider("outer", tags=["public"])
    await api.tool(inner, "a", {"url": "https://x.example/a"})
    await api.tool(open_, "b", {"url": "https://x.example/b"})
    moment = datetime.now(UTC)
    made = [
        ("inner", "inner.a", "key1", "ok", 200, 10.0),
        ("inner", "inner.a", "key1", "upstream-timeout", 504, 1_000.0),
        ("outer", "outer.b", "key2", "ok", 200, 20.0),
        ("", f"=cmd({CANARY})", "key2", "not-found", 404, 0.05),
    ]
    for provider, tool, key, outcome, status, duration in made:
        api.services.call_log.record(
            CallLogEntry(
                id=uuid7(), at=moment, tenant_id=TENANT, key_id=key, provider=provider, tool=tool,
                outcome=outcome, status=status, duration_ms=duration, request_bytes=3, response_bytes=7,
            )
        )  # fmt: skip
    await api.services.call_log.flush()
    return made


async def stats(client, **query):
    response = await client.get("/stats", params=query)
    assert response.status_code == 200, response.text
    return response.json()


async def test_statistics_have_series_points_and_totals(api, calls):
    reader = await api.client("calls:read")
    found = await stats(reader, group="tool", interval="hour")
    assert {one["value"]: one["totals"]["calls"] for one in found["series"]} == {
        "inner.a": 2, "outer.b": 1, "": 1
    }  # fmt: skip
    assert (found["totals"]["calls"], found["totals"]["errors"], found["other"]) == (4, 2, None)
    first = found["series"][0]
    assert first["value"] == "inner.a"
    assert sum(point["calls"] for point in first["points"]) == 2
    assert first["totals"]["p50_ms"] == pytest.approx(10, rel=found["percentile_error"])
    assert (first["totals"]["max_ms"], first["totals"]["mean_ms"]) == (1_000.0, 505.0)
    assert (first["totals"]["request_bytes"], first["totals"]["response_bytes"]) == (6, 14)
    by_key = await stats(reader, group="key", limit=1)
    assert [one["value"] for one in by_key["series"]] == ["key1"]
    assert (by_key["other"]["values"], by_key["other"]["totals"]["calls"]) == (1, 2)
    assert len((await stats(reader, group="outcome", interval="day"))["series"]) == 3
    assert (await stats(reader, group="provider", interval="minute", tool="outer.b"))["totals"]["calls"] == 1


async def test_statistics_of_a_restricted_key_are_those_of_its_tools(api, calls):
    by_provider = await api.client("calls:read", providers=["outer"])
    by_tag = await api.client("calls:read", tags=["public"])
    nothing = await api.client("calls:read", providers=["inner"], tags=["public"])
    for group, value in (("tool", "outer.b"), ("provider", "outer"), ("key", "key2"), ("outcome", "ok")):
        for client in (by_provider, by_tag):
            found = await stats(client, group=group)
            assert [(one["value"], one["totals"]["calls"]) for one in found["series"]] == [(value, 1)]
            assert (found["totals"]["calls"], found["other"]) == (1, None)
            assert (await stats(client, group=group, tool="inner.a"))["series"] == []
        assert (await stats(nothing, group=group))["totals"]["calls"] == 0
    assert (await (await api.client()).get("/stats")).status_code == 403


async def test_statistics_of_no_series_have_all_calls_together(api, calls):
    reader = await api.client("calls:read")
    found = await stats(reader, group="tool", limit=0)
    assert found["series"] == []
    assert (found["other"]["values"], found["other"]["totals"]) == (3, found["totals"])
    assert sum(point["calls"] for point in found["other"]["points"]) == 4
    assert (await stats(reader, limit=0, tool="no.such"))["other"] is None


async def test_errors_are_counted_and_listed_alone(api, calls):
    reader = await api.client("calls:read")
    for error, outcomes in ((True, {"upstream-timeout", "not-found"}), (False, {"ok"})):
        found = await stats(reader, group="outcome", error=error)
        assert {one["value"] for one in found["series"]} == outcomes
        assert found["totals"]["errors"] == (found["totals"]["calls"] if error else 0)
        listed = (await reader.get("/calls", params={"error": error})).json()["items"]
        assert {one["outcome"] for one in listed} == outcomes
        assert len(listed) == found["totals"]["calls"]
    rows = csv.DictReader(io.StringIO((await reader.get("/calls.csv?error=true&provider=inner")).text))
    assert [row["outcome"] for row in rows] == ["upstream-timeout"]


async def test_a_call_in_progress_is_no_error_and_one_without_an_end_is(api):
    reader = await api.client("calls:read")
    provider = await api.provider("outer")
    await api.tool(provider, "b", {"url": "https://x.example/b"})
    now = datetime.now(UTC)
    for deadline in (now + timedelta(minutes=5), now - timedelta(minutes=5)):
        api.services.call_log.record(
            CallLogEntry(
                id=uuid7(), at=now, tenant_id=TENANT, key_id="key1", provider="outer", tool="outer.b",
                outcome="running", status=0, duration_ms=0.0, safe=False, deadline=deadline,
            )
        )  # fmt: skip
    await api.services.call_log.flush()
    for error, outcome in ((True, "unknown"), (False, "running")):
        listed = (await reader.get("/calls", params={"error": error})).json()["items"]
        assert [one["outcome"] for one in listed] == [outcome]
    assert (await stats(reader, error=True))["totals"]["calls"] == 1
    assert (await stats(reader, error=False))["totals"]["calls"] == 0


async def test_statistics_say_how_far_the_encoding_of_all_tools_is(api):
    whole = await stats(await api.client("calls:read"))
    assert whole["search_vectors"] == {"state": "off", "model": None, "encoded": 0, "total": 0}
    for limits in ({"providers": ["outer"]}, {"tags": ["public"]}):
        assert (await stats(await api.client("calls:read", **limits)))["search_vectors"] is None


@for_each(
    "query",
    [
        "group=x", "interval=week", "limit=-1", "limit=51", "since=5", "outcome=",
        "since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z",
        "interval=minute&since=2026-01-01T00:00:00Z&until=2026-02-01T00:00:00Z",
        "since=0001-01-01T00:00:00Z",
    ],
)  # fmt: skip
async def test_queries_for_statistics_that_cannot_be_answered_are_rejected(api, query):
    reader = await api.client("calls:read")
    response = await reader.get(f"/stats?{query}")
    assert response.status_code == 422
    assert response.json()["errors"]


async def test_callers_are_named_where_the_key_may_see_them(api):
    outer = await api.provider("outer", tags=["public"])
    await api.tool(outer, "b", {"url": "https://x.example/b"})
    admin = await api.client("admin")
    names = {}
    for name, providers in (("one agent", ["outer"]), ("two agents", None)):
        body = {"name": name, "scopes": ["tools:call"], "providers": providers}
        key_id = names[name] = (await admin.post("/keys", json=body)).json()["id"]
        api.services.call_log.record(
            CallLogEntry(
                id=uuid7(), at=datetime.now(UTC), tenant_id=TENANT, key_id=key_id, provider="outer",
                tool="outer.b", outcome="ok", status=200, duration_ms=1.0,
            )
        )  # fmt: skip
    await api.services.call_log.flush()
    await admin.delete(f"/keys/{names['one agent']}")
    everything = await api.client("calls:read")
    limited = await api.client("calls:read", providers=["outer"])
    for client, hidden in ((everything, ()), (limited, ("two agents",))):
        expected = {key_id: None if name in hidden else name for name, key_id in names.items()}
        listed = (await client.get("/calls")).json()["items"]
        assert {one["key_id"]: one["key_name"] for one in listed} == expected
        for one in listed:
            assert (await client.get(f"/calls/{one['id']}")).json()["key_name"] == one["key_name"]
        series = (await stats(client, group="key"))["series"]
        assert {one["value"]: one["key_name"] for one in series} == expected
        assert {one["key_name"] for one in (await stats(client))["series"]} == {None}
        rows = list(csv.DictReader(io.StringIO((await client.get("/calls.csv")).text)))
        assert {row["key_id"]: row["key_name"] or None for row in rows} == expected


async def test_csv_has_the_records_of_the_list(api, calls):
    reader = await api.client("calls:read")
    response = await reader.get("/calls.csv")
    assert response.status_code == 200
    assert response.headers["content-type"] == "text/csv; charset=utf-8; header=present"
    assert response.headers["content-disposition"] == 'attachment; filename="calls.csv"'
    assert response.text.endswith("\r\n")
    header, *rows = csv.reader(io.StringIO(response.text, newline=""))
    listed = (await reader.get("/calls")).json()["items"]
    assert header == list(listed[0])
    assert [row[0] for row in rows] == [one["id"] for one in listed]
    for row, one in zip(rows, listed, strict=True):
        for name, text in zip(header, row, strict=True):
            assert text in ("" if one[name] is None else str(one[name]), f"'{one[name]}")
    tools = {row[header.index("tool")] for row in rows}
    assert tools == {"inner.a", "outer.b", f"'=cmd({CANARY})"}


async def test_csv_has_the_filters_limits_and_visibility_of_the_list(api, calls):
    reader = await api.client("calls:read")

    async def lines(client, **query):
        response = await client.get("/calls.csv", params=query)
        assert response.status_code == 200, response.text
        return response.text.splitlines()[1:]

    first, second = await lines(reader, limit=2)
    rest = await lines(reader, cursor=second.partition(",")[0])
    assert sorted([first, second, *rest]) == sorted(await lines(reader))
    assert len(await lines(reader, outcome="ok", provider="inner")) == 1
    assert len(await lines(await api.client("calls:read", tags=["public"]))) == 1
    assert await lines(reader, until=(datetime.now(UTC) - timedelta(days=3)).isoformat()) == []
    assert (await (await api.client()).get("/calls.csv")).status_code == 403
    for wrong in ("limit=0", "limit=100001", "cursor=x"):
        assert (await reader.get(f"/calls.csv?{wrong}")).status_code == 422


async def test_csv_of_several_pages_is_complete(api):
    for number in range(2_345):
        api.services.call_log.record(
            CallLogEntry(
                id=uuid7(), at=datetime.now(UTC), tenant_id=TENANT, key_id="k", provider="p", tool="p.t",
                outcome="ok", status=200, duration_ms=float(number),
            )
        )  # fmt: skip
    await api.services.call_log.flush()
    reader = await api.client("calls:read")
    text = (await reader.get("/calls.csv", params={"limit": 100_000})).text
    assert len({line.partition(",")[0] for line in text.splitlines()[1:]}) == 2_345
    assert len((await reader.get("/calls.csv", params={"limit": 1_500})).text.splitlines()) == 1_501
