"""Query parameters of POST /tools/{name}/call that name inputs of the tool are its arguments."""

import json

import orjson
import pytest

from app.calls.log.bodies import BodyRecorder
from tests.harness.cases import for_each

INPUTS = {
    "type": "object",
    "properties": {
        "q": {"type": "string"},
        "limit": {"type": "integer", "maximum": 50},
        "available": {"type": "boolean"},
        "genre": {"type": "array", "items": {"type": "string"}},
        "body": {"type": "object", "properties": {"n": {"type": "integer"}}},
        "format": {"type": "string"},
        "dry_run": {"type": "string"},
    },
    "additionalProperties": False,
}


@pytest.fixture
async def search(api, upstream):
    """Returns the path of a call of a new tool, which echoes its request."""

    async def make(method="GET", path="/echo", **provider):
        row = await api.provider("library", **provider)
        template = {"http_method": method, "url": f"{upstream.url}{path}", "body_field": "body"}
        await api.tool(row, "search", template, inputs=INPUTS)
        return "/tools/library.search/call"

    return make


@pytest.fixture
async def searching(search):
    """The path of a call of the tool by GET."""
    return await search()


async def test_query_arguments_have_the_types_of_the_inputs(api, search):
    path = await search("POST")
    client = await api.client()
    query = {"q": "sea & sky", "limit": "3", "available": "true", "genre": ["a", "b"], "body": '{"n": 1}'}
    response = await client.post(path, params=query)
    assert response.status_code == 200, response.text
    by_query = response.json()
    arguments = {"q": "sea & sky", "limit": 3, "available": True, "genre": ["a", "b"], "body": {"n": 1}}
    assert by_query == (await client.post(path, json=arguments)).json()
    assert by_query["path"] == "/echo?q=sea%20%26%20sky&limit=3&available=true&genre=a&genre=b"
    assert orjson.loads(by_query["body"]) == {"n": 1}
    records = await api.calls()
    assert records[0]["request_bytes"] == len(orjson.dumps(arguments)) == records[1]["request_bytes"]


async def test_query_and_body_are_merged(api, search):
    client = await api.client()
    response = await client.post(await search(), params={"limit": "3"}, json={"q": "sea"})
    assert response.json()["path"] == "/echo?q=sea&limit=3"


@for_each(
    ("query", "body", "errors"),
    [
        ("q=a", {"q": "b"}, {"#/query/q": "This is also in the body: give it once."}),
        ("genres=a", {}, {"#/query/genres": "The tool has no input of this name. Did you mean `genre`?"}),
        (
            "dryrun=true",
            {},
            {"#/query/dryrun": "The tool has no input of this name. Did you mean `dry_run`?"},
        ),
        ("page=2", {}, {"#/query/page": "The tool has no input of this name."}),
        ("limit=many", {}, {"#/query/limit": "This must be of type integer."}),
        ("limit=1&limit=2", {}, {"#/query/limit": "Give this once."}),
        ("limit=99", {}, {"#/query/limit": "This must be at most 50."}),
        ("body=%7B%22n%22:%5B%5D%7D", {}, {"#/query/body/n": "This must be of type integer."}),
        ("limit=3", {"q": 7}, {"/q": "This must be of type string."}),
        ("limit=3", [1], {"": "Must be an object."}),
        *(
            (
                f"{name}=a",
                {},
                {
                    f"#/query/{name}": "This name is reserved for the gateway: "
                    "give an argument of this name in the body."
                },
            )
            for name in ("format", "stream")
        ),
        ("dry_run=maybe", {}, {"#/query/dry_run": "Give true or false, once."}),
        ("envelope=a", {}, {"#/query/envelope": "Give true or false, once."}),
    ],
)
async def test_wrong_query_parameters_are_rejected_at_their_place(
    api, searching, upstream, query, body, errors
):
    client = await api.client()
    response = await client.post(f"{searching}?{query}", json=body)
    assert response.status_code == 422
    assert {error["pointer"]: error["detail"] for error in response.json()["errors"]} == errors
    assert upstream.requests == []


@pytest.mark.parametrize("query", ["q=%ff", "&".join(f"q={n}" for n in range(1001))])
async def test_a_query_string_that_cannot_be_read_is_a_bad_request(api, search, query):
    response = await (await api.client()).post(f"{await search()}?{query}")
    assert response.status_code == 400
    assert response.json()["errors"][0]["pointer"] == "#/query"


async def test_reserved_names_are_not_arguments(api, search, upstream):
    path = await search()
    client = await api.client()
    described = (await client.post(path, params={"dry_run": "true", "q": "sea", "limit": "3"})).json()
    assert described["url"] == f"{upstream.url}/echo?q=sea&limit=3"
    assert upstream.requests == []
    sent = await client.post(path, params={"dry_run": "false"}, json={"format": "csv", "dry_run": "x"})
    assert sent.json()["path"] == "/echo?format=csv&dry_run=x"


async def test_a_dry_run_rejects_wrong_query_arguments(api, search):
    response = await (await api.client()).post(f"{await search()}?dry_run=true&limit=99")
    assert response.status_code == 422
    assert response.json()["errors"][0]["pointer"] == "#/query/limit"


async def test_the_inputs_of_an_invisible_tool_are_not_suggested(api, search):
    path = await search()
    client = await api.client(providers=["other"])
    response = await client.post(f"{path}?genres=a")
    assert response.status_code == 404
    assert "genre" not in response.json()["detail"]


async def test_an_idempotency_key_identifies_the_arguments_of_query_and_body(api, search, upstream):
    path = await search("POST")
    client = await api.client()
    header = {"Idempotency-Key": "query-arguments"}
    first = await client.post(path, params={"limit": "3", "q": "a"}, headers=header)
    again = await client.post(path, params={"limit": "3"}, json={"q": "a"}, headers=header)
    other = await client.post(path, params={"limit": "4", "q": "a"}, headers=header)
    assert (first.status_code, again.status_code, other.status_code) == (200, 200, 422)
    assert again.headers["idempotency-replayed"] == "true"
    assert other.json()["type"].endswith(":idempotency-mismatch")
    assert len(upstream.requests) == 1


async def test_cached_responses_differ_by_query_arguments(api, search, upstream):
    path = await search(limits={"cache": {"seconds": 60, "default_seconds": 60}})
    client = await api.client()
    found = [
        (await client.post(path, params=query, json=body)).headers["x-cache"]
        for query, body in (({"q": "a"}, {}), ({"q": "b"}, {}), ({"q": "a"}, {}), ({}, {"q": "b"}))
    ]
    assert found == ["miss", "miss", "hit", "hit"]
    assert len(upstream.requests) == 2


async def test_secrets_are_masked_in_a_call_with_query_arguments(api, upstream):
    row = await api.provider("keyed")
    template = {"url": f"{upstream.url}/echo"}
    await api.tool(row, "search", template, inputs=INPUTS, security=[[{"slot": "key"}]])
    await api.credential(
        row, "key", "api_key", {"value": "canary-of-the-credential"}, origins=[upstream.url],
        public={"location": "query", "name": "token"},
    )  # fmt: skip
    response = await (await api.client()).post("/tools/keyed.search/call?q=sea")
    assert response.json()["path"] == "/echo?q=sea&token=***"
    assert response.headers["x-masked"] == "body"
    assert upstream.requests[0][1] == "/echo?q=sea&token=canary-of-the-credential"


async def test_a_stream_has_query_arguments(api, upstream):
    row = await api.provider("streams")
    inputs = {"type": "object", "properties": {"count": {"type": "integer"}, "pause": {"type": "number"}}}
    await api.tool(row, "drip", {"url": f"{upstream.url}/drip"}, inputs=inputs)
    client = await api.client()
    events = {"Accept": "application/x-ndjson"}
    response = await client.post("/tools/streams.drip/call?count=3&pause=0", headers=events)
    lines = response.text.strip().splitlines()
    assert "".join(json.loads(line) for line in lines[:-1] if line) == "x" * 30
    assert json.loads(lines[-1])["$gateway"]["end"]["upstream_status"] == 200


async def test_recorded_arguments_are_those_of_query_and_body(api, search):
    path = await search()
    recorder = BodyRecorder(api.services.vault, policy="all", max_bytes=1000)
    async with api.with_services(calls={"bodies": recorder}) as recording:
        client = await recording.client()
        response = await client.post(path, params={"limit": "3"}, json={"q": "sea"})
        rejected = await client.post(path, params={"limit": "99"}, json={"q": "sea"})
    await api.services.call_log.flush()
    reader = await api.client("calls:bodies")
    for made, limit in ((response, 3), (rejected, 99)):
        bodies = (await reader.get(f"/calls/{made.headers['x-call-id']}/bodies")).json()
        assert json.loads(bodies["arguments"]["text"]) == {"q": "sea", "limit": limit}
