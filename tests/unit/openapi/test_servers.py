"""Where an operation is sent to (RFC 3986, OAS Server Object, Swagger 2.0 host and basePath)."""

from collections.abc import Callable
from typing import Any

import pytest

from app.openapi import ConvertOptions
from app.openapi.servers import origin
from tests.unit.openapi.conftest import Convert, ConvertOne

DOCUMENT = "https://docs.example.com/specs/api.json"


def url(tool: ConvertOne, servers: Any, *, path: str = "/x", **options: Any) -> str:
    made = tool({}, path=path, servers=servers, options=ConvertOptions(**options))
    address: str = made.call_template["url"]
    return address


@pytest.mark.parametrize(
    ("server", "became"),
    [
        ("https://api.example.com", "https://api.example.com/x"),
        ("https://api.example.com/", "https://api.example.com/x"),
        ("https://API.example.com:8443/v1/", "https://api.example.com:8443/v1/x"),
        ("http://[::1]:80/v1", "http://[::1]:80/v1/x"),
        ("/v1", "https://docs.example.com/v1/x"),
        ("/", "https://docs.example.com/x"),
        ("v1", "https://docs.example.com/specs/v1/x"),
        ("../v1", "https://docs.example.com/v1/x"),
        ("", "https://docs.example.com/specs/api.json/x"),
        ("https://bücher.example/v1", "https://xn--bcher-kva.example/v1/x"),
        ("//other.example.com/v1", "https://other.example.com/v1/x"),
        ("https://api.example.com/v1?tenant=a", "https://api.example.com/v1/x?tenant=a"),
        ("https://user:secret@api.example.com", "https://api.example.com/x"),
        ("https://api.example.com/#frag", "https://api.example.com/x"),
        ("https://api.example.com/a b", "https://api.example.com/a%20b/x"),
    ],
)
def test_server_urls_are_resolved_against_the_document(tool: ConvertOne, server: str, became: str) -> None:
    assert url(tool, [{"url": server}], url=DOCUMENT) == became


def test_base_url_takes_the_place_of_relative_and_missing_servers_only(tool: ConvertOne) -> None:
    base = "https://here.example.com/api"
    assert url(tool, [{"url": "/"}], base_url=base) == f"{base}/x"
    assert url(tool, [], base_url=base) == f"{base}/x"
    assert url(tool, [{"url": "/v2"}], base_url=base) == "https://here.example.com/v2/x"
    assert url(tool, [{"url": "v2"}], base_url=base, url=DOCUMENT) == f"{base}/v2/x"
    assert url(tool, [{"url": "https://a.example"}], base_url=base) == "https://a.example/x"
    assert url(tool, [{"url": "//a.example"}], base_url="http://h.example/api") == "http://a.example/x"
    assert (
        url(tool, [{"url": "//a.example"}], base_url="http://h.example", url=DOCUMENT)
        == "https://a.example/x"
    )
    assert url(tool, [{"url": "//a.example"}]) == "https://a.example/x"


def test_without_servers_it_is_the_root_of_where_the_document_was(tool: ConvertOne) -> None:
    assert url(tool, [], url=DOCUMENT) == "https://docs.example.com/x"


@pytest.mark.parametrize("servers", [[], None, [{"url": "/v1"}], [{"url": ""}]])
def test_a_relative_server_of_a_document_from_nowhere_costs_the_operation(
    reason: Callable[..., tuple[str, str]], servers: Any
) -> None:
    assert "give `base_url`" in reason({}, servers=servers)[0]


def test_variables_take_their_default_or_first_choice(tool: ConvertOne) -> None:
    server = {
        "url": "https://{host}.example.com:{port}/{base}",
        "variables": {"host": {"default": "eu"}, "port": {"enum": [8443, 443]}, "base": {"default": ""}},
    }
    assert url(tool, [server]) == "https://eu.example.com:8443/x"


def test_the_first_server_that_can_be_called_is_taken(tool: ConvertOne) -> None:
    servers = [
        {"url": "wss://a.example"},
        {"url": "https://{gone}.example"},
        7,
        {},
        {"url": "https://b.example"},
    ]
    assert url(tool, servers) == "https://b.example/x"


@pytest.mark.parametrize(
    ("servers", "why"),
    [
        ([{"url": "wss://a.example"}], "`wss`"),
        ([{"url": "file:///etc/passwd"}], "`file`"),
        ([{"url": "https://{tenant}.example"}], "`tenant` has no default"),
        ([{"url": "https://a.example:99999"}], "not legal"),
        ([{"url": "https://a\r\nb.example"}], "not legal"),
        ([{"url": "https://a\\b.example"}], "not legal"),
        ([{"url": "https://"}], "without a legal host"),
        ([{"url": "https://a!b.example"}], "without a legal host"),
        ([{"url": "https://a.example:0"}], "without a legal host"),
        ([{"url": "https://" + "ø" * 300}], "without a legal host"),
        ([{"url": "https://a<b>.example"}], "without a legal host"),
        ([{"url": 7}], "without a URL"),
        ([7], "not an object"),
    ],
)
def test_servers_that_cannot_be_called_cost_the_operation(
    reason: Callable[..., tuple[str, str]], servers: Any, why: str
) -> None:
    said, pointer = reason({}, servers=servers)
    assert why in said
    assert pointer == "/servers"


def test_the_nearest_level_counts(converted: Convert) -> None:
    def at(host: str) -> list[dict[str, str]]:
        return [{"url": f"https://{host}.example"}]

    paths = {
        "/a": {"get": {}},
        "/b": {
            "servers": at("path"),
            "get": {},
            "post": {"servers": at("operation")},
            "put": {"servers": []},
        },
    }
    conversion = converted(paths, servers=at("root"))
    assert [made.call_template["url"] for made in conversion.tools] == [
        "https://root.example/a", "https://path.example/b", "https://operation.example/b", "https://path.example/b",
    ]  # fmt: skip
    assert conversion.origins == ("https://root.example", "https://path.example", "https://operation.example")


@pytest.mark.parametrize(
    ("rest", "became"),
    [
        ({}, "https://api.example.com/v1/x"),
        ({"schemes": ["http"]}, "http://api.example.com/v1/x"),
        ({"schemes": ["http", "https"]}, "https://api.example.com/v1/x"),
        ({"schemes": None}, "https://api.example.com/v1/x"),
        ({"basePath": None}, "https://api.example.com/x"),
        ({"basePath": "/"}, "https://api.example.com/x"),
        ({"basePath": "v2/"}, "https://api.example.com/v2/x"),
        ({"host": "https://api.example.com/"}, "https://api.example.com/v1/x"),
        ({"host": None}, "https://docs.example.com/v1/x"),
        ({"host": None, "basePath": None}, "https://docs.example.com/x"),
    ],
)
def test_swagger_2_addresses(tool: ConvertOne, rest: Any, became: str) -> None:
    options = ConvertOptions(url=DOCUMENT)
    assert tool({}, openapi="2.0", options=options, **rest).call_template["url"] == became


def test_swagger_2_schemes_of_an_operation(tool: ConvertOne, reason: Callable[..., tuple[str, str]]) -> None:
    assert tool({"schemes": ["http"]}, openapi="2.0").call_template["url"].startswith("http://")
    assert "neither https nor http" in reason({"schemes": ["ws"]}, openapi="2.0")[0]


def test_swagger_2_host_with_a_placeholder(reason: Callable[..., tuple[str, str]]) -> None:
    assert "legal host" in reason({}, openapi="2.0", host="{tenant}.example.com")[0]


def test_origins() -> None:
    assert origin("HTTPS://Api.Example.com:443/x") == "https://api.example.com"
    assert origin("http://api.example.com:8080") == "http://api.example.com:8080"
    assert origin("https://[::1]/x") == "https://[::1]"
