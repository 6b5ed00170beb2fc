"""Postman collections as tools."""

import random
from typing import Any

import jsonschema_rs
import orjson

from app.core.errors import InvalidDocument
from app.openapi import Conversion, ConvertedTool, ConvertOptions, is_convertible, sniff
from app.openapi.conversion.convert import convert
from tests.harness.cases import for_each

SCHEMA = "https://schema.getpostman.com/json/collection/v2.1.0/collection.json"
VARIABLES = [{"key": "baseUrl", "value": "https://api.example.com/v1"}, {"key": "petId", "value": "7"}]


def collection(*items: Any, **rest: Any) -> dict[str, Any]:
    info = {"name": "Shop", "schema": SCHEMA, "description": {"content": "All of it."}, "version": "2.3"}
    return {"info": info, "variable": VARIABLES, "item": list(items), **rest}


def request(name: str, url: Any, method: str = "GET", **rest: Any) -> dict[str, Any]:
    return {"name": name, "request": {"method": method, "url": url, **rest}}


def converted(*items: Any, options: ConvertOptions | None = None, **rest: Any) -> Conversion:
    return convert(orjson.dumps(collection(*items, **rest)), options=options)


def one(item: Any, **rest: Any) -> ConvertedTool:
    [made] = converted(item, **rest).tools
    return made


def accepts(made: ConvertedTool, arguments: Any) -> bool:
    return jsonschema_rs.validator_for(made.inputs).is_valid(arguments)


def test_a_collection_is_recognised_parsed_or_not() -> None:
    assert is_convertible(collection())
    assert is_convertible({"collection": collection()})
    assert sniff(orjson.dumps(collection(request("a", "{{baseUrl}}"))))
    assert not is_convertible({"info": {"name": "x"}, "item": []})


def test_folders_are_tags_and_requests_are_tools_in_their_order() -> None:
    pets = {"name": "Pets", "description": "Animals.", "item": [
        request("Get pet", "{{baseUrl}}/pets/:id"), {"name": "Inner", "item": [request("List", "{{baseUrl}}/pets")]}]}  # fmt: skip
    conversion = converted(pets, request("List", "{{baseUrl}}/all"), request("", "{{baseUrl}}/plain"))
    assert (conversion.title, conversion.version, conversion.description) == ("Shop", "2.3", "All of it.")
    assert [(made.name, made.source_key, made.tags) for made in conversion.tools] == [
        ("get_pet", "GET /pets/{id}", ("Pets",)),
        ("list", "GET /pets", ("Pets", "Inner")),
        ("list_all", "GET /all", ()),
        ("get_plain", "GET /plain", ()),
    ]
    assert [made.pointer for made in conversion.report.operations] == [
        "/item/0/item/0", "/item/0/item/1/item/0", "/item/1", "/item/2",
    ]  # fmt: skip


def test_requests_of_one_method_and_path_are_all_kept() -> None:
    conversion = converted(*(request(name, "{{baseUrl}}/rpc", "POST") for name in ("Sum", "Product", "Sum")))
    assert conversion.report.counts.accepted == 3
    assert {made.call_template["url"] for made in conversion.tools} == {"https://api.example.com/v1/rpc"}
    keys = [made.source_key for made in conversion.tools]
    assert keys == ["POST /rpc", "POST /rpc#Product", "POST /rpc#Sum"]


@for_each(
    ("url", "became"),
    [
        ("{{baseUrl}}/a", "https://api.example.com/v1/a"),
        ("https://b.example.com:8443/a?x=1#f", "https://b.example.com:8443/a"),
        ("b.example.com/a", "http://b.example.com/a"),
        ("https://{{sub}}.example.com/a", "https://eu.example.com/a"),
        ("{{nested}}/a", "https://eu.example.com/deep/a"),
        ("{{plain}}/a", "http://plain.example.com/a"),
        ("https://{{baseUrl}}/a", "https://api.example.com/v1/a"),
        ({"raw": "{{baseUrl}}/a", "host": ["{{baseUrl}}"], "path": ["a"]}, "https://api.example.com/v1/a"),
        (
            {"protocol": "https", "host": ["b", "example", "com"], "port": "81", "path": "a"},
            "https://b.example.com:81/a",
        ),
        ({"raw": "https://b.example.com/a"}, "https://b.example.com/a"),
        (
            {
                "protocol": "https",
                "host": "b.example.com",
                "path": [{"type": "string", "value": "a"}, "b{c}"],
            },
            "https://b.example.com/a/b%7Bc%7D",
        ),
    ],
)
def test_urls_are_read_as_texts_and_as_objects(url: Any, became: str) -> None:
    more = [
        {"key": "sub", "value": "eu"},
        {"key": "nested", "value": "https://{{sub}}.example.com/deep"},
        {"key": "plain", "value": "plain.example.com/"},
    ]
    assert one(request("A", url), variable=[*VARIABLES, *more]).call_template["url"] == became


def test_a_host_variable_without_a_value_is_a_server_variable() -> None:
    item = request("A", "https://{{tenant}}.example.com/a")
    [skipped] = converted(item).report.operations
    assert "`tenant` has no default" in (skipped.reason or "")
    made = one(item, options=ConvertOptions(server_variables={"tenant": "acme"}))
    assert made.call_template["url"] == "https://acme.example.com/a"
    whole = one(
        request("A", "{{url}}/a"), options=ConvertOptions(server_variables={"url": "https://b.example"})
    )
    assert whole.call_template["url"] == "https://b.example/a"


def test_variables_of_paths_and_queries_are_inputs() -> None:
    url = {
        "host": ["{{baseUrl}}"], "path": ["pets", ":id", "{{part}}.json"],
        "query": [{"key": "limit", "value": "10", "description": "(Required) How many."}, {"key": "q", "value": "{{q}}"},
                  {"key": "ids", "value": "1"}, {"key": "ids", "value": "2"}, {"key": "on", "value": "true", "disabled": True},
                  {"key": None, "value": "x"}],
        "variable": [{"key": "id", "value": "{{petId}}", "description": {"content": "Its id."}}],
    }  # fmt: skip
    made = one(request("A", url))
    assert made.call_template["url"] == "https://api.example.com/v1/pets/{id}/{part}.json"
    assert made.inputs["required"] == ["id", "part", "limit"]
    properties = made.inputs["properties"]
    assert properties["id"] == {"type": ["integer", "string"], "examples": ["7"], "description": "Its id."}
    assert properties["on"]["type"] == ["boolean", "string"]
    assert properties["ids"]["type"] == "array"
    assert accepts(made, {"id": 7, "part": "a", "limit": 5, "ids": [1, "2"], "q": "x"})


def test_headers_are_inputs_with_the_value_of_the_collection_as_default() -> None:
    header = [{"key": "X-Version", "value": "2"}, {"key": "X-Trace", "value": "a", "disabled": True},
              {"key": "Accept", "value": "x/y"}, {"key": "Content-Type", "value": "application/json"}]  # fmt: skip
    made = one(request("A", "{{baseUrl}}/a", header=header))
    assert made.inputs["properties"]["X-Version"]["default"] == "2"
    assert made.inputs["required"] == ["X-Version"]
    assert list(made.inputs["properties"]) == ["X-Version", "X-Trace"]
    assert list(one(request("A", "{{baseUrl}}/a", header="X-A: 1\nX-B: 2")).inputs["properties"]) == [
        "X-A",
        "X-B",
    ]


@for_each(
    ("body", "content_type", "given"),
    [
        ({"mode": "raw", "raw": '{"a": 1, /* x */ "b": {{b}}, "c": "{{c}}"} // end'}, "application/json",
         {"a": 1.5, "b": [1], "c": "x", "d": None}),
        ({"mode": "raw", "raw": "<a/>", "options": {"raw": {"language": "xml"}}}, "application/xml", "<b/>"),
        ({"mode": "raw", "raw": "hello"}, "text/plain", "bye"),
        ({"mode": "raw", "raw": "not json", "options": {"raw": {"language": "json"}}}, "application/json", [1]),
        ({"mode": "urlencoded", "urlencoded": [{"key": "a", "value": "1"}, {"key": "b", "value": ""}]},
         "application/x-www-form-urlencoded", {"a": "x", "b": 2}),
        ({"mode": "formdata", "formdata": [{"key": "f", "type": "file", "src": []}, {"key": "m", "value": '{"x":1}',
          "type": "text", "contentType": "application/json"}]}, "multipart/form-data", {"f": "QUJD", "m": {"x": 2}}),
        ({"mode": "graphql", "graphql": {"query": "{ a }", "variables": '{"x": 1}'}}, "application/json",
         {"query": "{ b }", "variables": {"x": 2}}),
        ({"mode": "file", "file": {"src": "/a"}}, "application/octet-stream", "QUJD"),
    ],
)  # fmt: skip
def test_bodies_of_every_mode(body: Any, content_type: str, given: Any) -> None:
    made = one(request("A", "{{baseUrl}}/a", "POST", body=body))
    assert made.call_template["body"]["content_type"] == content_type
    assert accepts(made, {"body": given})


@for_each(
    "body",
    [None, {}, {"mode": "none"}, {"mode": "raw", "raw": ""}, {"mode": "raw", "disabled": True, "raw": "x"}],
)
def test_requests_without_a_body(body: Any) -> None:
    assert "body" not in one(request("A", "{{baseUrl}}/a", "POST", body=body)).call_template


AUTH: dict[str, tuple[Any, tuple[Any, ...]]] = {
    "apikey": ([{"key": "key", "value": "X-K"}, {"key": "value", "value": "s3cret"}], ("api_key", "header", "X-K")),
    "apikey query": ({"key": "k", "in": "query", "value": "s3cret"}, ("api_key", "query", "k")),
    "basic": ([{"key": "password", "value": "s3cret"}], ("basic", None, None)),
    "bearer": ([{"key": "token", "value": "s3cret"}], ("bearer", None, None)),
    "jwt": ([{"key": "secret", "value": "s3cret"}], ("bearer", None, None)),
    "oauth2": ([{"key": "accessTokenUrl", "value": "{{tokens}}"}, {"key": "scope", "value": "a b"},
                {"key": "grant_type", "value": "client_credentials"}, {"key": "clientSecret", "value": "s3cret"}],
               ("oauth2", None, None)),
    "hawk": ([{"key": "authKey", "value": "s3cret"}], ("unsupported", None, None)),
    "awsv4": ([{"key": "accessKey", "value": "AK"}, {"key": "secretKey", "value": "s3cret"}],
              ("aws_sigv4", "header", "Authorization")),
}  # fmt: skip


@for_each("kind", AUTH)
def test_authorisation_is_a_slot_without_the_values_of_the_collection(kind: str) -> None:
    values, expected = AUTH[kind]
    name = kind.partition(" ")[0]
    variables = [*VARIABLES, {"key": "tokens", "value": "https://auth.example.com/token"}]
    conversion = converted(
        request("A", "{{baseUrl}}/a", auth={"type": name, name: values}), variable=variables
    )
    [slot] = conversion.slots
    assert (slot.kind, slot.location, slot.parameter) == expected
    assert b"s3cret" not in conversion.to_bytes()
    if name == "oauth2":
        assert (slot.token_url, slot.scopes) == ("https://auth.example.com/token", ("a", "b"))


def test_authorisation_is_inherited_from_folders_and_the_collection() -> None:
    basic = {"type": "basic"}
    folder = {"name": "F", "auth": basic, "item": [
        request("inherits", "{{baseUrl}}/1"), request("own", "{{baseUrl}}/2", auth={"type": "noauth"}),
        request("null", "{{baseUrl}}/3", auth=None)]}  # fmt: skip
    conversion = converted(folder, request("outside", "{{baseUrl}}/4"), auth={"type": "bearer"})
    assert [[[need.slot for need in each] for each in made.security] for made in conversion.tools] == [
        [["basic"]], [], [["basic"]], [["bearer"]],
    ]  # fmt: skip


def test_secrets_in_headers_queries_and_bodies_are_never_shown() -> None:
    header = [{"key": "X-Api-Key", "value": "s3cret"}, {"key": "Authorization", "value": "Bearer s3cret"},
              {"key": "X-Tenant-Token", "value": "s3cret"}]  # fmt: skip
    body = {
        "mode": "raw",
        "raw": '{"user": "a", "password": "s3cret", "deep": [{"client_secret": "s3cret"}]}',
    }
    text = {"mode": "raw", "raw": "<password>s3cret</password>", "options": {"raw": {"language": "xml"}}}
    form = {"mode": "urlencoded", "urlencoded": [{"key": "client_secret", "value": "s3cret"}]}
    query = {"mode": "graphql", "graphql": {"query": 'mutation { login(password: "s3cret") }'}}
    conversion = converted(
        request("A", "{{baseUrl}}/a?api_key=s3cret&page=1", "POST", header=header, body=body),
        *(request(f"B{n}", "{{baseUrl}}/b", "POST", body=one) for n, one in enumerate((text, form, query))),
    )
    assert b"s3cret" not in conversion.to_bytes()
    assert {slot.name for slot in conversion.slots} == {"api_key", "X-Api-Key", "bearer", "X-Tenant-Token"}
    first = conversion.tools[0]
    assert list(first.inputs["properties"]) == ["page", "body"]
    assert any("is a credential" in note for note in first.notes)


def test_saved_responses_tell_the_outputs() -> None:
    saved = [{"name": "Found", "code": 200, "body": '{"id": 1, "tags": [{"a": 1}, {"b": "x"}]}',
              "header": [{"key": "Content-Type", "value": "application/json; charset=utf-8"}]},
             {"name": "Gone", "code": 404, "body": "no"}]  # fmt: skip
    made = one({**request("A", "{{baseUrl}}/a"), "response": saved})
    assert set(made.outputs["properties"]["tags"]["items"]["properties"]) == {"a", "b"}
    assert made.call_template["accept"].startswith("application/json")


def test_what_is_left_out_is_in_the_report_with_its_place() -> None:
    script = [{"listen": "prerequest", "script": {"exec": ["pm.x()"]}}]
    conversion = converted(
        request("A", "{{baseUrl}}/a", "NOT A METHOD"), 7, {"name": "B"}, {"name": "C", "request": {"url": ""}},
        {**request("D", "{{baseUrl}}/d"), "event": script},
    )  # fmt: skip
    assert [warning.pointer for warning in conversion.report.warnings[:4]] == [
        "/item/1", "/item/0", "/item/2", "/item/3",
    ]  # fmt: skip
    assert conversion.tools[0].notes == ("its scripts are not run",)


def test_methods_that_have_no_field_in_openapi_are_kept() -> None:
    items = [
        request(f"A{n}", "{{baseUrl}}/a", method)
        for n, method in enumerate(("PURGE", "GET", "PURGE", "QUERY"))
    ]
    conversion = converted(*items)
    assert {made.source_key for made in conversion.tools} == {"PURGE /a", "GET /a", "PURGE /a#A2", "QUERY /a"}
    assert {one.pointer for one in conversion.report.operations} == {f"/item/{n}" for n in range(4)}


def test_a_response_of_the_postman_api_and_format_2_0_are_read() -> None:
    old = collection(
        request("A", "{{baseUrl}}/a", auth={"type": "apikey", "apikey": {"key": "k", "in": "query"}}),
        "plain",
    )
    old["info"]["schema"] = SCHEMA.replace("v2.1.0", "v2.0.0")
    old["item"][1] = {"name": "Short", "request": "https://api.example.com/v1/short?x=1"}
    conversion = convert(orjson.dumps({"collection": old}))
    assert [made.source_key for made in conversion.tools] == ["GET /a", "GET /v1/short"]
    assert conversion.report.operations[0].pointer == "/collection/item/0"
    assert conversion.slots[0].parameter == "k"


WHOLE = collection(
    {"name": "F", "item": [request("A", {"host": ["{{baseUrl}}"], "path": [":id"], "query": [{"key": "a", "value": "1"}]},
     "POST", header=[{"key": "H", "value": "1"}], auth={"type": "oauth2", "oauth2": [{"key": "scope", "value": "a"}]},
     body={"mode": "urlencoded", "urlencoded": [{"key": "a", "value": "b"}]})]},
    {**request("B", "{{baseUrl}}/b", "PUT", body={"mode": "raw", "raw": "{}"}), "response": [{"code": 200, "body": "{}"}]},
    event=[{"listen": "prerequest", "script": {"exec": ["x"]}}], auth={"type": "bearer", "bearer": []},
)  # fmt: skip


def test_damaged_collections_never_raise_anything_else() -> None:
    for seed in range(400):
        rng = random.Random(seed)
        damaged = orjson.loads(orjson.dumps(WHOLE))
        nodes = [damaged]
        for node in nodes:
            nodes.extend(
                child
                for child in (node.values() if isinstance(node, dict) else node)
                if isinstance(child, dict | list)
            )
        for node in rng.sample(nodes[1:], 2):
            key = rng.choice(list(node)) if isinstance(node, dict) and node else 0
            if node:
                node[key] = rng.choice([None, 7, "x", [], {}, [7], {"key": []}, True, "{{", "::"])
        try:
            conversion = convert(orjson.dumps(damaged))
        except InvalidDocument:
            continue
        assert conversion.report.counts.operations + len(conversion.report.warnings) > 0


def test_the_values_of_secret_variables_are_not_taken_over() -> None:
    secret = "sk-live-0123456789"
    variables = [{"key": "base", "value": "https://api.example.com"}, {"key": "path", "value": "{{my_api_key}}"},
                 {"key": "my_api_key", "value": secret}, {"key": "mine", "value": secret, "type": "secret"}]  # fmt: skip
    header = [{"key": "X-Custom", "value": "{{my_api_key}}"}, {"key": "X-Mine", "value": "{{mine}}"}]
    item = request(
        "A", "{{base}}/{{mine}}/:id?q={{my_api_key}}&p={{path}}", header=header,
        body={"mode": "raw", "raw": '{"a": "{{mine}}"}'},
    )  # fmt: skip
    folder = {"name": "F", "variable": [{"key": "path", "value": secret, "type": "secret"}], "item": [item]}
    conversion = converted(item, folder, variable=variables)
    assert len(conversion.tools) == 2
    assert secret not in repr(conversion)


def test_variables_that_name_each_other_many_times_do_not_grow_a_url() -> None:
    variables = [{"key": f"a{n}", "value": f"{{{{a{n + 1}}}}}" * 400} for n in range(8)]
    conversion = converted(request("A", "http://{{a0}}/x"), variable=variables)
    assert len(repr(conversion)) < 100_000


def test_variables_that_name_others_are_written_out() -> None:
    variables = [{"key": "base", "value": "https://{{host}}"}, {"key": "host", "value": "{{name}}.example.com"},
                 {"key": "name", "value": "api"}, {"key": "self", "value": "{{self}}"}]  # fmt: skip
    made = one(request("A", "{{base}}/x"), variable=variables)
    assert made.call_template["url"] == "https://api.example.com/x"
