"""The tables of OAS 3.1 (Style Examples) and RFC 6570, and what the documents leave open."""

import pytest

from app.core.errors import InvalidArguments
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each

ARRAY = ["blue", "black", "brown"]
OBJECT = {"R": 100, "G": 200, "B": 150}


def wire(location, value, **spec):
    path = "/x/{color}" if location == "path" else "/x"
    template = {
        "url": f"https://h.example{path}",
        "parameters": [{"input": "c", "name": "color", "in": location, **spec}],
    }
    request = compile_plan(template).prepare({"c": value})
    match location:
        case "path":
            return request.url.removeprefix("https://h.example/x/")
        case "query":
            return request.url.removeprefix("https://h.example/x").removeprefix("?")
        case _:
            return dict(request.headers).get("Cookie" if location == "cookie" else "color")


@for_each(
    ("style", "explode", "value", "expected"),
    [
        ("matrix", False, "", ";color"),
        ("matrix", False, "blue", ";color=blue"),
        ("matrix", False, ARRAY, ";color=blue,black,brown"),
        ("matrix", False, OBJECT, ";color=R,100,G,200,B,150"),
        ("matrix", True, "", ";color"),
        ("matrix", True, "blue", ";color=blue"),
        ("matrix", True, ARRAY, ";color=blue;color=black;color=brown"),
        ("matrix", True, OBJECT, ";R=100;G=200;B=150"),
        ("matrix", False, 7, ";color=7"),
        ("matrix", True, 7, ";color=7"),
        ("label", False, 7, ".7"),
        ("label", True, 7, ".7"),
        ("label", False, "blue", ".blue"),
        ("label", False, ARRAY, ".blue,black,brown"),
        ("label", False, OBJECT, ".R,100,G,200,B,150"),
        ("label", True, "blue", ".blue"),
        ("label", True, ARRAY, ".blue.black.brown"),
        ("label", True, OBJECT, ".R=100.G=200.B=150"),
        ("simple", False, "blue", "blue"),
        ("simple", False, ARRAY, "blue,black,brown"),
        ("simple", False, OBJECT, "R,100,G,200,B,150"),
        ("simple", True, "blue", "blue"),
        ("simple", True, ARRAY, "blue,black,brown"),
        ("simple", True, OBJECT, "R=100,G=200,B=150"),
        ("pipeDelimited", False, ARRAY, "blue%7Cblack%7Cbrown"),
        ("simple", False, "a b/c,d", "a%20b%2Fc%2Cd"),
        ("simple", False, ["a,b", "c"], "a%2Cb,c"),
        ("simple", False, True, "true"),
        ("simple", False, 3.0, "3"),
        ("simple", False, 1.5, "1.5"),
        ("simple", False, -7, "-7"),
        ("simple", False, "日", "%E6%97%A5"),
    ],
)
def test_path_styles(style, explode, value, expected):
    assert wire("path", value, style=style, explode=explode) == expected


@for_each(
    ("style", "explode", "value", "expected"),
    [
        ("form", False, "", "color="),
        ("form", False, "blue", "color=blue"),
        ("form", False, ARRAY, "color=blue,black,brown"),
        ("form", False, OBJECT, "color=R,100,G,200,B,150"),
        ("form", True, "", "color="),
        ("form", True, "blue", "color=blue"),
        ("form", True, ARRAY, "color=blue&color=black&color=brown"),
        ("form", True, OBJECT, "R=100&G=200&B=150"),
        (None, None, ARRAY, "color=blue&color=black&color=brown"),
        ("spaceDelimited", False, ARRAY, "color=blue%20black%20brown"),
        ("spaceDelimited", False, OBJECT, "color=R%20100%20G%20200%20B%20150"),
        ("spaceDelimited", True, ARRAY, "color=blue&color=black&color=brown"),
        ("pipeDelimited", False, ARRAY, "color=blue%7Cblack%7Cbrown"),
        ("pipeDelimited", False, OBJECT, "color=R%7C100%7CG%7C200%7CB%7C150"),
        ("tabDelimited", False, ARRAY, "color=blue%09black%09brown"),
        ("deepObject", True, OBJECT, "color%5BR%5D=100&color%5BG%5D=200&color%5BB%5D=150"),
        (
            "deepObject",
            True,
            {"a": {"b": [1, True]}},
            "color%5Ba%5D%5Bb%5D%5B0%5D=1&color%5Ba%5D%5Bb%5D%5B1%5D=true",
        ),
        ("deepObject", True, {"a": None, "b": 1}, "color%5Bb%5D=1"),
        ("form", True, [], ""),
        ("form", False, [], ""),
        ("form", True, {}, ""),
        ("deepObject", True, {}, ""),
        ("form", True, [None, 1, None], "color=1"),
        ("form", True, [{"a": 1}], "color=%7B%22a%22%3A1%7D"),
        ("form", True, None, ""),
        ("form", True, False, "color=false"),
        ("form", True, "a&b=c#d", "color=a%26b%3Dc%23d"),
        ("form", True, "${TOKEN}{x}", "color=%24%7BTOKEN%7D%7Bx%7D"),
        ("form", True, {"a&admin": "x=1"}, "a%26admin=x%3D1"),
    ],
)
def test_query_styles(style, explode, value, expected):
    spec = {} if style is None else {"style": style, "explode": explode}
    assert wire("query", value, **spec) == expected


@for_each(
    ("value", "expected"),
    [
        (":/?@!$'()*+,;=", ":/?@!$'()*+,;="),
        ("a%2Fb", "a%2Fb"),
        ("100%", "100%25"),
        ("x&admin=true", "x%26admin=true"),
        ("x#y[z]", "x%23y%5Bz%5D"),
    ],
)
def test_reserved_characters_pass_where_allowed_but_never_begin_another_parameter(value, expected):
    assert wire("query", value, allow_reserved=True) == f"color={expected}"


@for_each(
    ("style", "value", "expected"),
    [
        ("simple", "a:b@c!$&'()*+,;=d", "a:b@c!$&'()*+,;=d"),
        ("simple", "a/b?c#d[e]", "a%2Fb%3Fc%23d%5Be%5D"),
        ("simple", "a%2Fb%", "a%2Fb%25"),
        ("simple", ["a:b", "c/d"], "a:b,c%2Fd"),
        ("label", "a:b/c", ".a:b%2Fc"),
        ("matrix", {"k/:": "a?@"}, ";color=k%2F:,a%3F@"),
    ],
)
def test_reserved_characters_of_a_path_parameter_stay_within_its_segment(style, value, expected):
    assert wire("path", value, style=style, allow_reserved=True) == expected
    for outside in ("..", "a/../b", "%2e%2e", "a%2F..%2Fb", "\\x"):
        with pytest.raises(InvalidArguments):
            wire("path", outside, style=style, allow_reserved=True)


@for_each(
    ("explode", "value", "expected"),
    [
        (False, "blue", "blue"),
        (False, "", ""),
        (False, ARRAY, "blue,black,brown"),
        (False, OBJECT, "R,100,G,200,B,150"),
        (True, OBJECT, "R=100,G=200,B=150"),
        (False, [], None),
        (False, None, None),
        (False, "a b%/~", "a b%/~"),
    ],
)
def test_header_styles(explode, value, expected):
    assert wire("header", value, explode=explode) == expected


@for_each(
    "value",
    ["a\r\nX-Evil: 1", "a\nb", "\x00", "\x7f", "日本", "é", "\xa0", "a\tb", ["ok", "a\rb"], {"k\n": 1}],
)
def test_header_values_that_http_cannot_carry_are_rejected(value):
    with pytest.raises(InvalidArguments) as caught:
        wire("header", value)
    assert caught.value.errors[0].pointer == "/c"


@for_each(
    ("spec", "value", "expected"),
    [
        ({}, "blue", "color=blue"),
        ({"explode": False}, ARRAY, "color=blue,black,brown"),
        ({}, ARRAY, "color=blue; color=black; color=brown"),
        ({}, OBJECT, "R=100; G=200; B=150"),
        ({}, "a; b=c", "color=a%3B%20b%3Dc"),
        ({"content_type": "application/json"}, {"a": 1}, "color=%7B%22a%22%3A1%7D"),
        ({}, [], None),
    ],
)
def test_cookie_styles(spec, value, expected):
    assert wire("cookie", value, **spec) == expected


def test_parameters_by_content_are_json():
    spec = {"content_type": "application/json"}
    assert wire("query", {"a": [1, None]}, **spec) == "color=%7B%22a%22%3A%5B1%2Cnull%5D%7D"
    assert wire("query", "x", **spec) == "color=%22x%22"
    assert wire("path", {"a": 1}, **spec) == "%7B%22a%22%3A1%7D"
    assert wire("header", {"a": "é日"}, **spec) == '{"a":"\\u00e9\\u65e5"}'
    assert wire("query", "plain", content_type="text/plain") == "color=plain"
    with pytest.raises(InvalidArguments):
        wire("query", {"a": 1}, content_type="text/plain")


def test_a_deep_object_has_a_depth():
    value = 1
    for _ in range(500):
        value = {"a": value}
    with pytest.raises(InvalidArguments, match="deep"):
        wire("query", value, style="deepObject", explode=True)
