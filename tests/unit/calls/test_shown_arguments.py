"""What whoever decides about a call sees of it is what is sent, but for what is listed as hidden."""

import base64
import json
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from app.calls.arguments.shown import (
    HiddenPart,
    Shown,
    show_arguments,
    show_request,
    without_hidden_at,
)
from app.core import exact_json
from app.core.text import pointer
from app.protocols.shared.described import describe_body, describe_headers, describe_message
from app.security.masking import Masker
from tests.harness.cases import for_each

PIN = {"type": "string", "writeOnly": True}
KNOWN = "canary-4711-known"


def masker(*values: str) -> Masker:
    found = Masker()
    for value in values:
        found.add(value)
    return found


def deep(levels: int) -> Any:
    value: Any = "bottom"
    for _ in range(levels):
        value = {"a": value}
    return value


@for_each(
    "value",
    [
        "https://bank.example/transfer?to=X&amount=1000000",
        "https://user:password@bank.example/",
        "Send Bearer abcdefghijklmnop to them",
        "password=hunter2hunter2",
        "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.abcdef",
        "ghp_abcdefghijklmnopqrstuvwxyz",
        "x" * 20_001 + " and pay 1000000",
        {"api_key": 4711, "token": ["x"], "password": {"a": "b"}},
        deep(100),
        deep(240),
        "***",
        "...",
        Decimal("0.1000000000000000055511151231257827"),
        {"on": True, "none": None, "list": [1, {"a": "b"}]},
    ],
)
def test_nothing_is_hidden_by_its_name_shape_length_or_depth(value):
    shown = show_arguments({"q": value}, {"type": "object"}, masker(KNOWN))
    assert (shown.value, shown.hidden) == ({"q": value}, ())


def test_what_is_hidden_is_listed_with_its_reason_and_size():
    inputs = {"properties": {"pin": PIN, "list": {"items": {"properties": {"pin": PIN}}}, "a/b": PIN}}
    arguments = {
        "pin": "1234",
        "list": [{"pin": {"a": 1}, "n": 1}],
        "a/b": "x",
        "q": f"is it {KNOWN}?",
        KNOWN: 1,
        "n": 47114711,
    }
    shown = show_arguments(arguments, inputs, masker(KNOWN, "47114711"), at="/arguments")
    assert shown.value == {
        "pin": "***",
        "list": [{"pin": "***", "n": 1}],
        "a/b": "***",
        "q": "is it ***?",
        "***": 1,
        "n": "***",
    }
    assert [(part.pointer, part.reason, part.bytes) for part in shown.hidden] == [
        ("/arguments/pin", "declared-secret", 6),
        ("/arguments/list/0/pin", "declared-secret", 7),
        ("/arguments/a~1b", "declared-secret", 3),
        ("/arguments/q", "known-secret", 26),
        ("/arguments/***", "known-secret", 19),
        ("/arguments/n", "known-secret", 8),
    ]
    assert without_hidden_at(shown.hidden, ["/arguments/list", "/arguments/q"]) == (
        shown.hidden[0],
        *shown.hidden[2:3],
        *shown.hidden[4:],
    )


def test_members_whose_names_are_masked_remain_different_members():
    other = f"{KNOWN}-other"
    shown = show_arguments({KNOWN: 1, other: 2, "***": 3}, {}, masker(KNOWN, other))
    assert shown.value == {"****": 1, "*****": 2, "***": 3}
    assert [part.pointer for part in shown.hidden] == ["/****", "/*****"]


def test_values_whose_schemas_are_too_many_to_read_are_hidden_and_listed():
    alternatives = {"anyOf": [{"type": "string", "maxLength": n} for n in range(2_000)]}
    shown = show_arguments({"list": ["x"] * 200}, {"properties": {"list": {"items": alternatives}}}, Masker())
    assert shown.value["list"][0] == "x"
    assert shown.value["list"][-1] == "***"
    assert (shown.hidden[-1].pointer, shown.hidden[-1].reason) == ("/list/199", "too-large")
    assert len(shown.hidden) == shown.value["list"].count("***")


@for_each(
    ("arguments", "shown", "hidden"),
    [
        ({"q": "a", "list": ["x"] * 1_001}, {"q": "a", "list": "***"}, ["/list"]),
        ({"list": ["x"] * 999, "one": {"a": "b"}}, {"list": ["***"] * 999, "one": {"a": "b"}}, None),
        ({"list": [["x"] * 600, ["x"] * 600]}, {"list": [["***"] * 600, "***"]}, None),
        ({"list": [["x"] * 900] * 3_000}, {"list": "***"}, ["/list"]),
        ({"n" * 90_000: ["x", "x"], "q": "a"}, {"n" * 90_000: "***", "q": "a"}, ["/" + "n" * 90_000]),
        ({name * 60_000: ["x"] for name in "abc"}, {}, [""]),
    ],
)
def test_more_hidden_parts_than_are_listed_are_hidden_with_what_is_around_them(arguments, shown, hidden):
    strings = {"type": "string", "format": "password"}
    inputs = {
        "properties": {"list": {"items": {**strings, "items": strings}}},
        "additionalProperties": {"items": strings},
    }
    if isinstance(arguments.get("list", [""])[0], list):
        inputs = {"properties": {"list": {"items": {"items": strings}}}}
    found = show_arguments(arguments, inputs, Masker())
    assert found.value == shown
    assert len(found.hidden) <= 1_000
    if hidden is not None:
        assert [(part.pointer, part.reason) for part in found.hidden] == [(hidden[0], "too-large")]
        request = show_request({"body": arguments}, arguments, inputs, Masker())
        assert (request.value, len(request.hidden)) == (None, 1)


def test_arguments_that_are_hidden_as_a_whole_are_an_object():
    shown = show_arguments({"a": "b"}, {"writeOnly": True}, Masker(), at="/arguments")
    assert (shown.value, [part.pointer for part in shown.hidden]) == ({}, ["/arguments"])


NAMES = st.sampled_from(["q", "password", "api_key", "pin", "a/b", "~", KNOWN, "url", "***"])
TEXTS = st.one_of(
    st.text('aZ0é😀 \n\t"\\/~\u202e\x00', max_size=20),
    st.sampled_from(
        [
            "https://a:b@c.example/x?y=z",
            "Bearer abcdefghijkl",
            f"x{KNOWN}y",
            KNOWN,
            "***",
            "token=abcdefgh",
            "y" * 25_000,
        ]
    ),
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**64 - 1), st.floats(allow_nan=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(NAMES, inner, max_size=4)),
    max_leaves=20,
)
SCHEMAS = st.sampled_from(
    [
        {},
        {"properties": {"pin": PIN}},
        {"properties": {"q": {"format": "password"}, "url": {"properties": {"pin": PIN}}}},
        {"additionalProperties": {"anyOf": [{"items": PIN}, {"type": "string"}]}},
    ]
)


def unlisted_differences(shown: Any, sent: Any, hidden: set[str], at: str = "") -> list[str]:
    """Return the pointers at which what is shown differs from what is sent, without being listed."""
    if at in hidden:
        return []
    if isinstance(shown, dict) and isinstance(sent, dict) and len(shown) == len(sent):
        found = []
        # The members are in the same order.
        for (name, member), (sent_name, sent_member) in zip(shown.items(), sent.items(), strict=True):
            below = pointer(at, name)
            if name != sent_name and below not in hidden:
                found.append(below)
            found += unlisted_differences(member, sent_member, hidden, below)
        return found
    if isinstance(shown, list) and isinstance(sent, list) and len(shown) == len(sent):
        return [
            one
            for index, pair in enumerate(zip(shown, sent, strict=True))
            for one in unlisted_differences(*pair, hidden, pointer(at, index))
        ]
    return [] if type(shown) is type(sent) and shown == sent else [at]


@given(st.dictionaries(NAMES, VALUES, max_size=5), SCHEMAS)
def test_what_is_shown_and_not_listed_equals_what_is_sent(arguments, inputs):
    sent = exact_json.loads(exact_json.dumps(arguments))
    shown = show_arguments(arguments, inputs, masker(KNOWN))
    value = exact_json.loads(exact_json.dumps(shown.value))
    hidden = {part.pointer for part in shown.hidden}
    assert unlisted_differences(value, sent, hidden) == []
    assert hidden or value == sent
    assert KNOWN not in exact_json.dumps(value).decode()


@given(st.dictionaries(NAMES, VALUES, max_size=5), st.sampled_from([{}, {"pin": "canary/4711"}]))
def test_what_is_shown_and_not_listed_of_a_request_equals_what_is_sent(body, arguments):
    request = {"url": "https://bank.example/?pin=canary%2F4711&amount=1", "body": body}
    sent = exact_json.loads(exact_json.dumps(request))
    shown = show_request(request, arguments, {"properties": {"pin": PIN}}, masker(KNOWN))
    value = exact_json.loads(exact_json.dumps(shown.value))
    hidden = {part.pointer for part in shown.hidden}
    assert unlisted_differences(value, sent, hidden) == []
    assert ("/url" in hidden) is bool(arguments)


def test_a_request_shows_everything_but_declared_secrets():
    inputs = {"properties": {"pin": PIN}}
    arguments = {"pin": "canary/4711", "to": "X"}
    request = {
        "method": "POST",
        "url": "https://bank.example/transfer?to=X&amount=1000000&pin=canary%2F4711",
        "headers": {"X-Pin": "canary/4711", "Authorization": "***"},
        "body": {"token": "t", "pin": "canary/4711", "file": {"base64": "Y2FuYXJ5LzQ3MTE="}},
    }
    shown = show_request(request, arguments, inputs, Masker(), at="/request")
    assert shown.value == {
        "method": "POST",
        "url": "https://bank.example/transfer?to=X&amount=1000000&pin=***",
        "headers": {"X-Pin": "***", "Authorization": "***"},
        "body": {"token": "t", "pin": "***", "file": {"base64": "***"}},
    }
    assert [(part.pointer, part.reason) for part in shown.hidden] == [
        (one, "declared-secret")
        for one in (
            "/request/url",
            "/request/headers/X-Pin",
            "/request/body/pin",
            "/request/body/file/base64",
        )
    ]


@for_each(
    ("arguments", "reason"),
    [
        ({"pin": "12"}, "declared-secret"),
        ({"pin": ["abcdefgh", 7]}, "declared-secret"),
        ({"pin": [f"secret-{n}" for n in range(1_000)]}, "too-large"),
        ({"pin": "x" * 200_000}, "too-large"),
    ],
)
def test_a_request_is_hidden_where_its_secrets_cannot_be_found(arguments, reason):
    shown = show_request({"url": "x"}, arguments, {"properties": {"pin": PIN}}, Masker(), at="/request")
    assert shown.value is None
    assert [(part.pointer, part.reason) for part in shown.hidden] == [("/request", reason)]


def test_a_body_that_is_described_by_its_size_is_listed():
    shown = show_request({"body": describe_body(b"x" * 70_000)}, {}, {}, Masker(), at="/request")
    assert shown.value == {"body": {"bytes": 70_000}}
    assert [(part.pointer, part.reason, part.bytes) for part in shown.hidden] == [
        ("/request/body", "too-large", 70_000)
    ]


@for_each("body", [{"bytes": 12}, {"bytes": "abc"}, {"bytes": None}])
def test_a_body_that_looks_like_the_size_of_one_is_shown(body):
    for request in ({"body": body}, {"body": describe_body(exact_json.dumps(body))}):
        shown = show_request(request, {}, {}, Masker(), at="/request")
        assert (shown.value, shown.hidden) == (request, ())


@for_each("levels", [253, 254, 1_000, 20_000])
def test_a_request_that_cannot_be_written_is_hidden_and_listed(levels):
    shown = show_request({"body": deep(levels)}, {}, {}, Masker(), at="/request")
    # The request has nine characters, each object of its body six, and the text eight.
    assert shown == Shown(None, (HiddenPart("/request", "too-large", 9 + 6 * levels + 8),))


SENT_BODIES = st.one_of(
    st.binary(max_size=20),
    st.text(max_size=20).map(str.encode),
    VALUES.map(exact_json.dumps),
    VALUES.map(lambda value: json.dumps(value).encode()),
    st.sampled_from(
        [
            b'{"amount":1,"amount":1000000}',
            b'{"amount":1.0e0}',
            b'{"amount":0.1000000000000000055511151231257827}',
            b'{"amount":1e400}',
            b"[" * 300,
            b"[" * 300 + b"]" * 300,
            b"[" * 253 + b"]" * 253,
            b'{"base64":"eA=="}',
            b'{"bytes":12}',
            b"null",
            b'"null"',
            b'"\\ud800"',
            b"\xef\xbb\xbf{}",
            b"x" * 70_000,
        ]
    ),
)


def sent_body(described: Any) -> bytes:
    """Return the only body of at most 64 KiB that is described like this."""
    if isinstance(described, str):
        return described.encode()
    if isinstance(described, dict) and described.keys() == {"base64"}:
        return base64.b64decode(described["base64"])
    return exact_json.dumps(described)


@given(SENT_BODIES)
def test_a_raw_body_is_shown_as_it_is_sent_or_listed(body):
    shown = show_request({"body": describe_body(body)}, {}, {}, Masker(), at="/request")
    if shown.hidden:
        assert len(body) > 65_536
    else:
        assert sent_body(shown.value["body"]) == body


@given(st.one_of(SENT_BODIES.map(lambda body: body.decode("latin-1")), VALUES.map(json.dumps)))
def test_a_message_of_text_is_shown_as_it_is_sent(text):
    shown = describe_message(text)
    assert shown == text or exact_json.dumps(shown).decode() == text or json.dumps(shown) == text
    exact_json.dumps({"request": {"body": shown}})


def test_all_values_of_a_repeated_header_are_shown():
    headers = [("X-To", "mine"), ("Accept", "*/*"), ("X-To", "other")]
    assert describe_headers(headers) == {"X-To": ["mine", "other"], "Accept": "*/*"}
