"""Meta-tools over a real registry: the search of `/tools/search`, what a key may see, and nothing nested."""

import orjson
import pytest

from app.catalog.feed import ChangeFeed
from app.core.errors import Forbidden
from app.search.index import Filters
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.storage.models import TENANT
from app.toolsets import ToolCollections
from app.toolsets.meta_tools import META_TOOL_NAMES, call_meta_tool
from tests.harness.cases import for_each
from tests.stored import store_provider, store_tool

SCOPES = frozenset({"tools:read", "tools:call"})
BOOK = {
    "type": "object",
    "properties": {"id": {"type": "integer"}, "lang": {"enum": ["en", "de"]}},
    "required": ["id"],
}
SHOWN_BOOK = BOOK | {
    "properties": {"id": {"type": "integer"}, "lang": {"type": "string", "enum": ["en", "de"]}}
}
"""The inputs as agents see them: with the type of each."""


def principal(**fields):
    return Principal(**{"key_id": "k", "name": "n", "tenant_id": TENANT, "scopes": SCOPES} | fields)


class World:
    """The collections of a small registry, and the calls that were made through meta-tools."""

    def __init__(self, collections, search):
        self.collections = collections
        self.search = search
        self.called = []

    async def use(self, name, arguments, *, principal):
        async def call(tool, inner, _budget):
            self.called.append((tool.tool, inner))
            return f"result of {tool.tool}"

        view = await self.collections.open_view(principal)
        return await call_meta_tool(name, arguments, view, call=call)


@pytest.fixture
async def world(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    search = SearchIndex(registry, base_url="http://gateway.test")
    collections = ToolCollections(registry, search)
    for subscriber in (search, collections):
        feed.subscribe(subscriber.on_changes)
    await feed.start()
    library = await store_provider(registry, "library", tags=["public"])
    weather = await store_provider(registry, "weather", tags=["internal"])
    for provider, name, method, description, fields in (
        (library, "searchBooks", "GET", "Search the catalogue of books.\n\nBy title.", {"tags": ["reading"]}),
        (library, "getBook", "GET", "One book with its copies.", {"inputs": BOOK}),
        (library, "createLoan", "POST", "Borrow a copy of a book.", {}),
        (library, "deleteLoan", "DELETE", "Return a book.", {}),
        (weather, "getForecast", "GET", "Rain and temperature for a city.", {}),
    ):
        template = {"call_template_type": "http", "http_method": method, "url": f"https://a.example/{name}"}
        await store_tool(registry, provider, name, description=description, call_template=template, **fields)
    await feed.catch_up()
    await search.start()
    await search.wait_loaded()
    yield World(collections, search)
    await feed.aclose()
    await search.aclose()


def found(result):
    assert not result.is_error, result.text
    return orjson.loads(result.body)


def names(result):
    return [tool["name"] for tool in found(result)["tools"]]


@for_each("query", ["book", "borrow a book", "library.getBook", "rain in a city", "forcast"])
@for_each("limit", [1, 2, 20])
@for_each("key", ["all", "provider", "tag", "nothing"])
async def test_find_tools_is_the_search_of_the_registry(world, query, limit, key):
    limits = {
        "all": {}, "provider": {"providers": frozenset({"library"})},
        "tag": {"tags": frozenset({"internal"})}, "nothing": {"providers": frozenset()},
    }  # fmt: skip
    who = principal(**limits[key])
    expected = await world.search.search(query, principal=who, filters=Filters(), limit=limit)
    result = await world.use("find_tools", {"query": query, "limit": limit}, principal=who)
    assert names(result) == [hit.name.replace(".", "_") for hit in expected]


async def test_a_hit_has_its_signature_and_its_effects(world):
    result = await world.use("find_tools", {"query": "getBook", "limit": 1}, principal=principal())
    answer = found(result)
    assert answer["tools"] == [
        {
            "name": "library_getBook",
            "signature": 'library_getBook(id*: integer, lang: "en"/"de")',
            "description": "One book with its copies.",
            "read_only": True,
            "destructive": False,
            "cost": {"tokens": 45, "average_response_size": None},
            "health": None,
            "missing_credential": None,
        }
    ]
    assert answer["more"] >= 1
    assert answer["weak"] is False
    assert "suggestions" not in answer
    assert result.text.startswith(
        'library_getBook(id*: integer, lang: "en"/"de") [read-only]\n  One book with its copies.\n'
    )
    assert f"{answer['more']} more match" in result.text


async def test_detail_adds_the_schema(world):
    result = await world.use(
        "find_tools", {"query": "getBook", "limit": 1, "detail": "schema"}, principal=principal()
    )
    assert found(result)["tools"][0]["inputSchema"] == SHOWN_BOOK
    assert '"required":["id"]' in result.text.replace(" ", "")


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ({"read_only": True}, ["library_getBook", "library_searchBooks"]),
        ({"tags": ["reading"]}, ["library_searchBooks"]),
        ({"tags": ["reading", "internal"], "provider": "library"}, ["library_searchBooks"]),
        ({"provider": "weather"}, []),
    ],
)
async def test_find_tools_filters(world, filters, expected):
    result = await world.use("find_tools", {"query": "book", **filters}, principal=principal())
    assert sorted(names(result)) == expected
    if not expected:
        assert "No tool matches" in result.text


async def test_several_queries_are_searched_in_turn(world):
    result = await world.use("find_tools", {"query": ["rain", "getBook"], "limit": 2}, principal=principal())
    assert names(result) == ["weather_getForecast", "library_getBook"]


async def test_describe_tools_gives_schemas_and_the_nearest_of_unknown_names(world):
    asked = {"names": ["library_getBook", "library.getBok", "zzz"]}
    result = await world.use("describe_tools", asked, principal=principal())
    answer = found(result)
    assert [(tool["name"], tool["inputSchema"]) for tool in answer["tools"]] == [
        ("library_getBook", SHOWN_BOOK)
    ]
    assert [one["name"] for one in answer["unknown"]] == ["library.getBok", "zzz"]
    assert answer["unknown"][0]["nearest"][0] == "library_getBook"
    assert answer["unknown"][1]["nearest"] == []
    assert "There is no tool zzz." in result.text


async def test_only_unknown_names_are_an_error(world):
    result = await world.use("describe_tools", {"names": ["zzz"]}, principal=principal())
    assert result.is_error


@pytest.mark.parametrize("meta", ["call_read_tool", "call_tool"])
@pytest.mark.parametrize("name", ["library_getBook", "library.getBook"])
async def test_a_tool_is_called_by_each_of_its_names(world, meta, name):
    result = await world.use(meta, {"name": name, "arguments": {"id": 1}}, principal=principal())
    assert result == "result of library.getBook"
    assert world.called == [("library.getBook", {"id": 1})]


async def test_an_unknown_tool_is_an_error_with_the_nearest_names(world):
    near = await world.use("call_tool", {"name": "library.getBok"}, principal=principal())
    assert near.is_error
    assert "library_getBook" in near.text
    far = await world.use("call_tool", {"name": "zzz"}, principal=principal())
    assert "find_tools" in far.text
    assert world.called == []


@pytest.mark.parametrize("name", ["library_createLoan", "library_deleteLoan"])
async def test_call_read_tool_calls_nothing_with_effects(world, name):
    result = await world.use("call_read_tool", {"name": name}, principal=principal())
    assert result.is_error
    assert "call_tool" in result.text
    assert world.called == []
    assert await world.use("call_tool", {"name": name}, principal=principal()) == (
        f"result of {name.replace('_', '.', 1)}"
    )


@for_each("meta", ["call_read_tool", "call_tool"])
@for_each("inner", META_TOOL_NAMES)
async def test_meta_tools_are_not_nested(world, meta, inner):
    arguments = {"name": inner, "arguments": {"name": "library_getBook", "arguments": {}}}
    result = await world.use(meta, arguments, principal=principal())
    assert result.is_error
    assert "directly" in result.text
    assert world.called == []


@for_each("meta", META_TOOL_NAMES)
async def test_a_hidden_tool_is_unknown_to_every_meta_tool(world, meta):
    """The answer differs from that for a name that nobody has only by the name and its words."""
    limited = principal(providers=frozenset({"library"}))
    results = []
    for name, word in (("weather_getForecast", "forecast"), ("weather_getForecasx", "forecasx")):
        arguments = {
            "find_tools": {"query": name, "provider": "weather"},
            "describe_tools": {"names": [name]},
            "read_more": {"continuation": name},
        }.get(meta, {"name": name})
        result = await world.use(meta, arguments, principal=limited)
        texts = (result.text, (result.body or b"").decode(), orjson.dumps(result.error).decode())
        neutral = [text.replace(name, "NAME").replace(word, "WORD") for text in texts]
        results.append([*neutral, result.is_error])
    assert results[0] == results[1]
    assert world.called == []


@for_each("meta", META_TOOL_NAMES)
async def test_a_meta_tool_needs_the_scope_of_its_request_over_http(world, meta):
    needed = "tools:read" if meta in ("find_tools", "describe_tools") else "tools:call"
    with pytest.raises(Forbidden) as caught:
        await world.use(meta, {}, principal=principal(scopes=SCOPES - {needed}))
    assert caught.value.extra["missing_scopes"] == [needed]


@for_each("meta", META_TOOL_NAMES)
async def test_wrong_arguments_are_an_error_that_says_where(world, meta):
    result = await world.use(meta, {"arguments": 1, "limit": 0}, principal=principal())
    assert result.is_error
    assert "/" in result.text
    assert result.error["errors"]
