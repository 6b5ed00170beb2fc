"""From pieces of an upstream's answer to events, wherever the pieces are cut."""

import asyncio
import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import ResponseTooLarge
from app.outbound.framing import LineParser, SequenceParser, SseParser, StreamEvent, parse_events
from tests.harness.cases import for_each

_TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n\x00"), max_size=12)


def cut(body: bytes, cuts: list[int]) -> list[bytes]:
    places = [0, *sorted(place % (len(body) + 1) for place in cuts), len(body)]
    return [body[start:end] for start, end in itertools.pairwise(places)]


def parsed(parser, pieces: list[bytes]) -> list[StreamEvent]:
    return [event for piece in pieces for event in parser.feed(piece)] + list(parser.end())


def framing(pieces: list[bytes], media_type: str, *, most: int = 1 << 20) -> list[StreamEvent]:
    async def arriving():
        for piece in pieces:
            yield piece

    async def run():
        return [event async for event in parse_events(arriving(), media_type, max_bytes=most)]

    return asyncio.run(run())


@given(
    events=st.lists(st.tuples(_TEXT, st.none() | _TEXT, st.lists(_TEXT, min_size=1, max_size=3)), max_size=5),
    end=st.sampled_from(["\n", "\r", "\r\n"]),
    space=st.sampled_from(["", " "]),
    bom=st.booleans(),
    cuts=st.lists(st.integers(0, 400), max_size=12),
)
def test_an_event_stream_is_read_the_same_wherever_it_is_cut(events, end, space, bom, cuts):
    lines = []
    for name, mark, data in events:
        lines += [":a comment", f"event:{space}{name}"] + ([] if mark is None else [f"id:{space}{mark}"])
        lines += [f"data:{space}{line}" for line in data] + ["unknown: x", ""]
    body = ("\ufeff" if bom else "") + "".join(line + end for line in lines)
    read = parsed(SseParser(10_000), cut(body.encode(), cuts))

    def heard(text):
        return text[1:] if not space and text.startswith(" ") else text

    assert [(event.name, event.id, event.data.decode()) for event in read] == [
        (heard(name), None if mark is None else heard(mark), "\n".join(map(heard, data)))
        for name, mark, data in events
    ]


@for_each(
    ("body", "expected"),
    [
        (b"data\n\n", [StreamEvent(b"")]),
        (b"data:  two\n\n", [StreamEvent(b" two")]),
        (b"event: only\n\ndata: x\n\n", [StreamEvent(b"x")]),
        (b"id: 7\n\ndata: x\n\ndata: y\n\n", [StreamEvent(b"x", id="7"), StreamEvent(b"y")]),
        (b"id: a\x00b\ndata: x\n\n", [StreamEvent(b"x")]),
        (b"id\ndata: x\n\n", [StreamEvent(b"x", id="")]),
        (b"retry: 250\ndata: x\n\n", [StreamEvent(b"x", retry=250)]),
        (b"retry: 2s\ndata: x\n\n", [StreamEvent(b"x")]),
        (b"data: \xff\n\n", [StreamEvent("\ufffd".encode())]),
        (b"data: x\n", []),
        (b"\n\n\n:\n\n", []),
        (b"data:x\r\r", [StreamEvent(b"x")]),
        (b"data:x\r\n\r\n", [StreamEvent(b"x")]),
        (b"Data: x\n\n", []),
    ],
)
def test_edge_cases_of_server_sent_events(body, expected):
    assert parsed(SseParser(1000), [body]) == expected
    assert parsed(SseParser(1000), [bytes([byte]) for byte in body]) == expected


def test_an_empty_piece_between_the_two_ends_of_a_line_changes_nothing():
    read = parsed(SseParser(1000), [b"data: 1\r", b"", b"\ndata: 2\r\n\r\n"])
    assert read == [StreamEvent(b"1\n2")]


@for_each("line", [b"data: ", b"", b": "])
@for_each("size", [1, 7, 64])
def test_an_event_or_line_without_end_is_rejected_before_it_fills_the_memory(line, size):
    parser = SseParser(1000)
    with pytest.raises(ResponseTooLarge):
        parsed(parser, [line, *[b"x" * size] * 2000])
    assert len(parser._line) <= 1000 + size


def test_many_lines_of_one_event_count_together():
    with pytest.raises(ResponseTooLarge):
        parsed(SseParser(1000), [b"data\n"] * 1001)


_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=5,
)


@given(
    values=st.lists(_VALUES, max_size=6), cuts=st.lists(st.integers(0, 300), max_size=12), whole=st.booleans()
)
def test_lines_of_json_are_read_the_same_wherever_they_are_cut(values, cuts, whole):
    body = "\r\n".join(json.dumps(value, ensure_ascii=False) for value in values) + ("\n\n" if whole else "")
    read = parsed(LineParser(10_000), cut(body.encode(), cuts))
    assert [(event.kind, json.loads(event.data)) for event in read] == [("json", value) for value in values]


def test_edge_cases_of_json_lines():
    body = b'{"a":1}\n\nno json\n\xff\n 12 \nNaN\n[1'
    read = parsed(LineParser(100), [body])
    assert [(event.kind, event.data) for event in read] == [
        ("json", b'{"a":1}'),
        ("text", b"no json"),
        ("text", "\ufffd".encode()),
        ("json", b"12"),
        ("text", b"NaN"),
        ("text", b"[1"),
    ]
    with pytest.raises(ResponseTooLarge):
        parsed(LineParser(100), [b"x" * 60, b"x" * 60])
    with pytest.raises(ResponseTooLarge):
        parsed(LineParser(100), [b"x" * 150 + b"\n"])


@given(values=st.lists(_VALUES, max_size=6), cuts=st.lists(st.integers(0, 300), max_size=12))
def test_json_text_sequences_are_split_at_their_separators_wherever_they_are_cut(values, cuts):
    body = "".join(f"\x1e{json.dumps(value, indent=1, ensure_ascii=False)}\n" for value in values)
    read = parsed(SequenceParser(10_000), cut(body.encode(), cuts))
    assert [(event.kind, json.loads(event.data)) for event in read] == [("json", value) for value in values]


@pytest.mark.parametrize(
    ("body", "events"),
    [
        # RFC 7464 section 2.1: separators without a text, and a text that is not JSON, lose no other.
        (b'\x1e\x1e{"a":\n1}\n\x1e\n\x1e{"b"\n\x1e[1]', [("json", b'{"a":\n1}'), ("text", b'{"b"'), ("json", b"[1]")]),
        # Section 2.4: what may have been truncated is dropped, unless it has an end of its own.
        (b'\x1e12\x1e12\n\x1etrue\x1enull \x1e"x"\x1e-1', [("json", b"12"), ("json", b"null"), ("json", b'"x"')]),
        (b'{"before": 1}\n\x1e2\n', [("json", b'{"before": 1}'), ("json", b"2")]),
        (b"\x1e1\n2\n\x1e3\n", [("text", b"1\n2"), ("json", b"3")]),
    ],
)  # fmt: skip
def test_edge_cases_of_json_text_sequences(body, events):
    for media in ("application/json-seq", "Application/JSON-Seq; x=1"):
        assert [(event.kind, event.data) for event in framing([body], media)] == events
    with pytest.raises(ResponseTooLarge):
        parsed(SequenceParser(100), [b"\x1e" + b"\n" * 101])


def test_json_is_one_event_whatever_its_charset():
    assert framing([b'{"a":', b" 1}"], "application/json") == [StreamEvent(b'{"a": 1}', "json")]
    assert framing(["[1]".encode("utf-16")], "application/json; charset=utf-16") == [
        StreamEvent(b"[1]", "json")
    ]
    assert framing([b"\xef\xbb\xbf1"], "application/hal+json") == [StreamEvent(b"1", "json")]
    assert framing([b"<oops>"], "application/json") == [StreamEvent(b"<oops>", "text")]
    assert framing([], "application/json") == []
    with pytest.raises(ResponseTooLarge, match="Accept: application/json"):
        framing([b"1" * 60, b"1" * 60], "application/json", most=100)


def test_text_is_passed_on_by_pieces_and_no_character_is_cut():
    assert framing(["é€".encode()[:2], "é€".encode()[2:4], "é€".encode()[4:]], "text/plain") == [
        StreamEvent("é".encode(), "text"),
        StreamEvent("€".encode(), "text"),
    ]
    assert framing([b"\xe9"], "text/plain; charset=iso-8859-1") == [StreamEvent("é".encode(), "text")]
    assert framing([b"a\xc3"], "text/plain") == [
        StreamEvent(b"a", "text"),
        StreamEvent("\ufffd".encode(), "text"),
    ]
    assert framing([b"a"], "text/plain; charset=iso-8859-99") == [StreamEvent(b"a", "text")]
    assert framing([b"\x89P", b"NG"], "image/png") == [
        StreamEvent(b"\x89P", "bytes"),
        StreamEvent(b"NG", "bytes"),
    ]
    assert framing([b"x"], "") == [StreamEvent(b"x", "bytes")]
