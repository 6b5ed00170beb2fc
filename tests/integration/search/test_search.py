"""Search: the tool that was meant comes first, nothing hidden is shown, and every text is a legal query."""

import asyncio

import orjson
import pytest
from sqlalchemy import select, update

from app.catalog.feed import ChangeFeed, ChangeNotice, record_change
from app.search.conditions import ToolCondition
from app.search.hits import write_hits
from app.search.index import Filters
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.storage.models import (
    TENANT,
    Override,
    Provider,
    Revision,
    Tool,
)
from tests.harness.cases import for_each
from tests.stored import store_provider, store_tool


def reader_of(providers: frozenset | None = None, tags: frozenset | None = None) -> Principal:
    return Principal("k1", "reader", TENANT, frozenset({"tools:read"}), providers=providers, tags=tags)


EVERYBODY = reader_of()


@pytest.fixture
async def index(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    search = SearchIndex(registry, base_url="http://gateway.test")
    feed.subscribe(search.on_changes)
    await feed.start()
    await search.start()
    await search.wait_loaded()
    search.feed = feed
    yield search
    await feed.aclose()
    await search.aclose()


@pytest.fixture
async def library(registry, index):
    books = await store_provider(registry, "library", tags=["public"])
    weather = await store_provider(registry, "weather", tags=["internal"])
    await store_tool(
        registry, books, "searchBooks", description="Full-text search of the catalogue.", tags=["reading"]
    )
    await store_tool(registry, books, "getBook", description="One title with its copies.")
    await store_tool(
        registry,
        books,
        "createLoan",
        description="Borrow a copy.",
        inputs={
            "type": "object",
            "properties": {
                "body": {
                    "type": "object",
                    "properties": {"memberId": {"description": "The membership card."}},
                }
            },
        },
    )
    await store_tool(registry, weather, "get_forecast_v2", description="Rain and temperature for a city.")
    await store_tool(registry, weather, "hidden", override={"enabled": False}, description="Secret books.")
    await index.feed.catch_up()
    return {"library": books, "weather": weather}


async def names(index, text, *, principal=EVERYBODY, limit=10, **filters):
    hits = await index.search(text, principal=principal, filters=Filters(**filters), limit=limit)
    return [hit.name for hit in hits]


@for_each(
    ("query", "best"),
    [
        ("searchBooks", "library.searchBooks"),
        ("search books", "library.searchBooks"),
        ("SEARCHING for a BOOK", "library.searchBooks"),
        ("library.getBook", "library.getBook"),
        ("library_getBook", "library.getBook"),
        ("get_book", "library.getBook"),
        ("what is the temperature in a city?", "weather.get_forecast_v2"),
        ("forecasts", "weather.get_forecast_v2"),
        ("forcast", "weather.get_forecast_v2"),
        ("membership card", "library.createLoan"),
        ("member id", "library.createLoan"),
        ("borrowing", "library.createLoan"),
        ("reading", "library.searchBooks"),
        ("weather", "weather.get_forecast_v2"),
    ],
)
async def test_the_tool_that_was_meant_comes_first(index, library, query, best):
    assert (await names(index, query))[0] == best


async def test_an_exact_name_comes_before_everything_that_merely_speaks_of_it(registry, index, library):
    for number in range(5):
        await store_tool(
            registry, library["weather"], f"loud{number}", description="getBook " * 50, tags=["getBook"]
        )
    await index.feed.catch_up()
    assert (await names(index, "getBook"))[0] == "library.getBook"


@for_each(
    "query",
    [
        '"', "(", "a AND", "name:x", "*", '+-&&||!(){}[]^"~*?:/', "\\", "a:b:c", "[1 TO 2]", "IN [", "\x00",
        "\ud800", "日本語の本", "🙂", "a" * 1000, " ".join(f"w{n}" for n in range(500)), "' OR 1=1 --", "\n\t",
        "-" * 999,
    ],
)  # fmt: skip
async def test_any_text_is_a_legal_query(index, library, query):
    await names(index, query)


async def test_an_empty_query_lists_by_name(index, library):
    assert await names(index, "  ") == [
        "library.createLoan", "library.getBook", "library.searchBooks", "weather.get_forecast_v2",
    ]  # fmt: skip
    assert await names(index, "", provider="library", limit=1) == ["library.createLoan"]
    assert await names(index, "", tag="reading") == ["library.searchBooks"]


async def test_filters_narrow(index, library):
    assert await names(index, "get", provider="weather") == ["weather.get_forecast_v2"]
    assert await names(index, "search get book", tag="reading") == ["library.searchBooks"]
    assert set(await names(index, "search get book", tag="public")) == {
        "library.searchBooks",
        "library.getBook",
    }
    assert await names(index, "book", provider="nobody") == []


@pytest.mark.parametrize("query", ["secret books", "hidden", "weather.hidden", ""])
async def test_a_disabled_tool_is_not_found(index, library, query):
    assert "weather.hidden" not in await names(index, query, limit=50)


@pytest.mark.parametrize("query", ["book forecast loan", "", "library.getBook"])
async def test_a_limited_key_finds_only_what_it_may_call(index, library, query):
    by_provider = await names(index, query, principal=reader_of(providers=frozenset({"weather"})))
    by_tag = await names(index, query, principal=reader_of(tags=frozenset({"internal"})))
    assert "library.getBook" not in by_provider + by_tag
    assert await names(index, query, principal=reader_of(providers=frozenset(), tags=None)) == []
    assert await names(index, query, principal=reader_of(frozenset({"weather"}), frozenset({"public"}))) == []


async def test_a_tag_that_came_with_an_import_widens_nothing(registry, index, library):
    async with registry.transaction() as session:
        revision = Revision(provider_id=library["weather"].id)
        session.add(revision)
    await store_tool(
        registry,
        library["weather"],
        "imported",
        tags=["reading"],
        description="book",
        revision_id=revision.id,
    )
    await index.feed.catch_up()
    assert "weather.imported" in await names(index, "book", tag="reading")
    reader = reader_of(tags=frozenset({"reading"}))
    for query in ("book", ""):
        assert await names(index, query, principal=reader) == ["library.searchBooks"]


async def test_equal_scores_stand_in_the_order_of_names(registry, index):
    twins = await store_provider(registry, "twins")
    for letter in "dbeac":
        await store_tool(registry, twins, f"same{letter * 3}", description="equal words here")
    await index.feed.catch_up()
    expected = [f"twins.same{letter * 3}" for letter in "abcde"]
    assert await names(index, "equal words") == expected
    assert await names(index, "equal words", limit=2) == expected[:2]


async def test_changes_are_found_at_once_and_old_ones_are_gone(registry, index, library):
    async with registry.transaction() as session:
        tool = (await session.execute(select(Tool).where(Tool.name == "library.getBook"))).scalar_one()
        session.add(Override(tool_id=tool.id, description="Zebra facts.", tags=["stripes"]))
        await session.flush()
        await record_change(session, kind="tool", provider_id=tool.provider_id, object_id=str(tool.id))
    await index.feed.catch_up()
    assert await names(index, "zebra") == ["library.getBook"]
    assert await names(index, "title") == []
    async with registry.transaction() as session:
        provider = await session.get(Provider, library["library"].id)
        provider.enabled = False
        await record_change(session, kind="provider", provider_id=provider.id)
    await index.feed.catch_up()
    assert await names(index, "zebra") == []
    async with registry.transaction() as session:
        await session.delete(await session.get(Provider, library["weather"].id))
        await session.flush()
        await record_change(session, kind="provider", provider_id=library["weather"].id)
    await index.feed.catch_up()
    assert await names(index, "forecast") == []
    assert len(index) == 3


async def change_provider(registry, index, provider, **columns):
    async with registry.transaction() as session:
        row = await session.get(Provider, provider.id)
        for name, value in columns.items():
            setattr(row, name, value)
        await record_change(session, kind="provider", provider_id=row.id)
    await index.feed.catch_up()


async def test_a_change_of_a_provider_writes_no_document_and_still_decides_who_finds_its_tools(
    registry, index, library
):
    before = index.documents_indexed
    reader = reader_of(tags=frozenset({"public"}))
    assert await names(index, "book", principal=reader)
    await change_provider(registry, index, library["library"], tags=["other"])
    assert await names(index, "book", principal=reader) == []
    assert await names(index, "book", tag="public") == []
    assert await names(index, "book", tag="other")
    assert await names(index, "book", principal=reader_of(tags=frozenset({"other"})))
    await change_provider(registry, index, library["library"], enabled=False)
    assert await names(index, "book") == []
    await change_provider(registry, index, library["library"], enabled=True)
    assert "library.getBook" in await names(index, "book")
    assert index.documents_indexed == before


async def test_of_a_changed_provider_only_tools_that_changed_are_indexed_again(registry, index, library):
    before, documents = index.documents_indexed, len(index)
    async with registry.transaction() as session:
        rows = {row.name: row for row in (await session.execute(select(Tool))).scalars()}
        rows["library.getBook"].description = "Zebra facts."
        await session.delete(rows["library.createLoan"])
        await session.flush()
        await record_change(session, kind="provider", provider_id=library["library"].id)
    await index.feed.catch_up()
    assert await names(index, "zebra") == ["library.getBook"]
    assert await names(index, "borrow") == []
    assert (index.documents_indexed, len(index)) == (before + 1, documents - 1)


async def test_everything_is_compared_and_nothing_written_twice(registry, index, library):
    before, documents = index.documents_indexed, len(index)
    await index.on_changes([ChangeNotice("all")])
    assert (index.documents_indexed, len(index)) == (before, documents)
    assert await names(index, "getBook", limit=1) == ["library.getBook"]


async def test_more_changes_than_can_be_named_are_read_with_the_provider(registry, index):
    provider = await store_provider(registry, "many")
    many = [
        Tool(
            provider_id=provider.id,
            source_key=str(n),
            name=f"many.t{n}",
            alias=f"many_t{n}",
            description="one",
        )
        for n in range(1_200)
    ]
    async with registry.transaction() as session:
        session.add_all(many)
        await session.flush()
        await record_change(session, kind="provider", provider_id=provider.id)
    await index.feed.catch_up()
    assert len(index) == 1_200
    async with registry.transaction() as session:
        await session.execute(update(Tool).where(Tool.name != "many.t7").values(description="another"))
        await record_change(session, kind="provider", provider_id=provider.id)
    await index.feed.catch_up()
    assert (index.documents_indexed, len(index)) == (1_200 + 1_199, 1_200)
    assert await names(index, "one", limit=50) == ["many.t7"]


async def test_a_hit_shows_the_tool_as_it_is(registry, index):
    provider = await store_provider(registry, "odd")
    inputs = {
        "type": "object",
        "properties": {'a"b\\': {"maximum": 12345678901234567, "default": "日本 \u2028"}},
    }
    await store_tool(registry, provider, "tool", description='say "hi"\n🙂', tags=["b", "a"], inputs=inputs)
    await index.feed.catch_up()
    for words in ("hi", ""):
        hits = await index.search(words, principal=EVERYBODY)
        body = write_hits(hits, is_available=lambda _: False, condition=lambda _: ToolCondition())
        (shown,) = orjson.loads(body)["items"]
        assert shown.pop("score") == hits[0].score
        assert shown.pop("available") is None
        assert shown == {
            "name": "odd.tool",
            "alias": "odd_tool",
            "provider": "odd",
            "signature": 'odd.tool("a\\"b\\\\": any)',
            "description": 'say "hi"\n🙂',
            "effects": {
                "read_only": True,
                "destructive": False,
                "idempotent": None,
                "requires_approval": False,
                "deprecated": False,
            },
            "cost": {"tokens": 39, "average_response_size": None},
            "health": None,
            "missing_credential": None,
            "inputs": inputs,
            "tags": ["b", "a"],
            "call_url": "http://gateway.test/tools/odd_tool/call",
        }


async def test_a_hit_says_what_decides_whether_to_call_the_tool(registry, index):
    provider = await store_provider(registry, "shop")
    slots = [[{"slot": "key"}], [{"slot": "user"}, {"slot": "password"}]]
    for name, method, fields in (
        ("read", "GET", {"average_response_size": 2_000, "security": slots}),
        ("write", "PUT", {"deprecated": True, "override": {"requires_approval": True}}),
        ("send", "POST", {"override": {"annotations": {"destructive": False}}}),
        ("free", "POST", {"security": [[{"slot": "key"}], []]}),
    ):
        template = {"call_template_type": "http", "http_method": method, "url": "https://shop.example.com"}
        await store_tool(registry, provider, name, call_template=template, **fields)
    await index.feed.catch_up()
    for words in ("shop", ""):
        hits = {hit.name: hit for hit in await index.search(words, principal=EVERYBODY)}
        shown = {name: orjson.loads(b"{" + hit.json_members) for name, hit in hits.items()}
        assert shown["shop.read"]["cost"]["average_response_size"] == 2_000
        assert hits["shop.read"].credential_slots == (("key",), ("user", "password"))
        assert hits["shop.free"].credential_slots == hits["shop.send"].credential_slots == ()
        assert hits["shop.read"].provider == "shop"
        effects = {name: tuple(one["effects"].values()) for name, one in shown.items()}
        assert effects == {
            "shop.read": (True, False, None, False, False),
            "shop.write": (False, True, True, True, True),
            "shop.send": (False, False, False, False, False),
            "shop.free": (False, True, False, False, False),
        }


async def test_a_write_that_was_cut_off_is_made_good(registry, index, library):
    written = asyncio.create_task(change_provider(registry, index, library["library"], description="new"))
    async with registry.transaction() as session:
        await session.execute(update(Tool).values(description="giraffe"))
        await record_change(session, kind="provider", provider_id=library["library"].id)
        await record_change(session, kind="provider", provider_id=library["weather"].id)
    await written
    cut = asyncio.create_task(index.on_changes([ChangeNotice("all")]))
    await asyncio.sleep(0.01)
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    await index.on_changes([ChangeNotice("all")])
    assert len(await names(index, "giraffe", limit=50)) == len(index) == 4


async def test_what_changes_during_the_first_load_is_not_lost(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    search = SearchIndex(registry, base_url="http://gateway.test")
    feed.subscribe(search.on_changes)
    await feed.start()
    provider = await store_provider(registry, "early")
    await store_tool(registry, provider, "first", description="early bird")
    await search.start()
    await asyncio.gather(feed.catch_up(), store_tool(registry, provider, "second", description="early worm"))
    await feed.catch_up()
    await search.wait_loaded()
    assert set(await names(search, "early")) == {"early.first", "early.second"}
    await feed.aclose()
    await search.aclose()


async def all_names(index, *texts, limit=10, **filters):
    result = await index.find(texts, principal=EVERYBODY, filters=Filters(**filters), limit=limit)
    return [hit.name for hit in result.hits]


async def test_several_texts_give_their_hits_in_turn_and_each_tool_once(index, library):
    books, rain = await names(index, "search book"), await names(index, "temperature in a city")
    assert len(books) >= 2
    assert len(rain) == 1
    assert await all_names(index, "search book", "temperature in a city") == [books[0], rain[0], *books[1:]]
    assert await all_names(index, "temperature in a city", "search book", limit=2) == [rain[0], books[0]]
    assert await all_names(index, "search book", "searching books") == books


async def test_of_several_texts_empty_ones_are_left_out(index, library):
    assert await all_names(index, "", "temperature in a city", " ") == ["weather.get_forecast_v2"]
    assert await all_names(index, "", " ") == await names(index, "")
    assert await all_names(index) == await names(index, "")


@pytest.mark.parametrize("text", ["search a book", ""])
async def test_a_search_among_some_tools_finds_no_others(registry, index, library, text):
    async with registry.read_session() as session:
        chosen = (await session.scalars(select(Tool.id).where(Tool.name == "library.getBook"))).all()
    assert await all_names(index, text, tools=frozenset(chosen)) == ["library.getBook"]
    assert await all_names(index, text, tools=frozenset()) == []


@pytest.mark.parametrize("text", ["search a book in a city", ""])
async def test_hits_have_any_of_the_tags(index, library, text):
    assert await all_names(index, text, any_tag=frozenset({"reading", "nobody"})) == ["library.searchBooks"]
    assert set(await all_names(index, text, any_tag=frozenset({"reading", "internal"}))) == {
        "library.searchBooks", "weather.get_forecast_v2",
    }  # fmt: skip
    assert await all_names(index, text, any_tag=frozenset()) == []


async def test_of_a_long_text_the_rare_words_count(registry, index, library):
    """A whole task may be pasted; its rare words may be anywhere in it."""
    common = " ".join(f"filler{number}" for number in range(60))
    for number in range(3):
        await store_tool(registry, library["weather"], f"other{number}", description=common)
    await index.feed.catch_up()
    unknown = " ".join(f"nothing{number}" for number in range(200))
    assert "library.createLoan" in await names(index, f"{unknown} {common} and a membership card")
