"""What the README of UTCP shows: its path parameters, its server with a manual, and search before a call."""

import json

import pytest
from aiohttp import web

from tests.harness.beside import web_server

LOOK_UP = {
    "name": "read_volumes_brief",
    "description": "Find a book by its ISBN.",
    "inputs": {
        "type": "object",
        "properties": {name: {"type": "string"} for name in ("key_type", "value", "format")},
        "required": ["key_type", "value"],
    },
    "outputs": {"type": "object"},
    "tags": ["books"],
    "tool_provider": {
        "provider_type": "http",
        "url": "https://openlibrary.org/api/volumes/brief/{key_type}/{value}.json",
        "http_method": "GET",
    },
}
ARGUMENTS = {"key_type": "isbn", "value": "9780140328721", "format": "json"}


def weather_manual(url):
    """Return the manual of the README's server, whose tool is at the address of this one."""
    return {
        "version": "1.0",
        "tools": [
            {
                "name": "get_weather",
                "description": "Get current weather for a location",
                "inputs": {"type": "object", "properties": {"location": {"type": "string"}}},
                "outputs": {"type": "object", "properties": {"temperature": {"type": "number"}}},
                "tool_provider": {
                    "provider_type": "http",
                    "url": f"{url}/api/weather",
                    "http_method": "GET",
                },
            }
        ],
    }


@pytest.fixture(scope="module")
def requested():
    """The requests that the servers got."""
    return []


@pytest.fixture(scope="module")
async def server(requested):
    """The README's server, which also stands in for Open Library."""

    async def respond(request):
        requested.append(request.raw_path)
        if request.path == "/utcp":
            return web.json_response(weather_manual(str(request.url.origin())))
        if request.path == "/api/weather":
            return web.json_response({"temperature": 22.5, "conditions": "Sunny"})
        return web.json_response({"title": "Matilda"})

    application = web.Application()
    application.router.add_get("/{path:.*}", respond)
    async with web_server(application) as url:
        yield url


@pytest.fixture(scope="module")
async def client(application, server):
    """A client of a gateway that has both, and Open Library at its own address."""
    client = await application.client("admin")
    own = {"version": "1.0", "tools": [LOOK_UP]}
    replaced = json.loads(json.dumps(own).replace("https://openlibrary.org", server))
    for body in (
        {"name": "openlibrary", "source": {"manual": own}},
        {"name": "books", "source": {"manual": replaced}},
        {"name": "weather", "source": {"url": f"{server}/utcp"}},
    ):
        made = await client.post("/providers", json=body)
        assert made.status_code == 201, made.text
    yield client
    for name in ("openlibrary", "books", "weather"):
        await client.delete(f"/providers/{name}")


async def test_path_parameters_are_placed_and_the_rest_is_the_query(client):
    response = await client.post(
        "/tools/openlibrary.read_volumes_brief/call", json=ARGUMENTS, params={"dry_run": "true"}
    )
    assert response.status_code == 200, response.text
    url = response.json()["url"]
    assert url == "https://openlibrary.org/api/volumes/brief/isbn/9780140328721.json?format=json"


async def test_the_upstream_gets_these_bytes(client, requested):
    requested.clear()
    response = await client.post("/tools/books.read_volumes_brief/call", json=ARGUMENTS)
    assert response.json() == {"title": "Matilda"}
    assert requested == ["/api/volumes/brief/isbn/9780140328721.json?format=json"]


async def test_a_missing_path_parameter_is_an_error(client, requested):
    requested.clear()
    response = await client.post("/tools/books.read_volumes_brief/call", json={"key_type": "isbn"})
    assert response.status_code == 422
    assert [one["pointer"] for one in response.json()["errors"]] == ["/value"]
    assert requested == []


async def test_the_tool_of_a_server_with_a_manual_is_called(client, requested):
    requested.clear()
    response = await client.post("/tools/weather.get_weather/call", json={"location": "San Jose, USA"})
    assert response.json() == {"temperature": 22.5, "conditions": "Sunny"}
    assert requested == ["/api/weather?location=San%20Jose%2C%20USA"]


async def test_a_search_for_the_prompt_and_then_the_call_of_a_model_without_tool_calling(client, requested):
    requested.clear()
    form = {"format": "json-prompt"}
    found = (await client.get("/tools/search", params=form | {"q": "current weather in Paris"})).json()
    assert "weather_get_weather" in found["prompt"]
    written = (
        'I look: {"tool_name": "weather_get_weather", "arguments": {"location": "Paris"}} and then tell you.'
    )
    response = await client.post("/tool-calls", params=form, json=written)
    assert response.status_code == 200, response.text
    [message] = response.json()["messages"]
    assert message["role"] == "user"
    head, _, result = message["content"].partition("\n")
    assert "weather_get_weather" in head
    assert json.loads(result) == {"temperature": 22.5, "conditions": "Sunny"}
    assert requested == ["/api/weather?location=Paris"]
