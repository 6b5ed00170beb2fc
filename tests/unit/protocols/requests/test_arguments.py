"""Arguments of UTCP's own templates and of OpenAPI tools, as requests."""

import orjson
import pytest
from yarl import URL

from app.core.errors import InvalidArguments, InvalidInput
from app.protocols.requests.plan_compiler import compile_plan
from tests.harness.cases import for_each

BASE = "https://api.example.com"


def place(template, arguments):
    return compile_plan({"url": f"{BASE}/v1/things", **template}).prepare(arguments)


def refused(template, arguments):
    with pytest.raises(InvalidArguments) as caught:
        place(template, arguments)
    return [fault.pointer for fault in caught.value.errors]


def refused_template(template):
    with pytest.raises(InvalidInput) as caught:
        compile_plan(template)
    return [fault.pointer for fault in caught.value.errors]


class TestUtcp:
    def test_the_readme_example(self):
        template = {
            "url": "https://openlibrary.org/api/volumes/brief/{key_type}/{value}.json",
            "http_method": "GET",
        }
        request = place(template, {"key_type": "isbn", "value": "9780140328721", "format": "json"})
        assert request.url == "https://openlibrary.org/api/volumes/brief/isbn/9780140328721.json?format=json"
        assert (request.method, request.headers, request.body) == ("GET", [], None)

    def test_what_remains_goes_into_the_query(self):
        arguments = {
            "b": True,
            "n": None,
            "l": [1, "x y", None],
            "o": {"a": [1]},
            "f": 2.5,
            "i": 3.0,
            "e": [],
        }
        assert place({}, arguments).url == (
            f"{BASE}/v1/things?b=true&l=1&l=x%20y&o=%7B%22a%22%3A%5B1%5D%7D&f=2.5&i=3"
        )

    def test_the_query_of_the_template_is_kept(self):
        assert place({"url": f"{BASE}/x?fixed=1"}, {"q": "a"}).url == f"{BASE}/x?fixed=1&q=a"
        assert place({"url": f"{BASE}/x?"}, {"q": "a"}).url == f"{BASE}/x?q=a"
        assert (
            place({"url": f"{BASE}/x?a={{a}}&z=1#frag"}, {"a": "1&2", "q": "b"}).url
            == f"{BASE}/x?a=1%262&z=1&q=b"
        )
        assert place({"url": f"{BASE}/x{{?q,page}}"}, {"q": "a"}).url == f"{BASE}/x?q=a"

    def test_the_body_field_is_the_body_and_null_is_none(self):
        request = place({"http_method": "post"}, {"body": {"a": [1, None]}, "q": 1})
        assert (request.method, request.url, request.body) == (
            "POST",
            f"{BASE}/v1/things?q=1",
            b'{"a":[1,null]}',
        )
        assert request.headers == [("Content-Type", "application/json")]
        assert place({"http_method": "POST"}, {"body": None})[2:] == ([], None)
        assert place({"http_method": "POST", "body_field": "payload"}, {"payload": 3}).body == b"3"

    def test_a_method_without_a_body_sends_the_body_field_in_the_query(self):
        request = place({"http_method": "GET"}, {"body": "x"})
        assert (request.url, request.body) == (f"{BASE}/v1/things?body=x", None)

    def test_no_body_field_at_all(self):
        request = place({"http_method": "POST", "body_field": None}, {"body": "x"})
        assert (request.url, request.body) == (f"{BASE}/v1/things?body=x", None)

    def test_header_fields_become_headers_and_take_the_place_of_static_ones(self):
        template = {
            "header_fields": ["X-Trace", "X-Flag"],
            "headers": {"x-trace": "none", "Accept": "text/plain"},
        }
        assert place(template, {"X-Flag": True}).headers == [
            ("x-trace", "none"),
            ("Accept", "text/plain"),
            ("X-Flag", "true"),
        ]
        assert place(template, {"X-Trace": "t"}).headers == [("Accept", "text/plain"), ("X-Trace", "t")]
        assert refused(template, {"X-Trace": "a\r\nHost: evil"}) == ["/X-Trace"]

    def test_a_name_that_is_path_and_header_and_body_is_placed_once(self):
        template = {"url": f"{BASE}/{{x}}", "http_method": "POST", "header_fields": ["x"], "body_field": "x"}
        request = place(template, {"x": "1"})
        assert (request.url, request.headers, request.body) == (f"{BASE}/1", [], None)

    def test_a_static_content_type_decides_how_the_body_is_written(self):
        template = {"http_method": "POST", "headers": {"content-type": "application/x-www-form-urlencoded"}}
        request = place(template, {"body": {"a": "x y", "b": [1, 2], "c": {"d": 1}}})
        assert request.body == b"a=x+y&b=1&b=2&c=%7B%22d%22%3A1%7D"
        assert request.headers == [("Content-Type", "application/x-www-form-urlencoded")]

    def test_a_string_under_a_binary_type_is_sent_as_its_clients_do(self):
        template = {"http_method": "PUT", "content_type": "application/octet-stream"}
        assert place(template, {"body": "not base64!"}).body == b"not base64!"

    @for_each(
        "name",
        ["Host", "content-length", "Transfer-Encoding", "TE", "Connection", "Upgrade", "Cookie",
        "AUTHORIZATION",
         "Proxy-Authorization", "X-Forwarded-For", "Forwarded", "bad name", "a:b", "", "x\r\ny"],
    )  # fmt: skip
    def test_header_fields_that_no_argument_may_set_are_rejected_at_compile_time(self, name):
        assert refused_template({"url": BASE, "header_fields": ["ok", name]}) == ["/header_fields/1"]

    def test_values_are_never_read_again_as_templates(self):
        template = {"url": f"{BASE}/{{a}}/{{b}}"}
        assert place(template, {"a": "{b}", "b": "${T}", "c": "{a}$T"}).url == (
            f"{BASE}/%7Bb%7D/%24%7BT%7D?c=%7Ba%7D%24T"
        )

    def test_a_placeholder_used_twice(self):
        assert place({"url": f"{BASE}/{{a}}/x/{{a}}"}, {"a": 7}).url == f"{BASE}/7/x/7"

    @pytest.mark.parametrize("arguments", [{}, {"a": None}])
    def test_a_missing_path_value_is_rejected(self, arguments):
        assert refused({"url": f"{BASE}/{{a}}"}, arguments) == ["/a"]

    def test_a_variable_that_was_never_substituted_is_rejected(self):
        assert refused_template({"url": f"{BASE}/${{TOKEN}}/x"}) == ["/url"]


class TestOpenApi:
    def parameters(self, *specs, **rest):
        return {"parameters": [{"input": s["name"], **s} for s in specs], **rest}

    def test_inputs_are_aliases_of_wire_names(self):
        template = {
            "url": f"{BASE}/{{id}}",
            "parameters": [
                {"input": "id", "name": "id", "in": "path"},
                {"input": "id__query", "name": "id", "in": "query"},
                {"input": "filter", "name": "$filter", "in": "query"},
                {"input": "ids", "name": "ids[]", "in": "query"},
            ],
        }
        arguments = {"id": 1, "id__query": 2, "filter": "a", "ids": ["x", "y"]}
        assert place(template, arguments).url == f"{BASE}/1?id=2&%24filter=a&ids%5B%5D=x&ids%5B%5D=y"

    def test_an_unknown_argument_is_rejected_not_dropped(self):
        assert refused({"parameters": []}, {"surprise/1": 1}) == ["/surprise~11"]

    def test_header_fields_and_body_field_are_ignored(self):
        template = {"parameters": [], "header_fields": ["x"], "body_field": "y", "http_method": "POST"}
        assert refused(template, {"y": 1}) == ["/y"]

    def test_a_dollar_in_the_path_is_no_variable(self):
        assert place({"url": f"{BASE}/users/$count", "parameters": []}, {}).url == f"{BASE}/users/$count"

    def test_headers_described_elsewhere_are_ignored_as_the_specification_says(self):
        template = self.parameters(
            *({"name": n, "in": "header"} for n in ("Accept", "Content-Type", "authorization"))
        )
        assert place(template, {"Accept": "x", "Content-Type": "y", "authorization": "z"}).headers == []

    def test_a_header_parameter_that_no_argument_may_set_spoils_only_calls_that_use_it(self):
        template = self.parameters({"name": "X-Forwarded-For", "in": "header"}, {"name": "q", "in": "query"})
        assert place(template, {"q": 1}).headers == []
        assert refused(template, {"X-Forwarded-For": "127.0.0.1"}) == ["/X-Forwarded-For"]

    def test_cookies_are_one_header(self):
        template = self.parameters({"name": "a", "in": "cookie"}, {"name": "b", "in": "cookie"})
        assert place(template, {"a": "1", "b": "2;c=3"}).headers == [("Cookie", "a=1; b=2%3Bc%3D3")]

    def test_an_undeclared_placeholder_is_rejected_at_compile_time(self):
        assert refused_template({"url": f"{BASE}/{{id}}", "parameters": []}) == ["/url"]

    def test_two_parameters_on_one_input_are_rejected_at_compile_time(self):
        one = {"input": "a", "name": "a", "in": "query"}
        assert refused_template({"url": BASE, "parameters": [one, {**one, "in": "header"}]}) == [
            "/parameters"
        ]
        assert refused_template({"url": BASE, "parameters": [one], "body": {"input": "a"}}) == ["/parameters"]

    def test_bad_specs_point_at_the_fault(self):
        bad = {"input": "a", "name": "a", "in": "somewhere"}
        assert refused_template({"url": BASE, "parameters": [bad]}) == ["/parameters/0/in"]

    def test_a_required_body(self):
        body = {"input": "body", "content_type": "application/json", "required": True}
        template = {"http_method": "POST", "parameters": [], "body": body}
        assert refused(template, {}) == ["/body"]
        assert place(template, {"body": None}).body == b"null"
        assert place(template, {"body": False}).body == b"false"
        assert place({**template, "body": {**body, "required": False}}, {"body": None})[2:] == ([], None)

    def test_a_path_item_with_its_parameter_in_the_query(self):
        template = {
            "url": f"{BASE}/x?id={{id}}",
            "parameters": [{"input": "id", "name": "id", "in": "query"}],
        }
        assert place(template, {"id": "a&b"}).url == f"{BASE}/x?id=a%26b"


class TestUrl:
    @for_each(
        ("url", "origin"),
        [
            ("HTTPS://API.Example.COM:443/x", "https://api.example.com"),
            ("http://h:80", "http://h"),
            ("http://h:8080/", "http://h:8080"),
            ("https://h:080/", "https://h:80"),
            ("https://[::1]:8443/x", "https://[::1]:8443"),
            ("https://bücher.example/x", "https://xn--bcher-kva.example"),
            ("https://h:/x", "https://h"),
        ],
    )
    def test_origins(self, url, origin):
        plan = compile_plan({"url": url})
        assert plan.origin == origin
        assert plan.prepare({}).url.startswith(f"{origin}/")

    @for_each(
        "url",
        ["ftp://h/x", "/relative", "https://", "https://{host}/x", "https://h:{port}/x", "https://u:p@h/x",
        "https://h/../x",
         "https://h/a/%2e%2E/b", "https://h/a/..;x/b", "https://h:99999/", "https://h\\@evil/x",
         "https://h/a\\..\\b", "https://ho st/", "https://[::1/", "https://h/a\nb", "https://h%2eevil/",
         "javascript://h/%0a"],
    )  # fmt: skip
    def test_urls_that_are_rejected(self, url):
        assert refused_template({"url": url}) == ["/url"]

    def test_the_template_itself_is_made_legal(self):
        url = place({"url": f"{BASE}/a b/ü/%41/100%/{{x}}", "parameters": None}, {"x": 1}).url
        assert url == f"{BASE}/a%20b/%C3%BC/%41/100%25/1"
        assert str(URL(url, encoded=True)) == url

    @for_each(
        ("method", "safe"),
        [("GET", True), ("HEAD", True), ("options", True), ("DELETE", False), ("POST", False)],
    )
    def test_safe_methods(self, method, safe):
        assert compile_plan({"url": BASE, "http_method": method}).safe is safe

    def test_an_unknown_method(self):
        assert refused_template({"url": BASE, "http_method": "TRACE"}) == ["/http_method"]

    @for_each("headers", [{"Host": "x"}, {"a b": "x"}, {"X": "a\r\nb"}, {"Content-Length": "1"}, {"X": "日"}])
    def test_static_headers_that_cannot_be_sent(self, headers):
        assert refused_template({"url": BASE, "headers": headers}) == [f"/headers/{next(iter(headers))}"]


class TestUnwritable:
    @pytest.mark.parametrize("arguments", [{"q": "\ud800"}, {"body": {"a": "\ud800"}}, {"\ud800": "x"}])
    def test_what_has_no_bytes_is_rejected(self, arguments):
        assert refused({"http_method": "POST"}, arguments) == [""]

    def test_nesting_beyond_what_json_is_written_with(self):
        value: object = 1
        for _ in range(900):
            value = [value]
        assert refused({"http_method": "POST"}, {"body": value}) == [""]

    def test_everything_else_that_json_can_say_goes_through(self):
        value = orjson.loads(b'{"a":[1,-2.5e30,"\\u0000\\u2028",{"b":null}],"":true}')
        assert orjson.loads(place({"http_method": "POST"}, {"body": value}).body) == value
