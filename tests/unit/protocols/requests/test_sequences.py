"""Lists as bodies of sequential media types."""

from typing import Any

import pytest

from app.core.errors import InvalidArguments
from app.protocols.requests.plan_compiler import compile_plan


def body(media: str, value: Any) -> bytes | None:
    template = {"url": "https://api.example.com/a", "http_method": "POST", "parameters": []}
    prepared = compile_plan({**template, "body": {"content_type": media}}).prepare({"body": value})
    assert prepared.headers == [("Content-Type", media)]
    return prepared.body


@pytest.mark.parametrize(
    "media", ["application/jsonl", "application/x-ndjson", "application/ndjson; charset=utf-8"]
)
def test_json_lines(media: str) -> None:
    assert body(media, [{"a": "é\n"}, 1, None]) == '{"a":"é\\n"}\n1\nnull\n'.encode()


@pytest.mark.parametrize("media", ["application/json-seq", "application/geo+json-seq"])
def test_json_text_sequences(media: str) -> None:
    assert body(media, [{"a": 1}, 12]) == b'\x1e{"a":1}\n\x1e12\n'


def test_text_is_sent_as_it_is() -> None:
    assert body("application/jsonl", '{"a":1}\n') == b'{"a":1}\n'
    assert body("text/event-stream", "data: 1\n\n") == b"data: 1\n\n"


def test_an_empty_sequence() -> None:
    assert body("application/jsonl", []) == b""


def test_events() -> None:
    # The example of OAS 3.2.0, Server-Sent Event Streams.
    events = [
        {"event": "addString", "data": "This data is formatted\nacross two lines", "retry": 5},
        {"event": "addJSON", "data": {"foo": 42}, "id": "7"},
        "plain",
        {"event": "ping"},
    ]
    assert body("text/event-stream", events) == (
        b"event: addString\nretry: 5\ndata: This data is formatted\ndata: across two lines\n\n"
        b'event: addJSON\nid: 7\ndata: {"foo":42}\n\ndata: plain\n\nevent: ping\n\n'
    )


@pytest.mark.parametrize(
    ("event", "pointer"),
    [
        ({"event": "a\ndata: b"}, "/body/0/event"),
        ({"id": "\0"}, "/body/0/id"),
        ({"name": "x"}, "/body/0/name"),
    ],
)
def test_a_field_never_begins_another_one(event: Any, pointer: str) -> None:
    with pytest.raises(InvalidArguments) as rejected:
        body("text/event-stream", [event])
    assert [error.pointer for error in rejected.value.errors] == [pointer]
