"""No argument leaves its path segment, whatever it is and however the upstream decodes it."""

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st
from yarl import URL

from app.core.errors import InvalidArguments
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each
from tests.harness.examples import examples

BASE = "https://h.example"
HOSTILE = [
    "..", ".", "%2e%2e", "%2E.", "%252e%252e", "%25252e%25252e", "..;", "..;a=b", ".;x", "%2e%2e%3b",
    "../keys", "a/../b", "a%2f..%2fb", "..%2f", "..\\", "a\\b", "%5c..%5c", "\x00", "a\x00b", "%00", "%2500",
    "a\nb", "a\r", "\t", "\x7f", "\x85", "%0d%0a", "\uff0e\uff0e", "\u2025", "%ef%bc%8e%ef%bc%8e",
    "%c0%ae%c0%ae",
    "%u002e%u002e", "..%c0%af", " ..", ".. ", "/..", "../", "./", "/./", "%" + "25" * 40 + "2e", "",
]  # fmt: skip

hostile_text = st.one_of(
    st.sampled_from(HOSTILE),
    st.lists(
        st.sampled_from(
            [
                *HOSTILE,
                ".",
                "..",
                "/",
                "%2f",
                "%2e",
                "%25",
                ";",
                "\\",
                "?",
                "#",
                "&",
                "=",
                "{a}",
                "${T}",
                "a",
                "é",
                ":",
                "@",
            ]
        ),
        max_size=6,
    ).map("".join),
    st.text(max_size=12),
    st.text(alphabet="./%2eE5fF;\\ ", max_size=10),
)
scalars = st.one_of(
    hostile_text, st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)
values = st.one_of(
    scalars, st.none(), st.lists(scalars, max_size=3), st.dictionaries(hostile_text, scalars, max_size=3)
)

STYLES = [
    ("simple", False),
    ("simple", True),
    ("label", False),
    ("label", True),
    ("matrix", False),
    ("matrix", True),
]
OPENAPI = [
    compile_plan(
        {
            "url": f"{BASE}/v1/{{a}}/mid/{{b}}{{c}}/.{{c}}/{{a}}.json?fixed=1",
            "parameters": [
                {"input": name, "name": name, "in": "path", "style": style, "explode": explode}
                for name in "abc"
            ]
            + [{"input": "q", "name": "q", "in": "query"}],
        }
    )
    for style, explode in STYLES
]
UTCP = compile_plan({"url": f"{BASE}/v1/{{a}}/mid/{{b}}{{c}}/.{{c}}/{{a}}.json?fixed=1"})
ON_THE_WIRE = re.compile(
    r"https://h\.example/v1/[^/?#]+/mid/[^/?#]+/\.[^/?#]+/[^/?#]+\.json\?fixed=1[!-~]*", re.ASCII
)


def decoded_segments(path):
    for _ in range(60):
        yield from re.split(r"[/\\]", path)
        path = unquote(path)


def assert_in_place(url):
    assert ON_THE_WIRE.fullmatch(url)
    assert str(URL(url, encoded=True)) == url
    path = url.removeprefix(BASE).partition("?")[0]
    assert path.count("/") == 6
    assert not any(segment.partition(";")[0] in (".", "..") for segment in decoded_segments(path))
    assert not re.search(r"[\x00-\x20\x7f]", url)


@examples(150)
@given(plan=st.sampled_from([UTCP, *OPENAPI]), a=values, b=values, c=values, q=values)
def test_the_path_on_the_wire_always_matches_the_template(plan, a, b, c, q):
    try:
        request = plan.prepare({"a": a, "b": b, "c": c, "q": q})
    except InvalidArguments:
        return
    assert_in_place(request.url)


@examples(150)
@given(plan=st.sampled_from([UTCP, *OPENAPI]), value=values, name=st.sampled_from("abcq"))
def test_one_hostile_value_among_valid_ones(plan, value, name):
    try:
        request = plan.prepare({"a": "x", "b": "y", "c": 1, name: value})
    except InvalidArguments:
        return
    assert_in_place(request.url)


@for_each(
    ("value", "style"),
    [
        (value, style)
        for style in ("simple", "label", "matrix")
        for value in HOSTILE
        # `;a` is what the specification says of an empty value.
        if (value, style) != ("", "matrix")
    ],
)
def test_hostile_values_are_rejected_with_a_pointer(value, style):
    plan = compile_plan(
        {
            "url": f"{BASE}/{{a}}/x",
            "parameters": [{"input": "id/1", "name": "a", "in": "path", "style": style}],
        }
    )
    with pytest.raises(InvalidArguments) as caught:
        plan.prepare({"id/1": value})
    assert [fault.pointer for fault in caught.value.errors] == ["/id~11"]


@for_each(
    ("url", "arguments"),
    [
        ("{a}{b}", {"a": ".", "b": "."}),
        (".{a}", {"a": ";x"}),
        (".{a}", {"a": "."}),
        ("%2e{a}", {"a": ";"}),
        ("{a};x", {"a": ".."}),
        ("{a}.{b}", {"a": "", "b": "x"}),
    ],
)
def test_pieces_of_one_segment_do_not_add_up_to_dots(url, arguments):
    with pytest.raises(InvalidArguments):
        compile_plan({"url": f"{BASE}/{url}/x"}).prepare(arguments)


@for_each("value", [["", ""], ["..", "a"], ["."], [], {}, {"..": ""}, [None], ["", ";x"]])
@for_each("style", ["label", "simple"])
def test_items_of_lists_and_objects_are_no_way_out(value, style):
    spec = {"input": "a", "name": "a", "in": "path", "style": style, "explode": True}
    plan = compile_plan({"url": f"{BASE}/{{a}}/x", "parameters": [spec]})
    try:
        url = plan.prepare({"a": value}).url
    except InvalidArguments:
        return
    assert re.fullmatch(r"https://h\.example/[^/.][^/]*/x", url)


@for_each(
    ("value", "expected"),
    [
        ("feature/x", "feature%2Fx"),
        ("a.b", "a.b"),
        ("...", "..."),
        ("..a", "..a"),
        ("v1..v2", "v1..v2"),
        (".env", ".env"),
        ("50%", "50%25"),
        ("a%20b", "a%2520b"),
        ("me@example.com", "me%40example.com"),
        ("2026-01-01T00:00:00Z", "2026-01-01T00%3A00%3A00Z"),
        ("a b+c", "a%20b%2Bc"),
        ("日本", "%E6%97%A5%E6%9C%AC"),
        ("~user_1-2", "~user_1-2"),
        ("?q#f", "%3Fq%23f"),
    ],
)
def test_valid_values_pass(value, expected):
    assert compile_plan({"url": f"{BASE}/{{a}}/x"}).prepare({"a": value}).url == f"{BASE}/{expected}/x"


def test_a_value_encoded_many_times_over_takes_no_time():
    value = "%" + "25" * 200_000 + "2e"
    with pytest.raises(InvalidArguments):
        compile_plan({"url": f"{BASE}/{{a}}"}).prepare({"a": value})


@examples(50)
@given(value=values, other=values)
def test_no_argument_adds_a_header_or_splits_one(value, other):
    plan = compile_plan(
        {"url": BASE, "http_method": "POST", "header_fields": ["X-A"], "content_type": "text/plain"}
    )
    try:
        request = plan.prepare({"X-A": value, "body": other, "Host": "evil", "Authorization": "x"})
    except InvalidArguments:
        return
    assert {name for name, _ in request.headers} <= {"X-A", "Content-Type"}
    assert not any(re.search(r"[\x00-\x1f\x7f]", text) for _, text in request.headers)
