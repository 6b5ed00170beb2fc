"""/tools/export, /toolsets/{name}/export and searches with `format`: tools in the dialects of models' clients."""

import re

import pytest

from app.formats.dialects.aliases import undo
from app.formats.dialects.dialects import FORMATS, load_dialect
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each

EVERYBODY = Principal(key_id="k", name="n", tenant_id=TENANT, scopes=frozenset({"tools:read"}))
INPUTS = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 2},
        "labels": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["name"],
}


@pytest.fixture
async def library(api):
    books = await api.provider("library", tags=["public"])
    template = {"url": "https://x.example/books", "http_method": "POST"}
    await api.tool(books, "addBook", template, description="Adds a book.", tags=["own"], inputs=INPUTS)
    await api.tool(
        books,
        "getBook",
        {"url": "https://x.example/books/{id}"},
        description="Finds a book.",
        inputs={"type": "object", "properties": {"id": {"type": "integer"}}, "required": ["id"]},
    )
    weather = await api.provider("weather")
    await api.tool(weather, "now", {"url": "https://x.example/w"}, description="Rain or sun.")
    return {"library": books, "weather": weather}


async def export(client, path="/tools/export", **query):
    response = await client.get(path, params={"format": "openai-chat", **query})
    assert response.status_code == 200, response.text
    return response.json()


def exported(found):
    return [tool["function"]["name"] for tool in found["tools"]]


@for_each("target", FORMATS)
async def test_each_format_has_all_tools_with_their_aliases_and_reports(target, api, library):
    client = await api.client()
    found = await export(client, format=target)
    assert found["format"] == target
    names = {report["alias"]: report["name"] for report in found["report"]["tools"]}
    assert sorted(names.values()) == ["library.addBook", "library.getBook", "weather.now"]
    assert {name: alias["tool"] for name, alias in found["aliases"].items()} == names
    pattern = r"\w+" if target == "utcp" else load_dialect(target).name_pattern
    assert all(re.fullmatch(pattern, name) for name in names)
    number = len(found["tools"][0]["functionDeclarations"] if target.startswith("gemini") else found["tools"])
    assert number == 3
    assert ("prompt" in found) is (target == "json-prompt")


async def test_exports_are_the_same_bytes_each_time(api, library):
    client = await api.client()
    query = {"format": "anthropic", "strict": "true"}
    first = await client.get("/tools/export", params=query)
    assert (await client.get("/tools/export", params=query)).content == first.content


async def test_tools_are_chosen_by_name_search_provider_and_tag(api, library):
    client = await api.client()
    assert exported(await export(client, names=["weather_now", "library.addBook", "weather.now"])) == [
        "weather_now",
        "library_addBook",
    ]
    unknown = await export(client, names=["weather.now", "library.gone"])
    assert exported(unknown) == ["weather_now"]
    assert unknown["report"]["unknown"] == ["library.gone"]
    assert exported(await export(client, provider="weather")) == ["weather_now"]
    assert exported(await export(client, tag="own")) == ["library_addBook"]
    assert exported(await export(client, q="find a book"))[0] == "library_getBook"
    cut = await export(client, limit=1)
    assert exported(cut) == ["library_addBook"]
    assert cut["report"]["omitted"] == 2


async def test_a_search_with_a_format_exports_what_it_finds(api, library):
    client = await api.client()
    found = (await client.get("/tools/search", params={"q": "add a book"})).json()["items"]
    response = await client.get("/tools/search", params={"q": "add a book", "format": "openai-chat"})
    assert response.json()["items"] == found
    assert response.json()["report"]["tools"][0]["grade"] == "lossless"
    names = [tool["function"]["name"] for tool in response.json()["tools"]]
    assert names == [hit["alias"] for hit in found]


async def test_strict_tools_lose_nothing_or_say_why_they_are_not_strict(api, library):
    client = await api.client()
    found = await export(client, names=["library.addBook"])
    [report] = found["report"]["tools"]
    assert (report["strict"], report["strict_reason"]) == (False, "a map at /properties/labels")
    assert found["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": INPUTS["properties"],
        "required": ["name"],
    }
    strict = await export(client, names=["library.addBook"], strict="true")
    function = strict["tools"][0]["function"]
    assert function["strict"] is True
    assert function["parameters"]["additionalProperties"] is False
    [report] = strict["report"]["tools"]
    assert report["grade"] == "hints"
    assert {"pointer": "/properties/name/minLength", "keyword": "minLength", "value": 2,
            "action": "moved-to-description", "effect": "hint", "server_checks": True} in report["losses"]  # fmt: skip
    tool = await (await api.services.collections.open_view(EVERYBODY)).get("library.addBook")
    record = api.services.exporter.record(tool, "openai-chat", strict="true")
    arguments = {"name": "Emma", "labels": [{"key": "a", "value": "b"}]}
    assert undo(arguments, record) == {"name": "Emma", "labels": {"a": "b"}}
    assert undo({"name": "Emma", "labels": None}, record) == {"name": "Emma"}
    assert strict["aliases"]["library_addBook"] == record.to_json()


async def test_an_export_has_only_what_the_key_may_call(api, library):
    limited = await api.client(providers=["weather"])
    assert exported(await export(limited)) == ["weather_now"]
    hidden = await export(limited, names=["library.addBook"])
    assert (hidden["tools"], hidden["report"]["unknown"]) == ([], ["library.addBook"])
    assert (await (await api.client("tools:call")).get("/tools/export?format=mcp")).status_code == 403


@pytest.mark.parametrize(
    ("query", "pointer"),
    [
        ({"format": "unheard-of"}, "#/query/format"),
        ({"format": "mcp", "strict": "maybe"}, "#/query/strict"),
        ({"format": "mcp", "limit": "0"}, "#/query/limit"),
        ({"format": "mcp", "provider": "A B"}, "#/query/provider"),
    ],
    ids=["unknown", "strict", "limit", "provider"],
)
async def test_invalid_queries_are_rejected_with_a_pointer(query, pointer, api):
    client = await api.client()
    response = await client.get("/tools/export", params=query)
    assert response.status_code == 422
    assert [error["pointer"] for error in response.json()["errors"]] == [pointer]
