"""The memory of a worker: what it reads after which changes, and whose words a search gets."""

import pytest

from app.catalog.feed import ChangeNotice
from app.search.signals import SearchScope
from app.search.words import SearchWords
from app.search.words.stems import digest_query, digest_synonyms, stem_query
from app.storage.models import TENANT, PinnedResultRow, SynonymSetRow, ToolsetRow
from tests.stored import clear, store_provider, store_tool

REGISTRY = SearchScope(TENANT, "key")
DESK = SearchScope(TENANT, "key", "desk")
OTHER = SearchScope(TENANT, "key", "other")


async def store(database, *rows):
    async with database.transaction() as session:
        session.add_all(rows)


def synonyms(*terms, expand_to=None, toolset=None):
    digest = digest_synonyms(terms, expand_to)
    return SynonymSetRow(terms=list(terms), expand_to=expand_to, toolset=toolset, digest=digest)


def pin(query, *tools, toolset=None):
    return PinnedResultRow(query=query, tools=list(tools), toolset=toolset, digest=digest_query(query))


@pytest.fixture
async def tools(registry):
    provider = await store_provider(registry, "shop")
    stored = {name: await store_tool(registry, provider, name) for name in ("one", "two", "three")}
    return {"provider": provider, **stored}


async def test_toolset_adds_synonyms_and_replaces_pins(registry, tools):
    await store(registry, ToolsetRow(name="desk"))
    await store(
        registry,
        synonyms("voucher", "coupon"),
        synonyms("cab", "taxi"),
        synonyms("voucher", expand_to=["gift card"], toolset="desk"),
        pin("get money", "shop.one"),
        pin("orders", "shop_two", "shop.one"),
        pin("money", "shop.three", toolset="desk"),
    )
    words = SearchWords(registry)
    await words.start()
    assert words.get_synonyms(REGISTRY)[("voucher",)] == (("coupon",),)
    assert words.get_synonyms(DESK)[("voucher",)] == (("gift", "card"), ("coupon",))
    assert words.get_synonyms(DESK)[("cab",)] == (("taxi",),)
    assert words.get_synonyms(OTHER) == words.get_synonyms(REGISTRY)
    ids = {name: row.id for name, row in tools.items()}
    money, orders = stem_query("the money"), stem_query("orders")
    assert words.get_pins(money, REGISTRY) == words.get_pins(money, OTHER) == (ids["one"],)
    assert words.get_pins(money, DESK) == (ids["three"],)
    assert words.get_pins(orders, DESK) == (ids["two"], ids["one"])
    assert words.get_pins((), REGISTRY) == words.get_pins((*money, *orders), REGISTRY) == ()


async def test_changes_are_read_when_the_feed_names_them(registry, tools):
    words = SearchWords(registry)
    await words.start()
    await store(registry, synonyms("voucher", "coupon"), pin("money", "shop.one", "shop.later"))
    await words.on_changes([ChangeNotice("key"), ChangeNotice("tool"), ChangeNotice("toolset")])
    assert (words.get_synonyms(REGISTRY), words.get_pins(("money",), REGISTRY)) == ({}, ())
    await words.on_changes([ChangeNotice("search-words")])
    assert ("voucher",) in words.get_synonyms(REGISTRY)
    assert words.get_pins(("money",), REGISTRY) == (tools["one"].id,)
    later = await store_tool(registry, tools["provider"], "later")
    before = words.get_synonyms(REGISTRY)
    await words.on_changes([ChangeNotice("tool", object_id=str(later.id))])
    assert words.get_pins(("money",), REGISTRY) == (tools["one"].id, later.id)
    # Only the tools were read.
    assert words.get_synonyms(REGISTRY) is before
    await clear(registry)
    await words.on_changes([ChangeNotice("all")])
    assert (words.get_synonyms(REGISTRY), words.get_pins(("money",), REGISTRY)) == ({}, ())


async def test_deletion_of_a_toolset_takes_its_words_along(registry, tools):
    toolset = ToolsetRow(name="desk")
    await store(registry, toolset)
    await store(
        registry, synonyms("voucher", "coupon", toolset="desk"), pin("a1", "shop.one", toolset="desk")
    )
    words = SearchWords(registry)
    await words.start()
    assert ("voucher",) in words.get_synonyms(DESK)
    async with registry.transaction() as session:
        await session.delete(toolset)
    await words.on_changes([ChangeNotice("toolset", object_id="desk")])
    assert ("voucher",) not in words.get_synonyms(DESK)
    assert words.get_pins(stem_query("a1"), DESK) == ()


async def test_disabled_tool_is_not_pinned(registry, tools):
    await store(registry, pin("money", "shop.one", "shop.two"))
    provider = await store_provider(registry, "off", enabled=False)
    hidden = await store_tool(registry, provider, "tool")
    await store(registry, pin("hidden", "off.tool"))
    words = SearchWords(registry)
    await words.start()
    assert words.get_pins(("hidden",), REGISTRY) == ()
    assert words.get_pins(("money",), REGISTRY) == (tools["one"].id, tools["two"].id)
    assert hidden.id not in words.get_pins(("money",), REGISTRY)
