"""Weak matches: which they are, and what is said to search for next, from tools that the client may see alone."""

import pytest

from app.catalog.feed import ChangeFeed
from app.search.advice import is_weak
from app.search.index import Filters
from app.search.search_index import SearchIndex
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each
from tests.stored import store_provider, store_tool


def principal(**fields):
    scopes = frozenset({"tools:read"})
    return Principal(**{"key_id": "k", "name": "n", "tenant_id": TENANT, "scopes": scopes} | fields)


EVERYBODY = principal()
SHOP = principal(providers=frozenset({"shop"}))


@pytest.fixture
async def index(registry):
    feed = ChangeFeed(registry, listen_dsn=None, poll_seconds=60)
    search = SearchIndex(registry, base_url="http://gateway.test")
    feed.subscribe(search.on_changes)
    await feed.start()
    shop = await store_provider(registry, "shop", tags=["public"])
    for name, description in (
        ("createCoupon", "Create a coupon for a customer."),
        ("redeemCoupon", "Redeem a coupon when paying."),
        ("listOrders", "All orders of a customer."),
    ):
        await store_tool(registry, shop, name, description=description)
    weather = await store_provider(registry, "weatherstation", tags=["internal"])
    await store_tool(registry, weather, "getForecast", description="Precipitation and temperature.")
    await feed.catch_up()
    await search.start()
    await search.wait_loaded()
    yield search
    await feed.aclose()
    await search.aclose()


async def advice(index, *texts, who=EVERYBODY, **options):
    result = await index.find(texts, principal=who, **options)
    return await index.advise(result, principal=who, **options)


@for_each(
    ("coverage", "cosine", "is_named", "words", "weak"),
    [
        (1.0, None, False, 3, False), (0.5, None, False, 3, False), (0.49, None, False, 3, True),
        (0.49, None, False, 4, False), (0.29, None, False, 4, True), (0.0, None, False, 1, True),
        (0.0, None, True, 1, False), (0.2, 0.6, False, 3, False), (0.2, 0.2, False, 3, True),
        (0.2, None, False, 19, True), (0.2, None, False, 20, False),
    ],
)  # fmt: skip
def test_a_match_is_weak_where_it_has_few_of_the_words_and_not_their_meaning(
    coverage, cosine, is_named, words, weak
):
    assert is_weak(coverage=coverage, cosine=cosine, is_named=is_named, words=words) is weak


@for_each(
    "text", ["create a coupon", "orders of a customer", "listOrders", "shop.createCoupon", "forcast", ""]
)
async def test_a_good_match_has_no_advice(index, text):
    assert await advice(index, text) is None


async def test_weak_matches_say_which_words_no_tool_has(index):
    found = await advice(index, "redeem a zeppelin quixotically")
    assert list(found.unknown_words) == ["zeppelin", "quixotically"]
    assert found.providers[0] == "shop"
    assert "coupon" in found.words
    assert "redeem" not in found.words


async def test_words_that_are_spelt_alike_are_suggested(index):
    # Two letters differ, which the search itself does not accept.
    found = await advice(index, "percipitaion")
    assert list(found.did_you_mean) == [("percipitaion", "precipitation")]
    assert list(found.providers) == ["weatherstation"]


async def test_the_nearest_provider_is_suggested_by_its_name(index):
    found = await advice(index, "weatherstatoin zeppelin")
    assert "weatherstation" in found.providers


async def test_a_word_that_only_hidden_tools_have_is_never_named(index):
    for text in ("percipitaion", "precipitation zeppelin", "weatherstatoin zeppelin", "forcast zeppelin"):
        for who in (SHOP, principal(tags=frozenset({"public"}))):
            found = await advice(index, text, who=who)
            assert found is not None
            said = " ".join(
                (*(other for _, other in found.did_you_mean), *found.providers, *found.words)
            ).lower()
            for hidden in ("precipitation", "weatherstation", "forecast", "temperature"):
                assert hidden not in said


async def test_a_word_that_only_hidden_tools_have_is_as_unknown_as_any_other(index):
    hidden = await advice(index, "precipitation", who=SHOP)
    absent = await advice(index, "zeppelin", who=SHOP)
    assert list(hidden.unknown_words) == ["precipitation"]
    assert list(absent.unknown_words) == ["zeppelin"]
    assert (hidden.did_you_mean, hidden.providers, hidden.words) == (
        absent.did_you_mean,
        absent.providers,
        absent.words,
    )


async def test_advice_is_within_the_filters(index):
    found = await advice(index, "percipitaion", filters=Filters(provider="shop"))
    assert list(found.did_you_mean) == []
    assert "weatherstation" not in found.providers


async def test_of_several_texts_the_weak_ones_have_advice(index):
    found = await advice(index, "create a coupon", "zeppelin")
    assert list(found.unknown_words) == ["zeppelin"]


async def test_a_key_without_tools_gets_no_suggestions(index):
    found = await advice(index, "coupon", who=principal(providers=frozenset()))
    assert (list(found.did_you_mean), list(found.providers), list(found.words)) == ([], [], [])
