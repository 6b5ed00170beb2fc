"""The two forms in which a caller takes events, read back by parsers that know nothing of them."""

import base64
import json

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.api.streams.event_formats import event_format
from app.outbound.framing import StreamEvent
from tests.harness.cases import for_each
from tests.harness.examples import examples

SSE = event_format("text/event-stream")
LINES = event_format("application/x-ndjson")
_TEXT = st.text(st.characters(codec="utf-8"), max_size=12)
_EVENTS = st.builds(
    StreamEvent,
    st.text(st.characters(codec="utf-8"), max_size=20).map(str.encode),
    name=_TEXT,
    id=st.none() | _TEXT,
    retry=st.none() | st.integers(0, 10_000),
)


def heard(body: bytes) -> list[httpx2.ServerSentEvent]:
    """What httpx2's own reader of event streams makes of it."""
    response = httpx2.Response(
        200,
        headers={"content-type": "text/event-stream"},
        content=body,
        request=httpx2.Request("GET", "http://x"),
    )
    return list(httpx2.EventSource(response))


def lines(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


@examples(30)
@given(st.lists(_EVENTS, max_size=5))
def test_no_event_of_an_upstream_can_say_what_only_the_gateway_says(events):
    body = b"".join(SSE.event(event, "") for event in events) + SSE.ended({"ok": 1})
    read = heard(body)
    assert [one.data for one in read[:-1]] == [lines(event.data.decode()) for event in events]
    assert not any(one.event.startswith("gateway-") for one in read[:-1])
    assert (read[-1].event, read[-1].json()) == ("gateway-end", {"ok": 1})

    written = b"".join(LINES.event(event, "") for event in events) + LINES.ended({"ok": 1})
    *own, last = [json.loads(line) for line in written.split(b"\n")[:-1]]
    assert len(own) == len(events)
    assert not any("$gateway" in one for one in own)
    assert last == {"$gateway": {"end": {"ok": 1}}}


@for_each("name", ["gateway-end", "\0gateway-end", "g\ra\nteway-end", " gateway-error", "\0\t gateway-x"])
def test_no_name_becomes_one_of_the_gateways_by_what_is_taken_out_of_it(name):
    [event] = heard(SSE.event(StreamEvent(b"{}", name=name), ""))
    assert event.event.startswith("upstream-")


@for_each(
    ("event", "sse", "line"),
    [
        (StreamEvent(b"a\nb"), b"data: a\ndata: b\n\n", b'{"event":"message","data":"a\\nb"}\n'),
        (StreamEvent(b""), b"data: \n\n", b'{"event":"message","data":""}\n'),
        (
            StreamEvent(b'{"n":12345678901234567890123}', name="tick", id="7", retry=5),
            b'event: tick\nid: 7\nretry: 5\ndata: {"n":12345678901234567890123}\n\n',
            b'{"event":"tick","id":"7","retry":5,"data":{"n":12345678901234567890123}}\n',
        ),
        (
            StreamEvent(b"x", name="gateway-end"),
            b"event: upstream-gateway-end\ndata: x\n\n",
            b'{"event":"gateway-end","data":"x"}\n',
        ),
        (StreamEvent(b'{\r\n "a": 1}', "json"), b'data: {   "a": 1}\n\n', b'{   "a": 1}\n'),
        (
            StreamEvent(b'{"$gateway":1}', "json"),
            b'data: {"$gateway":1}\n\n',
            b'{"$upstream":{"$gateway":1}}\n',
        ),
        (
            StreamEvent(rb'{"\u0024gateway":1}', "json"),
            b'data: {"\\u0024gateway":1}\n\n',
            b'{"$upstream":{"\\u0024gateway":1}}\n',
        ),
        (StreamEvent(b'["$gateway"]', "json"), b'data: ["$gateway"]\n\n', b'["$gateway"]\n'),
        (StreamEvent(b"a\r\n", "text"), b'event: gateway-text\ndata: "a\\r\\n"\n\n', b'"a\\r\\n"\n'),
    ],
)
def test_each_kind_in_each_form(event, sse, line):
    assert SSE.event(event, "text/plain") == sse
    assert LINES.event(event, "text/plain") == line


def test_bytes_are_an_object_as_in_an_ordinary_response():
    expected = {"media_type": "image/png", "base64": base64.b64encode(b"\x89\x00").decode()}
    event = StreamEvent(b"\x89\x00", "bytes")
    assert json.loads(LINES.event(event, "Image/PNG; x=y")) == expected
    [read] = heard(SSE.event(event, "image/png"))
    assert (read.event, read.json()) == ("gateway-bytes", expected)


@pytest.mark.parametrize("form", [SSE, LINES])
def test_a_heartbeat_is_nothing_to_a_reader(form):
    body = (
        form.heartbeat
        + form.event(StreamEvent(b"1", "json"), "")
        + form.heartbeat
        + form.failed({"status": 502})
    )
    if form is SSE:
        assert [(one.event, one.data) for one in heard(body)] == [
            ("message", "1"),
            ("gateway-error", '{"status":502}'),
        ]
    else:
        read = [json.loads(line) for line in body.split(b"\n") if line]
        assert read == [1, {"$gateway": {"error": {"status": 502}}}]
