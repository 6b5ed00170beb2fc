"""The parts of the live tail: what is collected, and the events that are read and written."""

import orjson

from app.console.http.call_stream import MAX_ROWS, CollectedCalls, server_sent_event, sse_events


async def parts(*texts):
    for text in texts:
        yield text


async def test_events_are_read_however_they_are_cut():
    text = b': heartbeat\n\nevent: call\nid: 1\ndata: {"a":"b: c"}\n\nevent: gateway-error\ndata: {}\n\n'
    expected = [("", "", b""), ("call", "1", b'{"a":"b: c"}'), ("gateway-error", "", b"{}")]
    for size in (1, 2, 7, 30, 1_000):
        pieces = [text[at : at + size] for at in range(0, len(text), size)]
        assert [one async for one in sse_events(parts(*pieces))] == expected


def test_text_of_several_lines_is_one_event():
    made = server_sent_event("rows", "<tr>\n\n<td>\r\n</tr>\n", event_id="7").decode()
    assert made == "event: rows\nid: 7\ndata: <tr>\ndata: <td>\ndata: </tr>\n\n"


def test_only_the_newest_calls_are_taken_and_the_others_counted():
    collected = CollectedCalls()
    for number in range(500):
        collected.add(str(number), orjson.dumps({"n": number}))
    last, calls, left_out = collected.take()
    assert (last, left_out) == ("499", 500 - MAX_ROWS)
    assert [one["n"] for one in calls] == list(range(499, 499 - MAX_ROWS, -1))
    assert collected.take() == ("", [], 0)
    assert not collected.arrived.is_set()


def test_end_is_noticed_after_what_came_before_it():
    collected = CollectedCalls()
    collected.add("1", b"{}")
    collected.end({"type": "x:stopping"})
    collected.end()
    assert collected.take() == ("1", [{}], 0)
    assert collected.arrived.is_set()
    assert collected.problem == {"type": "x:stopping"}
