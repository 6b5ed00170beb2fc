"""What an Accept header says."""

from app.agents.call.content_negotiation import parse_accept
from tests.harness.cases import for_each


@for_each(
    ("accept", "media", "only"),
    [
        ("application/json", "text/plain", True),
        ("application/json", "application/json", True),
        ("Application/JSON;q=0.9", "image/png", True),
        ("application/json", "", True),
        ("application/json, text/plain", "text/plain", False),
        ("application/json, text/*", "text/plain", False),
        ("application/json, text/plain;q=0", "text/plain", True),
        ("application/json, */*", "text/plain", False),
        ("*/*", "text/plain", False),
        ("", "text/plain", False),
        ("text/plain", "text/plain", False),
        ("application/json;q=0", "text/plain", False),
        ("application/json;q=0.000", "text/plain", False),
        ("application/json;q=nan", "text/plain", False),
        ("application/json;q=x", "text/plain", True),
        (",;,", "text/plain", False),
    ],
)
def test_who_takes_nothing_but_json(accept, media, only):
    assert parse_accept(accept).only_json(media) is only


@for_each(
    ("accept", "form"),
    [
        ("*/*", ""),
        ("application/json", ""),
        ("text/*", ""),
        ("text/event-stream", "text/event-stream"),
        ("application/x-ndjson", "application/x-ndjson"),
        ("Application/JSONL", "application/jsonl"),
        ("text/event-stream;q=0", ""),
        ("text/event-stream;q=0.5, application/x-ndjson", "application/x-ndjson"),
        ("application/x-ndjson, text/event-stream", "application/x-ndjson"),
        ("application/json, text/event-stream", "text/event-stream"),
    ],
)
def test_who_takes_events(accept, form):
    assert parse_accept(accept).events == form


@for_each(
    ("accept", "only"),
    [
        ("application/x-ndjson;form=values", True),
        ("application/jsonl; q=0.5; form=values", True),
        ("application/x-ndjson", False),
        ("application/x-ndjson;form=other", False),
        ("text/event-stream;form=values", False),
        ("text/event-stream, application/x-ndjson;form=values;q=0.1", False),
    ],
)
def test_who_takes_only_the_values_of_events(accept, only):
    assert parse_accept(accept).only_values is only


@for_each(
    ("accept", "media", "events"),
    [
        ("text/event-stream", "application/json", True),
        ("text/event-stream", "image/png", True),
        ("text/event-stream", "", True),
        ("application/json, text/event-stream", "application/json", False),
        ("application/json, text/event-stream", "image/png", False),
        ("application/json, text/event-stream", "text/event-stream", True),
        ("application/json, text/event-stream", "application/x-ndjson", True),
        ("text/event-stream, */*;q=0.1", "text/plain", False),
        ("text/event-stream, text/plain", "text/plain", False),
        ("text/event-stream, text/plain", "image/png", True),
    ],
)
def test_what_is_no_stream_is_one_only_for_a_client_that_takes_nothing_else(accept, media, events):
    assert parse_accept(accept).as_events(media) is events
