"""UTCP's graphql: tools out of a schema, variables, errors, and subscriptions."""

import enum
from collections.abc import AsyncIterator
from typing import Annotated, Any

import jsonschema_rs
import orjson
import pytest
import strawberry
from aiohttp import WSMsgType, web
from graphql import build_schema, introspection_from_schema, parse, validate

from app.core.errors import (
    InvalidArguments,
    InvalidInput,
    ResponseTooLarge,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamTimeout,
    UpstreamUnauthorized,
)
from app.outbound.credential_rendering import WireCredential
from app.outbound.limits import Limits
from app.protocols.base import Adapter
from app.protocols.graphql.adapter import GraphqlAdapter
from app.protocols.graphql.selections import MAX_FIELDS
from app.protocols.graphql.tools import build_manual
from app.security.secret import Secret
from tests.harness.cases import for_each
from tests.protocols.calling import adapter_of, call_of, events_of, read_response
from tests.protocols.peers.graphql import GraphqlPeer
from tests.protocols.peers.http import json_response

SECRET = "secret-of-a-graph"


@strawberry.enum
class Size(enum.Enum):
    SMALL = "small"
    LARGE = "large"


@strawberry.interface
class Named:
    name: str


@strawberry.type
class Person(Named):
    age: int | None
    nickname: str | None = strawberry.field(deprecation_reason="use name", default=None)

    @strawberry.field
    def friends(self) -> list["Person"]:
        return [Person(name="Bo", age=None)]

    @strawberry.field
    def pets(self) -> list["Dog"]:
        return [Dog(name="Rex", tag=7)]

    @strawberry.field
    def greeting(self, word: str) -> str:
        return word


@strawberry.type
class Dog(Named):
    tag: int
    size: Size = Size.SMALL

    @strawberry.field
    def owner(self) -> Person:
        return Person(name="Al", age=3)


@strawberry.type
class Car:
    tag: str


@strawberry.input
class Key:
    id: strawberry.ID | None = strawberry.UNSET
    name: str | None = strawberry.UNSET


@strawberry.input
class Filter:
    size: Size | None = None
    names: list[str] | None = None
    inner: "Filter | None" = None
    least: int = 3
    key: Key | None = None


Thing = Annotated[Dog | Car, strawberry.union("Thing")]


@strawberry.type
class Query:
    @strawberry.field(description="Finds people.")
    def people(self, first: int = 2, filter: Filter | None = None) -> list[Person]:  # noqa: A002
        return [Person(name=f"P{n}", age=filter.least if filter else n) for n in range(first)]

    @strawberry.field
    def things(self) -> list[Thing]:
        return [Dog(name="Rex", tag=7), Car(tag="B-1")]

    @strawberry.field
    def named(self) -> Named:
        return Dog(name="Rex", tag=7)

    @strawberry.field
    def text(self, text: str, size: Size = Size.LARGE) -> str:
        return f"{text} {size.name}"

    @strawberry.field
    def partly(self) -> "Partly":
        return Partly()

    @strawberry.field
    def fails(self) -> str | None:
        raise ValueError(f"no, {SECRET}")

    @strawberry.field
    def must(self) -> str:
        raise ValueError("never")


@strawberry.type
class Partly:
    good: int = 1

    @strawberry.field
    def bad(self) -> int | None:
        raise ValueError("bad")


@strawberry.type
class Mutation:
    @strawberry.mutation
    def rename(self, id: strawberry.ID, to: list[str]) -> Person:  # noqa: A002
        return Person(name=" ".join([id, *to]), age=1)

    @strawberry.mutation
    def text(self, text: str) -> str:
        return text


@strawberry.type
class Subscription:
    @strawberry.subscription
    async def ticks(self, last: int = 2, fail: bool = False) -> AsyncIterator[Person]:
        for n in range(last):
            yield Person(name=f"T{n}", age=n)
        if fail:
            raise ValueError("enough")


SCHEMA = strawberry.Schema(Query, Mutation, Subscription, types=[Dog])


@pytest.fixture
async def peer() -> AsyncIterator[GraphqlPeer]:
    running = GraphqlPeer(SCHEMA)
    async with running.serve():
        yield running


@pytest.fixture
async def gql() -> AsyncIterator[Adapter[Any]]:
    async with adapter_of(GraphqlAdapter, SECRET) as adapter:
        yield adapter


async def tools_of(gql: Adapter[Any], peer: GraphqlPeer, **fields: Any) -> dict[str, Any]:
    found = await gql.discover(call_of(gql, peer.template(**fields)))
    assert found.is_generated
    return {tool["name"]: tool for tool in orjson.loads(found.raw)["tools"]}


async def test_every_root_field_is_a_tool(gql, peer) -> None:
    tools = await tools_of(gql, peer)
    assert {name: tool["tags"] for name, tool in tools.items()} == {
        "people": ["query"], "things": ["query"], "named": ["query"], "text": ["query"], "partly": ["query"],
        "fails": ["query"], "must": ["query"], "rename": ["mutation"], "text_mutation": ["mutation"],
        "ticks": ["subscription"],
    }  # fmt: skip
    assert tools["people"]["description"] == "Finds people."
    assert set(tools["rename"]["tool_call_template"]) == {
        "call_template_type", "operation_type", "operation_name", "query", "variable_types", "fields_argument",
    }  # fmt: skip


async def test_every_made_document_is_valid_and_bounded(gql, peer) -> None:
    schema = SCHEMA._schema
    for tool in (await tools_of(gql, peer)).values():
        document = tool["tool_call_template"]["query"]
        assert validate(schema, parse(document)) == [], document
        jsonschema_rs.validator_for(tool["inputs"])
        jsonschema_rs.validator_for(tool["outputs"])


async def test_selections_go_in_no_circle_and_need_no_arguments(gql, peer) -> None:
    tools = await tools_of(gql, peer)
    assert tools["people"]["tool_call_template"]["query"] == (
        "query people($first: Int, $filter: Filter) { people(first: $first, filter: $filter) "
        "{ name age pets { name tag size } } }"
    )
    # Two members of the union have the same name for other types.
    assert tools["things"]["tool_call_template"]["query"] == (
        "query things { things { __typename ... on Dog { name tag size owner { name age } } ... on Car { Car_tag: tag } } }"
    )
    named = tools["named"]["tool_call_template"]["query"]
    assert named.startswith("query named { named { __typename name ... on ")
    assert "greeting" not in named


async def test_inputs_are_json_schema(gql, peer) -> None:
    tools = await tools_of(gql, peer)
    inputs = tools["people"]["inputs"]
    assert inputs["required"] == []
    assert inputs["properties"]["first"]["type"] == "integer"
    assert inputs["properties"]["filter"] == {"anyOf": [{"$ref": "#/$defs/Filter"}, {"type": "null"}]}
    properties = inputs["$defs"]["Filter"]["properties"]
    assert properties["size"] == {"anyOf": [{"type": "string", "enum": ["SMALL", "LARGE"]}, {"type": "null"}]}
    assert properties["names"] == {"type": ["array", "null"], "items": {"type": "string"}}
    assert properties["inner"] == inputs["properties"]["filter"]
    assert tools["rename"]["inputs"]["required"] == ["id", "to"]
    validator = jsonschema_rs.validator_for(inputs)
    assert validator.is_valid({"filter": {"inner": {"size": "SMALL", "names": ["a"]}, "key": {"id": 1}}})
    for wrong in ({"first": 2**31}, {"first": None}, {"x": 1}, {"filter": {"size": "Small"}},
         {"filter": {"inner": {"no": 1}}}):  # fmt: skip
        assert not validator.is_valid(wrong), wrong


CALLS: list[tuple[str, dict[str, Any], Any]] = [
    ("people", {"first": 1, "filter": {"least": 9, "inner": {"names": ["x"]}}},
     {"people": [{"name": "P0", "age": 9, "pets": [{"name": "Rex", "tag": 7, "size": "SMALL"}]}]}),
    ("people", {}, None),
    ("things", {}, {"things": [{"__typename": "Dog", "name": "Rex", "tag": 7, "size": "SMALL",
                                "owner": {"name": "Al", "age": 3}}, {"__typename": "Car", "Car_tag": "B-1"}]}),
    ("text", {"text": "a"}, {"text": "a LARGE"}),
    ("text", {"text": "a", "size": "SMALL"}, {"text": "a SMALL"}),
    ("text_mutation", {"text": '") { __typename } #'}, {"text": '") { __typename } #'}),
    ("rename", {"id": 7, "to": ["$x", "${HOME}"]}, None),
]  # fmt: skip


@for_each(("name", "arguments", "value"), CALLS, ids=[str(n) for n in range(len(CALLS))])
async def test_a_discovered_tool_is_called(gql, peer, name, arguments, value) -> None:
    tool = (await tools_of(gql, peer))[name]
    jsonschema_rs.validator_for(tool["inputs"]).validate(arguments)
    found = orjson.loads(await read_response(gql, peer.template() | tool["tool_call_template"], arguments))
    assert value is None or found == value
    jsonschema_rs.validator_for(tool["outputs"]).validate(found)


async def test_the_request_has_variables_and_headers(gql, peer) -> None:
    fields = {
        "url": f"{peer.url}/{{room}}/graphql", "header_fields": ["X-Trace"], "headers": {"Accept-Language": "de"},
        "query": "query One($t: String!) { text(text: $t) } query Two { must }", "operation_name": "One",
    }  # fmt: skip
    wires = (WireCredential("header", "Authorization", Secret(f"Bearer {SECRET}"), "default"),)
    arguments = {"t": "x", "room": "a/b", "X-Trace": "t1"}
    call = call_of(
        gql, peer.template(**fields), arguments, credentials=wires, headers=(("traceparent", "00-1"),)
    )
    shown = gql.describe(call)
    assert shown["body"] == {"query": fields["query"], "variables": {"t": "x"}, "operationName": "One"}
    assert shown["headers"]["Authorization"] == "***"
    result = await gql.call(call)
    assert (result.media_type, await result.read()) == ("application/json", b'{"text":"x LARGE"}')
    request = peer.requests[-1]
    assert orjson.loads(request.body) == shown["body"]
    expected = {
        "x-trace": "t1", "accept-language": "de", "traceparent": "00-1",
        "accept": "application/graphql-response+json, application/json;q=0.9", "content-type": "application/json",
        "authorization": f"Bearer {SECRET}",
    }  # fmt: skip
    assert {name: request.headers[name] for name in expected} == expected
    assert request.target == "/a%2Fb/graphql"


async def test_without_a_document_the_released_clients_one_is_made(gql, peer) -> None:
    fields = {"operation_name": "text", "variable_types": {"text": "String!", "size": "Size"}}
    call = call_of(gql, peer.template(**fields), {"text": "a", "size": "SMALL"})
    assert (
        gql.describe(call)["body"]["query"]
        == "query ($text: String!, $size: Size) { text(text: $text, size: $size) }"
    )
    assert await (await gql.call(call)).read() == b'{"text":"a SMALL"}'
    with pytest.raises(InvalidArguments):
        await read_response(gql, peer.template(**fields), {"text) { x } #": "a"})
    with pytest.raises(InvalidArguments, match="no operation to request"):
        await read_response(gql, peer.template(), {})


async def test_a_tool_without_a_document_has_the_types_and_fields_of_the_schema(gql, peer) -> None:
    tool = peer.template(operation_name="people")
    found = orjson.loads(await read_response(gql, tool, {"first": 1, "filter": {"least": 9}}))
    assert found["people"][0]["age"] == 9
    assert found["people"][0]["pets"][0]["name"] == "Rex"
    introspections = [one for one in peer.requests if b"__schema" in one.body]
    found = orjson.loads(await read_response(gql, tool, {"first": 1, "_fields": ["name"]}))
    assert found == {"people": [{"name": "P0"}]}
    assert [one for one in peer.requests if b"__schema" in one.body] == introspections
    renamed = peer.template(operation_name="rename", operation_type="mutation")
    found = orjson.loads(await read_response(gql, renamed, {"id": 7, "to": ["a"], "_fields": ["name"]}))
    assert found == {"rename": {"name": "7 a"}}


async def test_a_field_with_an_argument_of_that_name_is_given_it(gql, peer) -> None:
    fields = {"operation_name": "text", "variable_types": {"text": "String!", "_fields": "String"}}
    call = call_of(gql, peer.template(**fields), {"text": "a", "_fields": "b"})
    assert gql.describe(call)["body"]["variables"] == {"text": "a", "_fields": "b"}


CHOSEN = [
    ("people", {"first": 1}, ["name"], {"people": [{"name": "P0"}]}),
    ("people", {"first": 1}, ["name # a comment", "n: age"], {"people": [{"name": "P0", "n": 0}]}),
    # Fields with arguments, and deprecated ones, are not among the default fields.
    ("people", {"first": 1}, ['greeting(word: "}hi")'], {"people": [{"greeting": "}hi"}]}),
    ("people", {"first": 1}, ["nickname age", "pets { owner { name } }"],
     {"people": [{"nickname": None, "age": 0, "pets": [{"owner": {"name": "Al"}}]}]}),
    ("things", {}, ["__typename", "... on Dog { name }"], {"things": [{"__typename": "Dog", "name": "Rex"}, {"__typename": "Car"}]}),
    ("rename", {"id": 7, "to": ["$x"]}, ["name"], {"rename": {"name": "7 $x"}}),
]  # fmt: skip


@for_each(("name", "arguments", "fields", "value"), CHOSEN, ids=[str(n) for n in range(len(CHOSEN))])
async def test_a_client_chooses_the_fields(gql, peer, name, arguments, fields, value) -> None:
    tool = (await tools_of(gql, peer))[name]
    arguments = {**arguments, "_fields": fields}
    jsonschema_rs.validator_for(tool["inputs"]).validate(arguments)
    template = peer.template() | tool["tool_call_template"]
    found = orjson.loads(await read_response(gql, template, arguments))
    assert found == value
    shown = gql.describe(call_of(gql, template, arguments))["body"]
    assert orjson.loads(peer.requests[-1].body) == shown
    assert "_fields" not in shown["variables"]
    identities = {
        gql.request_identity(call_of(gql, template, {**arguments, "_fields": one}))
        for one in (fields, [*fields, "__typename"])
    }
    assert len(identities) == (1 if name == "rename" else 2)


async def test_a_client_chooses_the_fields_of_a_subscription(gql, peer) -> None:
    tool = (await tools_of(gql, peer))["ticks"]
    result = await gql.call(
        call_of(
            gql,
            peer.template() | tool["tool_call_template"],
            {"last": 1, "_fields": ["name"]},
            streaming=True,
        )
    )
    assert [orjson.loads(event.data) for event in await events_of(result)] == [{"ticks": {"name": "T0"}}]


def test_the_argument_for_fields_is_where_there_are_fields_to_choose() -> None:
    data = orjson.loads(build_manual(_introspection("_fields: String"), placed={}))
    tools = {tool["name"]: tool for tool in data["tools"]}
    assert tools["own"]["inputs"]["properties"]["_fields"]["type"] == ["string", "null"]
    assert "fields_argument" not in tools["own"]["tool_call_template"]
    assert tools["plain"]["inputs"]["properties"] == {}
    assert tools["other"]["inputs"]["properties"]["_fields"]["examples"] == [["a", "b", "c { a }"]]


def _introspection(argument: str) -> Any:
    schema = build_schema(
        f"type Query {{ own({argument}): T plain: Int other: T }} type T {{ a: Int b: Int c: T2 }} type T2 {{ a: Int }}"
    )
    return introspection_from_schema(schema)


WRONG_FIELDS: list[tuple[Any, str, str]] = [
    (["name", "nme"], "/_fields/1", "Did you mean 'name'"),
    (["name", "pets { owner { nothing } }"], "/_fields/1", "nothing"),
    (["pets"], "/_fields/0", "subfields"),
    (["greeting(word: 7)"], "/_fields/0", "String"),
    (["greeting"], "/_fields/0", "word"),
    (["name }"], "/_fields/0", "syntax"),
    (["name } other { name"], "/_fields/0", "syntax"),
    (["name } query Other { people { name }"], "/_fields/0", "syntax"),
    (["name } fragment F on Person { name"], "/_fields/0", "syntax"),
    (["...F"], "/_fields/0", "fragments"),
    (["name @skip(if: true)"], "/_fields/0", "directives"),
    (["greeting(word: $first)"], "/_fields/0", "Variables"),
    (["__schema { types { name } }"], "/_fields/0", "__schema"),
    (["{" * 3000], "/_fields/0", "syntax"),
    (["a{" * 3000], "/_fields/0", "syntax"),
    ([""], "/_fields/0", "syntax"),
    ([7], "/_fields/0", "syntax"),
    ([], "/_fields", "1 to 200"),
    ("name", "/_fields", "list"),
]


@for_each(("fields", "at", "word"), WRONG_FIELDS, ids=[str(n) for n in range(len(WRONG_FIELDS))])
async def test_a_field_that_cannot_be_chosen_is_rejected_before_anything_is_sent(
    gql, peer, fields, at, word
) -> None:
    template = peer.template() | (await tools_of(gql, peer))["people"]["tool_call_template"]
    await read_response(gql, template, {"_fields": ["name"]})
    before = len(peer.requests)
    with pytest.raises(InvalidArguments) as caught:
        await read_response(gql, template, {"_fields": fields})
    assert [error.pointer for error in caught.value.errors] == [at]
    assert word in caught.value.errors[0].detail
    assert len(peer.requests) == before


async def test_a_server_without_introspection_checks_the_fields_itself(gql, peer) -> None:
    template = peer.template() | (await tools_of(gql, peer))["people"]["tool_call_template"]

    async def respond(request: web.Request) -> web.StreamResponse:
        if b"__schema" in peer.requests[-1].body:
            return json_response({"errors": [{"message": "no introspection"}]})
        return await peer.respond_with_schema(request)

    peer.override = respond
    found = orjson.loads(await read_response(gql, template, {"first": 1, "_fields": ["name"]}))
    assert found == {"people": [{"name": "P0"}]}
    with pytest.raises(UpstreamRejected) as caught:
        await read_response(gql, template, {"_fields": ["nothing"]})
    assert "nothing" in str(caught.value.response.body)


async def test_variables_of_the_replaced_selection_are_left_out(gql, peer) -> None:
    query = "query Q($n: Int, $w: String!) { people(first: $n) { ...P } } fragment P on Person { greeting(word: $w) }"
    template = peer.template(query=query, fields_argument="_fields")
    arguments = {"n": 1, "w": "x"}
    assert orjson.loads(await read_response(gql, template, arguments)) == {"people": [{"greeting": "x"}]}
    found = orjson.loads(await read_response(gql, template, {**arguments, "_fields": ["age"]}))
    assert found == {"people": [{"age": 0}]}


async def test_the_document_determines_the_kind_of_call(gql, peer) -> None:
    kinds = {"{ a }": "QUERY", "mutation { a }": "MUTATION", "subscription { a }": "SUBSCRIPTION"}
    for query, verb in kinds.items():
        target = gql.prepare(peer.template(query=query, operation_type="query"))
        assert (gql.method(target), gql.is_safe(target), gql.is_idempotent(target)) == (
            verb,
            verb == "QUERY",
            verb == "QUERY",
        )
        exact = gql.request_identity(call_of(gql, peer.template(query=query), {}))
        assert (exact is not None) == (verb == "QUERY")
    one, other = ({"a": "1"}, {"a": "2"})
    assert gql.request_identity(call_of(gql, peer.template(query="{ a }"), one)) != gql.request_identity(
        call_of(gql, peer.template(query="{ a }"), other)
    )


UNUSABLE: list[tuple[dict[str, Any], str]] = [
    ({"query": "{ a"}, "/query"),
    ({"query": "{ a " * 3000 + "}" * 3000}, "/query"),
    ({"query": "query A { a } query B { b }"}, "/operation_name"),
    ({"query": "fragment F on A { a }"}, "/operation_name"),
    ({"operation_name": "a b"}, "/operation_name"),
    ({"operation_name": "a", "variable_types": {"x": "String) { evil } #"}}, "/variable_types/x"),
    ({"operation_name": "a", "variable_types": {"x y": "String"}}, "/variable_types/x y"),
    ({"query": "{ a b }", "fields_argument": "_fields"}, "/fields_argument"),
    ({"query": "{ a }", "fields_argument": "a b"}, "/fields_argument"),
    ({"url": "ws://a.example/"}, "/url"),
    ({"header_fields": ["Host"]}, "/header_fields/0"),
]


@for_each(("fields", "at"), UNUSABLE, ids=[str(n) for n in range(len(UNUSABLE))])
async def test_a_template_that_can_never_be_called_is_rejected(gql, fields, at) -> None:
    with pytest.raises(InvalidInput) as caught:
        gql.prepare({"call_template_type": "graphql", "url": "https://a.example/graphql", **fields})
    assert caught.value.errors[0].pointer == at


async def test_errors_without_data_are_reported_to_the_client(gql, peer) -> None:
    for query in ("{ fails }", "{ must }", "{ nosuchfield }"):
        with pytest.raises(UpstreamRejected) as caught:
            await read_response(gql, peer.template(query=query), {})
        body = caught.value.response.body
        assert body["errors"][0]["message"]
        assert SECRET not in str(caught.value.as_problem())
    with pytest.raises(UpstreamRejected) as caught:
        await read_response(gql, peer.template(query="{ fails }"), {})
    assert (caught.value.status, caught.value.response.body["data"]) == (422, {"fails": None})


async def test_partial_data_comes_with_its_errors(gql, peer) -> None:
    found = orjson.loads(await read_response(gql, peer.template(query="{ partly { good bad } }"), {}))
    assert found["data"] == {"partly": {"good": 1, "bad": None}}
    assert found["errors"][0]["path"] == ["partly", "bad"]


RESPONSES: list[tuple[int, str, bytes, Any]] = [
    (400, "application/graphql-response+json", b'{"errors": [{"message": "syntax"}]}', UpstreamRejected),
    (401, "application/json", b'{"errors": []}', UpstreamUnauthorized),
    (
        200,
        "application/json",
        b'{"errors": [{"extensions": {"code": "UNAUTHENTICATED"}}]}',
        UpstreamUnauthorized,
    ),
    (200, "application/json", b"[]", UpstreamMalformed),
    (200, "application/json", b"{}", UpstreamMalformed),
    (200, "application/json", b'{"data": null}', UpstreamMalformed),
    (200, "application/json", b'{"data": [1]}', UpstreamMalformed),
    (200, "application/json", b'{"errors": "bad", "data": 7}', UpstreamRejected),
    (200, "text/html", b"<html>", UpstreamMalformed),
    (302, "text/html", b"", UpstreamRejected),
]


@for_each(("status", "media", "body", "error"), RESPONSES, ids=[str(n) for n in range(len(RESPONSES))])
async def test_responses_of_all_kinds(gql, peer, status, media, body, error) -> None:
    async def respond(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body, content_type=media)

    peer.override = respond
    with pytest.raises(error):
        await read_response(gql, peer.template(query="{ a }"), {})
    with pytest.raises(error):
        await gql.discover(call_of(gql, peer.template()))


SCHEMAS: list[Any] = [
    {}, {"__schema": None}, {"__schema": {"queryType": {"name": "Q"}, "types": []}}, {"__schema": {"types": 7}},
    {"__schema": {"queryType": {"name": "Q"}, "directives": [], "types": [
        {"kind": "OBJECT", "name": "Q", "interfaces": [], "fields": [
            {"name": "a } ${HOME} {", "args": [], "type": {"kind": "SCALAR", "name": "String"}, "isDeprecated": False}]}]}},
]  # fmt: skip


@for_each("data", SCHEMAS, ids=[str(n) for n in range(len(SCHEMAS))])
async def test_an_invalid_schema_is_malformed(gql, peer, data) -> None:
    peer.override = json_response({"data": data})
    with pytest.raises(UpstreamMalformed):
        await gql.discover(call_of(gql, peer.template()))


async def test_a_wide_and_deep_schema_gives_bounded_documents(gql, peer) -> None:
    leaf = {"kind": "SCALAR", "name": "String", "ofType": None}

    def field(name: str, kind: Any) -> dict[str, Any]:
        return {"name": name, "args": [], "type": kind, "isDeprecated": False, "description": None}

    def named(name: str) -> dict[str, Any]:
        return {"kind": "OBJECT", "name": name, "ofType": None}

    types = [
        {"kind": "OBJECT", "name": f"T{n}", "interfaces": [], "fields": [
            *(field(f"leaf{m}", leaf) for m in range(40)), *(field(f"t{m}", named(f"T{m}")) for m in range(30))]}
        for n in range(30)
    ]  # fmt: skip
    types.append({"kind": "SCALAR", "name": "String"})
    data = {"__schema": {"queryType": {"name": "T0"}, "types": types, "directives": []}}

    peer.override = json_response({"data": data})
    tools = await tools_of(gql, peer)
    assert len(tools) == 70
    for tool in tools.values():
        assert (
            tool["tool_call_template"]["query"].count(" leaf")
            + tool["tool_call_template"]["query"].count("{ t")
            <= MAX_FIELDS + 1
        )


async def test_placed_arguments_are_inputs_of_every_tool(gql, peer) -> None:
    call = call_of(gql, peer.template(header_fields=["X-Trace"]), {})
    tools = orjson.loads((await gql.discover(call)).raw)["tools"]
    assert all("X-Trace" in tool["inputs"]["properties"] for tool in tools)
    assert all("X-Trace" not in tool["inputs"]["required"] for tool in tools)


async def test_a_subscription_comes_as_events_or_as_a_list(gql, peer) -> None:
    tool = (await tools_of(gql, peer))["ticks"]
    whole = peer.template() | tool["tool_call_template"]
    wires = (WireCredential("header", "Authorization", Secret(f"Bearer {SECRET}"), "default"),
             WireCredential("query", "key", Secret(SECRET), "default"))  # fmt: skip
    call = call_of(gql, whole, {"last": 2}, credentials=wires, streaming=True)
    shown = gql.describe(call)
    assert shown["url"] == f"ws{peer.url[4:]}/graphql?key=***"
    assert shown["body"]["variables"] == {"last": 2}
    events = await events_of(await gql.call(call))
    assert [orjson.loads(event.data)["ticks"]["name"] for event in events] == ["T0", "T1"]
    request = peer.requests[-1]
    assert request.headers["authorization"] == f"Bearer {SECRET}"
    assert request.target == f"/graphql?key={SECRET}"
    assert request.headers["sec-websocket-protocol"] == "graphql-transport-ws"
    listed = orjson.loads(await read_response(gql, whole, {"last": 3}))
    assert [one["ticks"]["age"] for one in listed] == [0, 1, 2]


async def test_a_subscription_that_fails_says_why(gql, peer) -> None:
    query = "subscription ($last: Int!) { ticks(last: $last, fail: true) { name } }"
    result = await gql.call(call_of(gql, peer.template(query=query), {"last": 1}, streaming=True))
    events = aiter(result.events)
    assert orjson.loads((await anext(events)).data) == {"ticks": {"name": "T0"}}
    with pytest.raises(UpstreamRejected) as caught:
        await anext(events)
    assert caught.value.response.body["errors"][0]["message"] == "enough"
    with pytest.raises(UpstreamRejected) as caught:
        await read_response(gql, peer.template(query="subscription { nosuch }"), {})
    assert "nosuch" in caught.value.response.body["errors"][0]["message"]


SCRIPTS: list[tuple[list[dict[str, Any] | str], Any]] = [
    (["no json"], UpstreamMalformed),
    ([{"type": "next"}], UpstreamMalformed),
    ([{"type": "connection_ack"}, {"type": "next", "id": "1", "payload": 7}], UpstreamMalformed),
    ([{"type": "connection_ack"}, {"type": "error", "id": "1", "payload": [{"message": "no"}]}], UpstreamRejected),
    ([{"type": "connection_ack"}], UpstreamTimeout),
    ([{"type": "connection_ack"}, {"type": "next", "id": "1", "payload": {"data": {"a": "x" * 5000}}}], ResponseTooLarge),
]  # fmt: skip


@for_each(("script", "error"), SCRIPTS, ids=[str(n) for n in range(len(SCRIPTS))])
async def test_a_server_of_subscriptions_against_its_protocol(gql, peer, script, error) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["graphql-transport-ws"])
        await socket.prepare(request)
        for one in script:
            await socket.send_str(one if isinstance(one, str) else orjson.dumps(one).decode())
        while (await socket.receive()).type is WSMsgType.TEXT:
            pass
        return socket

    peer.override = respond
    call = peer.template(query="subscription { a }")
    with pytest.raises(error):
        await read_response(gql, call, {}, seconds=0.7, limits=Limits(response_bytes=4000, event_bytes=4000))


async def test_pings_are_answered_and_other_ids_left_out(gql, peer) -> None:
    heard: list[Any] = []

    async def respond(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse(protocols=["graphql-transport-ws"])
        await socket.prepare(request)
        heard.append(await socket.receive_json())
        for one in ({"type": "ping"}, {"type": "connection_ack", "payload": {}}):
            await socket.send_json(one)
        heard.extend([await socket.receive_json(), await socket.receive_json()])
        for one in ({"type": "next", "id": "2", "payload": {"data": {"a": 0}}},
                    {"type": "next", "id": "1", "payload": {"data": {"a": 1}}}, {"type": "complete", "id": "1"}):  # fmt: skip
            await socket.send_json(one)
        await socket.receive()
        return socket

    peer.override = respond
    assert await read_response(gql, peer.template(query="subscription S { a }"), {"v": 1}) == b'[{"a":1}]'
    assert [one["type"] for one in heard] == ["connection_init", "pong", "subscribe"]
    assert heard[2]["payload"] == {
        "query": "subscription S { a }",
        "variables": {"v": 1},
        "operationName": "S",
    }


async def test_without_the_subprotocol_nothing_is_subscribed(gql, peer) -> None:
    async def respond(request: web.Request) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.receive()
        return socket

    peer.override = respond
    with pytest.raises(UpstreamMalformed, match="graphql-transport-ws"):
        await read_response(gql, peer.template(query="subscription { a }"), {})
