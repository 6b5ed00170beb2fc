"""Requests with what OpenAPI 3.2 adds: methods, the whole query string, plain cookies; and lists in lists."""

from typing import Any

import pytest

from app.core.errors import InvalidArguments, InvalidInput
from app.protocols.requests.plan_compiler import compile_plan
from app.protocols.requests.request_plan import PreparedRequest
from tests.harness.cases import for_each

URL = "https://api.example.com/a"


def request(arguments: Any, *parameters: dict[str, Any], **template: Any) -> PreparedRequest:
    plan = compile_plan({"url": URL, "parameters": list(parameters), **template})
    return plan.prepare(arguments)


def parameter(location: str, **rest: Any) -> dict[str, Any]:
    return {"input": "p", "name": "p", "in": location, **rest}


@for_each(
    ("method", "sent", "safe"),
    [
        ("query", "QUERY", True),
        ("COPY", "COPY", False),
        ("notify", "notify", False),
        ("M-SEARCH", "M-SEARCH", False),
        ("PROPFIND", "PROPFIND", True),
        ("get", "GET", True),
    ],
)
def test_methods_of_an_operation(method: str, sent: str, safe: bool) -> None:
    plan = compile_plan({"url": URL, "http_method": method, "parameters": []})
    assert (plan.method, plan.safe) == (sent, safe)
    assert plan.prepare({}).method == sent


@for_each("method", ["TRACE", "connect", "NO WAY", "", "G\rT"])
def test_methods_that_no_operation_may_have(method: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        compile_plan({"url": URL, "http_method": method, "parameters": []})
    assert [error.pointer for error in rejected.value.errors] == ["/http_method"]


@pytest.mark.parametrize("method", ["COPY", "GTE", "TRACE"])
def test_templates_of_utcp_have_the_usual_methods_only(method: str) -> None:
    with pytest.raises(InvalidInput) as rejected:
        compile_plan({"url": URL, "http_method": method})
    assert [error.pointer for error in rejected.value.errors] == ["/http_method"]


def test_a_query_request_has_a_body() -> None:
    prepared = compile_plan({"url": URL, "http_method": "QUERY"}).prepare({"body": {"q": 1}})
    assert (prepared.method, prepared.url, prepared.body) == ("QUERY", URL, b'{"q":1}')


def test_a_querystring_in_the_form_of_its_content_type() -> None:
    form = parameter("querystring", content_type="application/x-www-form-urlencoded")
    json = parameter("querystring", content_type="application/json")
    path = parameter("querystring", content_type="application/jsonpath")
    # OAS 3.2.0, Parameter Object Examples.
    assert request({"p": {"foo": "a + b", "bar": True}}, form).url == f"{URL}?foo=a+%2B+b&bar=true"
    expected = f"{URL}?%7B%22numbers%22%3A%5B1%2C2%5D%2C%22flag%22%3Anull%7D"
    assert request({"p": {"numbers": [1, 2], "flag": None}}, json).url == expected
    assert request({"p": "$.a.b[1:1]"}, path).url == f"{URL}?%24.a.b%5B1%3A1%5D"


def test_fields_of_a_querystring_have_their_encoding() -> None:
    encoding = {"a": {"style": "pipeDelimited", "explode": False}, "b": {"content_type": "application/json"}}
    media = "application/x-www-form-urlencoded"
    form = parameter("querystring", content_type=media, encoding=encoding)
    assert (
        request({"p": {"a": [1, 2], "b": {"c": []}}}, form).url == f"{URL}?a=1%7C2&b=%7B%22c%22%3A%5B%5D%7D"
    )


def test_a_querystring_beside_the_query_of_the_path_and_without_fields() -> None:
    form = parameter("querystring", content_type="application/x-www-form-urlencoded")
    assert request({"p": {"b": 1}}, form, url=f"{URL}?a=1").url == f"{URL}?a=1&b=1"
    assert request({"p": {}}, form).url == URL
    assert request({}, form).url == URL


def test_a_querystring_form_must_be_an_object() -> None:
    with pytest.raises(InvalidArguments) as rejected:
        request({"p": ["a"]}, parameter("querystring", content_type="application/x-www-form-urlencoded"))
    assert [error.pointer for error in rejected.value.errors] == ["/p"]


@for_each(
    ("explode", "value", "cookie"),
    [
        (True, "a%20b/c", "p=a%20b/c"),
        (True, 1, "p=1"),
        (True, ["blue", "black"], "p=blue; p=black"),
        (False, ["blue", "black"], "p=blue,black"),
        (True, {"R": 100, "G": 200}, "R=100; G=200"),
        (False, {"R": 100, "G": 200}, "p=R,100,G,200"),
    ],
)
def test_cookies_are_not_percent_encoded(explode: bool, value: Any, cookie: str) -> None:
    # OAS 3.2.0, Style Examples: the rows of the style `cookie`.
    prepared = request({"p": value}, parameter("cookie", style="cookie", explode=explode))
    assert prepared.headers == [("Cookie", cookie)]


@for_each("value", ["a; b=c", "a\r\nX: y", "é", {"k;": "v"}, {"k": "a;b"}, ["a", "b;c"], {"": 1}])
def test_a_cookie_never_begins_another_one(value: Any) -> None:
    with pytest.raises(InvalidArguments) as rejected:
        request({"p": value}, parameter("cookie", style="cookie", explode=True))
    assert [error.pointer for error in rejected.value.errors] == ["/p"]


def test_an_empty_list_is_no_cookie() -> None:
    assert request({"p": []}, parameter("cookie", style="cookie", explode=False)).headers == []


@for_each(
    ("location", "rules", "sent"),
    [
        ("query", {"style": "form", "explode": True, "item_styles": ["pipeDelimited"]}, "p=1%7C2&p=3"),
        ("query", {"style": "form", "explode": False, "item_styles": ["pipeDelimited"]}, "p=1%7C2,3"),
        ("query", {"style": "pipeDelimited", "explode": False, "item_styles": ["simple"]}, "p=1,2%7C3"),
        ("query", {"style": "form", "explode": True}, "p=%5B1%2C2%5D&p=%5B3%5D"),
        ("header", {"style": "simple", "item_styles": ["pipeDelimited"]}, "1|2,3"),
    ],
)
def test_lists_within_a_list(location: str, rules: dict[str, Any], sent: str) -> None:
    prepared = request({"p": [[1, 2], [3]]}, parameter(location, **rules))
    got = prepared.url.partition("?")[2] if location == "query" else prepared.headers[0][1]
    assert got == sent


def test_lists_within_a_list_in_a_path_and_in_a_form() -> None:
    one = parameter("path", style="simple", item_styles=["pipeDelimited"])
    assert request({"p": [["a", "b"], ["c"]]}, one, url=f"{URL}/{{p}}").url == f"{URL}/a%7Cb,c"
    encoding = {"f": {"style": "form", "explode": False, "item_styles": ["spaceDelimited", "simple"]}}
    body = {"content_type": "application/x-www-form-urlencoded", "encoding": encoding}
    assert request({"body": {"f": [[[1, 2], 3], 4]}}, body=body).body == b"f=1,2%203,4"
