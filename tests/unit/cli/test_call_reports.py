"""`calls tail` and `stats`."""

from collections.abc import Callable
from typing import Any

import orjson
from starlette.responses import StreamingResponse

Run = Callable[..., Any]
CALL = {
    "id": "019a0000-0000-7000-8000-000000000001", "at": "2026-11-22T09:00:00Z", "key_id": "k1",
    "provider": "library", "tool": "library.a", "outcome": "ok", "status": 200, "upstream_status": 200,
    "duration_ms": 12.52, "request_bytes": 1, "response_bytes": 420, "attempts": 1, "safe": True,
    "key_name": "billing agent", "interface": "mcp",
}  # fmt: skip
COUNTS = {
    "calls": 3, "errors": 1, "mean_ms": 5.25, "p50_ms": 4.0, "p95_ms": 9.0, "p99_ms": None, "max_ms": 9.5,
    "request_bytes": 1, "response_bytes": 20,
}  # fmt: skip


def event(name: str, value: dict[str, Any]) -> bytes:
    head = f"event: {name}\nid: {value.get('id', '')}\n" if name == "call" else f"event: {name}\n"
    return head.encode() + b"data: " + orjson.dumps(value) + b"\n\n"


def stream(*pieces: bytes) -> StreamingResponse:
    async def content() -> Any:
        for piece in pieces:
            yield piece

    return StreamingResponse(content(), media_type="text/event-stream")


def numbered(number: int, **changed: Any) -> dict[str, Any]:
    return {**CALL, "id": f"019a0000-0000-7000-8000-{number:012}", **changed}


REVOKED = {"type": "urn:utcp-gateway:problem:unauthenticated", "title": "Revoked", "status": 401}
STOPPING = {"type": "urn:utcp-gateway:problem:stopping", "title": "Stopping", "status": 503}


def test_tail_continues_after_a_lost_connection_and_ends_when_the_key_is_revoked(run: Run, stub: Any) -> None:
    first = event("call", numbered(1))
    stub.on(
        "GET",
        "/calls/stream",
        stream(b": heartbeat\n\n", first[:20], first[20:]),
        stream(event("call", numbered(1)), event("call", numbered(2)), event("gateway-error", STOPPING)),
        stream(event("call", numbered(3, tool="library.\x1b[2Jb")), event("gateway-error", REVOKED)),
    )
    done = run("calls", "tail", "--provider", "library", "--slower-than", "5", "--interface", "mcp", "--json")
    assert [orjson.loads(line)["id"][-1] for line in done.out.splitlines()[:3]] == ["1", "2", "3"]
    assert done.code == 1
    assert "Revoked" in done.err
    assert done.err.count("connecting again") == 2
    assert stub.seen[0].query == {"provider": "library", "interface": "mcp", "min_duration_ms": "5.0"}
    assert [seen.headers.get("last-event-id", "")[-1:] for seen in stub.seen] == ["", "1", "2"]


def test_tail_writes_a_line_without_control_characters_for_each_call(run: Run, stub: Any) -> None:
    evil = numbered(1, tool="library.\x1b[2Jb")
    stub.on("GET", "/calls/stream", stream(event("call", evil), event("gateway-error", REVOKED)))
    done = run("calls", "tail")
    assert "\x1b" not in done.out
    assert done.out.split()[:2] == ["2026-11-22T09:00:00Z", "library.\ufffd[2Jb"]
    assert "12.5" in done.out
    assert "  mcp  " in done.out


def test_tail_fails_at_once_without_a_first_connection(run: Run, stub: Any) -> None:
    stub.problem("GET", "/calls/stream", status=503, slug="overloaded", title="Overloaded")
    assert run("calls", "tail").code == 1
    assert len(stub.seen) == 1


def test_stats_is_a_table_with_others_and_total(run: Run, stub: Any) -> None:
    point = {"at": "2026-11-22T09:00:00Z", **COUNTS}
    series = {"value": "library.a", "totals": COUNTS, "points": [point]}
    found = {
        "totals": {**COUNTS, "calls": 12}, "series": [series, {**series, "value": ""}],
        "other": {"values": 4, "totals": COUNTS, "points": []},
    }  # fmt: skip
    stub.on("GET", "/stats", found)
    done = run("stats", "--group", "tool", "--interval", "day", "--since", "7d", "--limit", "2")
    heading, *rows = done.out.splitlines()
    assert heading.split() == [
        "TOOL", "CALLS", "ERRORS", "MEAN", "MS", "P50", "P95", "P99", "MAX", "BYTES"
    ]  # fmt: skip
    assert rows[0].split() == ["library.a", "3", "1", "5.2", "4.0", "9.0", "9.5", "20"]
    assert [row.split("  ")[0] for row in rows[1:]] == ["(no such tool)", "(4 others)", "(total)"]
    assert {name: stub.seen[0].query[name] for name in ("group", "interval", "limit")} == {
        "group": "tool", "interval": "day", "limit": "2"
    }  # fmt: skip
    assert len(run("stats", "--points").out.splitlines()) == 7
    assert run("stats", "--json").json() == found


def test_stats_says_how_far_search_by_meaning_is(run: Run, stub: Any) -> None:
    vectors = {"state": "encoding", "model": "all-MiniLM-L6-v2", "encoded": 5, "total": 9}
    found = {"totals": COUNTS, "series": [{"value": "library.a", "totals": COUNTS, "points": []}], "other": None}
    for status, said in (
        (vectors, "Search by meaning (all-MiniLM-L6-v2): encoding, 5 of 9 tools encoded.\n"),
        ({**vectors, "state": "off", "model": None}, ""),
        (None, ""),
    ):
        stub.on("GET", "/stats", {**found, "search_vectors": status})
        assert run("stats").err == said


def test_stats_without_calls_says_so(run: Run, stub: Any) -> None:
    stub.on("GET", "/stats", {"totals": {**COUNTS, "calls": 0}, "series": [], "other": None})
    assert run("stats").err == "Nothing to show.\n"


def test_calls_and_statistics_name_the_caller_and_else_its_id(run: Run, stub: Any) -> None:
    hidden = numbered(2, key_id="k2", key_name=None)
    stub.on("GET", "/calls", {"items": [numbered(1), hidden], "next_cursor": None})
    shown = run("calls", "list").out
    assert "CALLER" in shown
    assert [name in shown for name in ("billing agent", "k1", "k2")] == [True, False, True]
    series = [
        {"value": "k1", "key_name": "billing agent", "totals": COUNTS, "points": []},
        {"value": "k2", "key_name": None, "totals": COUNTS, "points": []},
    ]
    stub.on("GET", "/stats", {"series": series, "other": None, "totals": COUNTS})
    shown = run("stats", "--group", "key").out
    assert [name in shown for name in ("billing agent", "k1", "k2")] == [True, False, True]
