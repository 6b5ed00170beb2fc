"""Where an operation is sent to (RFC 3986, OAS Server Object, Swagger 2.0 host and basePath)."""

from collections.abc import Callable
from typing import Any

import pytest

from app.core.errors import InvalidDocument
from app.openapi import Conversion, ConvertOptions
from app.openapi.conversion.servers import origin
from tests.harness.cases import for_each
from tests.unit.openapi.conftest import Convert, ConvertOne

DOCUMENT = "https://docs.example.com/specs/api.json"


def url(tool: ConvertOne, servers: Any, *, path: str = "/x", **options: Any) -> str:
    made = tool({}, path=path, servers=servers, options=ConvertOptions(**options))
    address: str = made.call_template["url"]
    return address


@for_each(
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


@for_each("empty", ["", " "])
def test_an_empty_server_url_warns(converted: Convert, empty: str) -> None:
    for options in (
        ConvertOptions(url=DOCUMENT),
        ConvertOptions(base_url="https://here.example.com/api"),
        None,
    ):
        own = {"get": {"operationId": "b"}, "servers": [{"url": "https://api.example.com"}, {"url": empty}]}
        made = converted({"/a": {"get": {}}, "/b": own}, servers=[{"url": empty}], options=options)
        assert [warning.pointer for warning in made.report.warnings] == ["/servers/0/url"]


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


@for_each(
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


@for_each(
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


def test_swagger_2_host_with_a_placeholder(tool: ConvertOne, reason: Callable[..., tuple[str, str]]) -> None:
    rest = {"openapi": "2.0", "host": "{tenant}.example.com"}
    assert "`tenant` has no default" in reason({}, **rest)[0]
    options = ConvertOptions(server_variables={"tenant": "acme"})
    assert tool({}, options=options, **rest).call_template["url"] == "https://acme.example.com/v1/x"
    options = ConvertOptions(base_url="https://acme.example.com/v2")
    assert tool({}, options=options, **rest).call_template["url"] == "https://acme.example.com/v2/x"


def test_a_parameterized_host_of_azure(tool: ConvertOne) -> None:
    host = {"hostTemplate": "{account}.{suffix}", "parameters": [
        {"name": "account", "in": "path", "type": "string", "required": True},
        {"name": "suffix", "in": "path", "type": "string", "default": "core.example.net"}]}  # fmt: skip
    rest: Any = {"openapi": "2.0", "host": None, "x-ms-parameterized-host": host}
    options = ConvertOptions(server_variables={"account": "mine"})
    assert tool({}, options=options, **rest).call_template["url"] == "https://mine.core.example.net/v1/x"
    whole = {
        "hostTemplate": "{endpoint}",
        "useSchemePrefix": False,
        "parameters": [{"$ref": "#/parameters/E"}],
    }
    rest |= {"x-ms-parameterized-host": whole, "parameters": {"E": {"name": "endpoint", "in": "path"}}}
    options = ConvertOptions(server_variables={"endpoint": "https://vault.example.net/"})
    assert tool({}, options=options, **rest).call_template["url"].startswith("https://vault.example.net/")


TENANT = {
    "url": "https://{tenant}.{region}.example.com/v1",
    "description": "Production",
    "variables": {
        "tenant": {"description": "Your own."},
        "region": {"default": "eu", "enum": ["eu", "us"]},
    },
}
STAGING = {"url": "https://staging.example.com", "description": "Staging"}


def test_server_variables_have_the_values_of_the_registrar(tool: ConvertOne) -> None:
    assert url(tool, [TENANT], server_variables={"tenant": "acme"}) == "https://acme.eu.example.com/v1/x"
    both = {"tenant": "acme", "region": "us"}
    assert url(tool, [TENANT], server_variables=both) == "https://acme.us.example.com/v1/x"
    whole = {"url": "{base}/v1", "variables": {"base": {}}}
    given = {"base": "https://api.example.com"}
    assert url(tool, [whole], server_variables=given) == "https://api.example.com/v1/x"


@for_each(
    ("options", "pointer", "why", "expected"),
    [
        (
            {"server_variables": {"tennant": "a"}},
            "/options/server_variables/tennant",
            "`tenant`",
            ["region", "tenant"],
        ),
        ({"server_variables": {"region": "usa"}}, "/options/server_variables/region", "`us`", ["eu", "us"]),
        ({"server_variables": {"tenant": "a.b/c?"}}, "/options/server_variables/tenant", "the host", None),
        ({"server_variables": {"tenant": "a\r\nb"}}, "/options/server_variables/tenant", "the host", None),
        ({"server": "Prodction"}, "/options/server", "`Production`", [TENANT["url"], STAGING["url"]]),
        ({"server": 2}, "/options/server", "no server 2", [TENANT["url"], STAGING["url"]]),
    ],
)
def test_options_that_fit_no_server_are_rejected_with_what_is_known(
    converted: Convert, options: Any, pointer: str, why: str, expected: Any
) -> None:
    with pytest.raises(InvalidDocument) as rejected:
        converted({"/x": {"get": {}}}, servers=[TENANT, STAGING], options=ConvertOptions(**options))
    [error] = rejected.value.errors
    assert error.pointer == pointer
    assert why in error.detail
    assert error.expected == expected


@for_each("choice", ["Staging", "staging", "https://staging.example.com/", 1, "1"])
def test_a_server_is_chosen_by_description_url_or_index(tool: ConvertOne, choice: Any) -> None:
    assert url(tool, [TENANT, STAGING], server=choice) == "https://staging.example.com/x"


def test_the_chosen_server_is_not_replaced_by_another_one(reason: Callable[..., tuple[str, str]]) -> None:
    options = ConvertOptions(server="Production")
    assert "`tenant` has no default" in reason({}, servers=[TENANT, STAGING], options=options)[0]


def test_a_choice_by_name_applies_to_the_servers_of_paths_and_operations(converted: Convert) -> None:
    own = [
        {"url": "https://files.example.com", "description": "Files"},
        {**STAGING, "url": "https://f.staging.example.com"},
    ]
    paths = {"/a": {"get": {}}, "/b": {"get": {"servers": own}}, "/c": {"servers": own[:1], "get": {}}}
    conversion = converted(paths, servers=[TENANT, STAGING], options=ConvertOptions(server="Staging"))
    assert [made.call_template["url"] for made in conversion.tools] == [
        "https://staging.example.com/a", "https://f.staging.example.com/b", "https://files.example.com/c",
    ]  # fmt: skip


def test_swagger_2_servers_are_chosen_by_their_url(tool: ConvertOne) -> None:
    rest: Any = {"openapi": "2.0", "schemes": ["http", "https"]}
    options = ConvertOptions(server="http://api.example.com/v1")
    assert tool({}, options=options, **rest).call_template["url"] == "http://api.example.com/v1/x"


def test_base_url_stands_in_for_a_server_with_variables(tool: ConvertOne) -> None:
    base = "https://acme.example.com/api"
    made = tool({}, servers=[TENANT], options=ConvertOptions(base_url=base))
    assert made.call_template["url"] == f"{base}/x"
    assert any("stands in for" in note for note in made.notes)
    given = {"tenant": "acme", "region": "us"}
    assert url(tool, [TENANT], base_url=base, server_variables=given) == "https://acme.us.example.com/v1/x"
    assert url(tool, [STAGING], base_url=base) == "https://staging.example.com/x"


def test_the_report_has_the_servers_and_a_warning_about_defaults_in_the_host(converted: Convert) -> None:
    server = {"url": "https://{tenant}.example.com/{version}",
              "variables": {"tenant": {"default": "demo", "enum": ["demo", "live"]}, "version": {"default": "v1"}}}  # fmt: skip
    conversion = converted({"/x": {"get": {}}, "/y": {"get": {}}}, servers=[server])
    [warning] = conversion.report.warnings
    assert warning.pointer == "/servers/0"
    assert "'demo'" in warning.detail
    assert "demo, live" in warning.detail
    [declared] = conversion.report.servers
    assert declared.to_json() == {
        "url": server["url"],
        "description": "",
        "variables": {
            "tenant": {"default": "demo", "enum": ["demo", "live"], "description": ""},
            "version": {"default": "v1", "enum": [], "description": ""},
        },
    }
    assert Conversion.from_json(conversion.to_json()) == conversion
    assert converted({"/x": {"get": {}}}, servers=[STAGING]).report.servers == ()


def test_origins() -> None:
    assert origin("HTTPS://Api.Example.com:443/x") == "https://api.example.com"
    assert origin("http://api.example.com:8080") == "http://api.example.com:8080"
    assert origin("https://[::1]/x") == "https://[::1]"


def test_a_server_is_chosen_by_its_name(converted: Convert) -> None:
    servers = [{"url": "https://a.example.com"}, {"url": "https://b.example.com", "name": "Staging"}]
    options = ConvertOptions(server="staging")
    conversion = converted({"/a": {"get": {}}}, options=options, openapi="3.2.0", servers=servers)
    assert conversion.origins == ("https://b.example.com",)
    assert [one.to_json().get("name") for one in conversion.report.servers] == [None, "Staging"]


def test_servers_of_additional_operations_are_declared(converted: Convert) -> None:
    server = {"url": "https://{v}.example.com", "variables": {"v": {"default": "d"}}}
    item = {"additionalOperations": {"COPY": {"servers": [server]}}}
    options = ConvertOptions(server_variables={"v": "e"})
    conversion = converted({"/a": item}, options=options, openapi="3.2.0")
    assert conversion.origins == ("https://e.example.com",)
