"""`find_tools` has the ranking, the visibility and the order of the search at the same address."""

import pytest

from tests.harness.cases import for_each

from .visibility import meta_tool

ADDRESSES = [
    pytest.param("", "/tools/search", id="registry"),
    pytest.param("/toolsets/mixed", "/search", id="toolset"),
]


@pytest.fixture(scope="module")
async def client(gateway_app, world):
    return await gateway_app.client("tools:read", "tools:call", providers=("mine",))


async def found(client, address, **arguments):
    response = await meta_tool("find_tools", arguments).send(client, address)
    assert response.status_code == 200, response.text
    result = response.json()["result"]
    assert not result["isError"], result
    return [tool["name"] for tool in result["structuredContent"]["tools"]]


@for_each(("address", "path"), ADDRESSES)
@for_each("query", ["tool number", "list the planets", "mine_listStars", "zzzzzq", "nothing at all"])
@for_each("limit", [1, 20])
async def test_find_tools_is_the_search_of_the_address(address, path, query, limit, client):
    response = await client.get(f"{address}{path}", params={"q": query, "limit": limit})
    assert response.status_code == 200, response.text
    searched = [hit["name"].replace(".", "_") for hit in response.json()["items"]]
    assert await found(client, address, query=query, limit=limit) == searched


@pytest.mark.parametrize(("address", "path"), ADDRESSES)
async def test_several_queries_are_those_of_the_search(address, path, client):
    queries = ["planets", "stars", "zzzzzq"]
    response = await client.get(f"{address}{path}", params={"q": queries, "limit": 3})
    searched = [hit["name"].replace(".", "_") for hit in response.json()["items"]]
    assert len(searched) == 3
    assert await found(client, address, query=queries, limit=3) == searched


@pytest.mark.parametrize(("address", "path"), ADDRESSES)
async def test_only_tools_that_change_nothing_are_found(address, path, client):
    every = await found(client, address, query="tool number", limit=20)
    assert set(every) == {"mine_listPlanets", "mine_listStars", "mine_zzzzzq"}
    reading = await found(client, address, query="tool number", limit=20, read_only=True)
    assert set(reading) == {"mine_listPlanets", "mine_listStars"}


@pytest.mark.parametrize(("address", "path"), ADDRESSES)
async def test_a_call_by_a_meta_tool_is_that_of_the_tool(address, path, client, upstream):
    response = await meta_tool("call_read_tool", {"name": "mine_listPlanets"}).send(client, address)
    assert response.json()["result"]["structuredContent"] == {"path": "/listPlanets"}
    before = list(upstream.paths)
    refused = await meta_tool("call_read_tool", {"name": "mine_zzzzzq"}).send(client, address)
    assert refused.json()["result"]["isError"]
    assert upstream.paths == before
    made = await meta_tool("call_tool", {"name": "mine_zzzzzq"}).send(client, address)
    assert made.json()["result"]["structuredContent"] == {"path": "/zzzzzq"}
