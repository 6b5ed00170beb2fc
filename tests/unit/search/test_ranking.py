"""The ranking of an index: words, an operator's words, what was learned from use, and vectors."""

from dataclasses import replace
from uuid import UUID, uuid4

import pytest

from app.core.uuid7 import uuid7
from app.search.index import Filters, IndexedProvider, IndexedTool, IndexQuery, ToolIndex
from app.search.signals import SearchScope, Signals, make_tool_key
from app.security.principal import Principal
from app.storage.models import TENANT
from tests.harness.cases import for_each

PROVIDER = uuid4()
SCOPE = SearchScope(TENANT, "k1")
READER = Principal("k1", "reader", TENANT, frozenset({"tools:read"}))


def tool(name: str, description: str = "", **fields) -> IndexedTool:
    fields = {"provider": "shop", "tags": (), "registrar_tags": (), "inputs": {}} | fields
    alias = f"{fields['provider']}_{name}"
    return IndexedTool(
        id=uuid7(),
        provider_id=PROVIDER,
        name=f"{fields['provider']}.{name}",
        alias=alias,
        description=description,
        json_members=b"}",
        **fields,
    )


def index_of(*tools: IndexedTool, **signals) -> ToolIndex:
    index = ToolIndex(Signals(**signals))
    index.providers = {PROVIDER: IndexedProvider("shop", True, frozenset())}
    index.add(tools)
    index.commit()
    return index


def search(index: ToolIndex, text: str, *, limit: int = 10, scope=SCOPE, viewer=READER, **query):
    return index.search(IndexQuery(text, scope, **query), viewer=viewer, filters=Filters(), limit=limit)


def names(index: ToolIndex, text: str, **query) -> list[str]:
    return [match.name.removeprefix("shop.") for match in search(index, text, **query).items]


class Words:
    def __init__(self, synonyms=None, pins=None):
        self._synonyms, self._pins = synonyms or {}, pins or {}

    def get_synonyms(self, scope):
        assert scope == SCOPE
        return self._synonyms

    def get_pins(self, stems, scope):
        assert scope == SCOPE
        return self._pins.get(tuple(stems), ())


class Usage:
    def __init__(self, priors):
        self._priors = priors

    def get_priors(self, stems, scope):
        assert scope == SCOPE
        return self._priors if "fetch" in stems else {}


class Vectors:
    """Vectors by tool; that of a query is the list of its cosines by key."""

    async def encode(self, text):
        raise AssertionError(f"the index encodes nothing, not {text}")

    def compute_cosines(self, vector, keys):
        return [vector.get(key) for key in keys]

    def find_nearest(self, vector, limit):
        return sorted(vector, key=vector.get, reverse=True)[:limit]


@for_each(
    ("query", "best"),
    [
        ("invoices", "listInvoices"),
        ("remove an item of the basket", "deleteCartItem"),
        ("warehouse", "listInvoices"),
        ("shipped", "track"),
        ("express", "track"),
        ("carrier code", "track"),
    ],
)
def test_tools_are_found_by_all_their_texts(query, best):
    properties = {
        "parcel": {"properties": {"carrierCode": {"description": "Who shipped it."}}},
        "speed": {"enum": ["express", "economy"]},
    }
    index = index_of(
        tool("listInvoices", "All invoices. Those of the warehouse come first."),
        tool("deleteCartItem", "Takes an item out of a basket."),
        tool("track", "Where a parcel is.", inputs={"properties": properties}),
    )
    assert names(index, query)[0] == best


def test_one_word_of_a_name_does_not_outweigh_what_the_description_says():
    index = index_of(
        tool("getRate", "Currency exchange: converts an amount of money from one currency to another."),
        tool("convert", "Changes the format of an image."),
    )
    assert names(index, "convert money to another currency")[0] == "getRate"


def test_a_word_of_the_first_sentence_counts_more_than_one_further_down():
    index = index_of(
        tool("first", "Some general remarks on what is here. More of them. Refund of payments."),
        tool("second", "Refund of payments. Some general remarks on what is here. More of them."),
    )
    assert names(index, "refund") == ["second", "first"]


def test_a_tool_is_found_by_its_keywords_and_its_providers_title():
    index = index_of(
        tool("applyCode", "Applies a code.", keywords=("voucher", "gift card")),
        tool("other", "Something else.", provider="x1", provider_title="Acme Logistics"),
    )
    assert names(index, "vouchers") == ["applyCode"]
    assert names(index, "logistics") == ["x1.other"]


@pytest.mark.parametrize("query", ["Rechnungen", "Rechnung", "rechnungen"])
def test_texts_of_another_language_are_stemmed_by_it(query):
    index = index_of(
        tool("a1", "Gibt alle Rechnungen zurück.", language="de-AT"),
        tool("b1", "Returns all payments.", language="en"),
    )
    assert names(index, query) == ["a1"]


def test_an_english_stem_does_not_hide_words_of_other_languages():
    """The English stems of the two words differ; the German ones do not."""
    index = index_of(tool("a1", "Eine Verwaltung.", language="de"))
    assert names(index, "Verwaltungen") == ["a1"]
    assert names(index_of(tool("a1", "Eine Verwaltung.")), "Verwaltungen") == []


@pytest.mark.parametrize("query", ["cafe", "CAFÉ", "Café"])
def test_accents_and_case_are_folded(query):
    assert names(index_of(tool("a1", "Finds a Café nearby.")), query) == ["a1"]


@pytest.mark.parametrize(
    ("query", "found"),
    [("図書館", ["library"]), ("本", ["book"]), ("図書館の本を探す", ["library", "book"]), ("書類", [])],
)
def test_scripts_without_spaces_are_searched_by_bigrams(query, found):
    index = index_of(tool("library", "図書館の一覧"), tool("book", "本 を 探す"), tool("c1", "天気予報"))
    assert set(names(index, query)) == set(found)


def test_hangul_is_found_beneath_particles():
    assert names(index_of(tool("a1", "도서관에서 책을 찾는다")), "도서관") == ["a1"]


def test_of_a_query_of_stop_words_only_these_are_searched():
    assert names(index_of(tool("a1", "Who will do it?"), tool("b1", "Payments.")), "who will") == ["a1"]


def test_frequent_verbs_of_requests_are_no_words_of_a_query():
    index = index_of(
        tool("giveHelp", "Please find and show me what you need to get."), tool("pay", "Payment.")
    )
    assert names(index, "please help me find how to make a payment")[0] == "pay"


def test_synonyms_find_what_the_words_do_not():
    synonyms = {("voucher",): [("coupon",), ("gift", "card")], ("gift", "card"): [("voucher",)]}
    index = index_of(
        tool("createCoupon", "Creates a coupon."),
        tool("sellGiftCard", "Sells a gift card."),
        tool("createInvoice", "Creates an invoice."),
        operator_words=Words(synonyms),
    )
    assert set(names(index, "voucher")) == {"createCoupon", "sellGiftCard"}
    assert names(index, "create a voucher")[0] == "createCoupon"
    found = search(index, "voucher", explain=True)
    assert found.unknown_words == ["voucher"]
    assert found.synonyms == {"voucher": ["coupon", "gift card"]}
    (word,) = next(one for one in found.items if one.name == "shop.createCoupon").explanation.words
    assert (word.word, word.field, word.synonym_of) == ("coupon", "head", "voucher")
    assert found.coverage == 1.0


def test_a_word_counts_more_than_its_synonym():
    index = index_of(
        tool("a1", "One coupon."),
        tool("b1", "One voucher."),
        operator_words=Words({("voucher",): [("coupon",)]}),
    )
    assert names(index, "voucher") == ["b1", "a1"]


def test_a_search_without_a_scope_has_no_words_of_the_operator():
    words = Words({("voucher",): [("coupon",)]}, {("voucher",): [UUID(int=1)]})
    assert names(index_of(tool("a1", "One coupon."), operator_words=words), "voucher", scope=None) == []


def test_pinned_results_come_first_in_their_order_and_only_where_they_may_be_seen():
    first, second = tool("unrelated", "No such word."), tool("other", "None here.", provider="hidden")
    exact = tool("refund", "Refunds a payment.")
    pins = Words(pins={("refund",): [second.id, first.id, uuid7()]})
    index = index_of(exact, first, second, operator_words=pins)
    assert names(index, "refund") == ["hidden.other", "unrelated", "refund"]
    assert search(index, "refund").is_named
    assert names(index, "refund", limit=1) == ["hidden.other"]
    limited = Principal("k1", "reader", TENANT, frozenset(), providers=frozenset({"shop"}))
    index.providers = {PROVIDER: IndexedProvider("elsewhere", True, frozenset())}
    assert names(index, "refund", viewer=limited) == []


def test_what_was_called_after_such_words_rises_but_never_above_a_name():
    better, used = tool("fetchOrder", "Fetch an order of a client."), tool("lookUp", "Fetch an order.")
    unmatched = tool("download", "No word of it.")
    index = index_of(better, used, unmatched, usage=Usage({used.id: 1.0, unmatched.id: 0.5}))
    without = index_of(better, used, unmatched)
    assert names(without, "fetch the order of a client") == ["fetchOrder", "lookUp"]
    found = search(index, "fetch the order of a client", explain=True)
    scores = {one.name: one.score for one in found.items}
    assert scores["shop.download"] == pytest.approx(0.15)
    assert scores["shop.lookUp"] - 0.3 == pytest.approx(
        {one.name: one.score for one in search(without, "fetch the order of a client").items}["shop.lookUp"]
    )
    assert names(index, "fetchOrder")[0] == "fetchOrder"


def test_vectors_order_the_candidates_and_a_tool_without_one_is_ranked_by_words():
    coupon, order, plain = (
        tool("a1", "Apply a coupon."),
        tool("b1", "Apply to an order."),
        tool("c1", "Apply."),
    )
    index = index_of(coupon, order, plain, vectors=Vectors())
    assert names(index, "apply")[0] == "c1"
    vector = {make_tool_key(coupon.id): 0.8, make_tool_key(order.id): -0.5}
    found = search(index, "apply", vector=vector, explain=True)
    assert [match.name for match in found.items] == ["shop.a1", "shop.c1", "shop.b1"]
    assert found.cosine == 0.8
    assert [match.explanation.cosine for match in found.items] == [0.8, None, -0.5]
    best = found.items[0]
    assert best.score == pytest.approx(best.explanation.words_share + 1.2)
    assert found.items[1].score == found.items[1].explanation.words_share == 1.0


def test_an_explanation_adds_up_to_the_score_by_words():
    index = index_of(
        tool("searchBooks", "Find books in the catalogue.", tags=("books",)), tool("b1", "Books."), tool("c1")
    )
    for match in search(index, "find all books of the catalogue", explain=True).items:
        explained = sum(word.score for word in match.explanation.words)
        assert explained == pytest.approx(match.explanation.words_score, rel=1e-3)
    assert search(index, "books").items[0].explanation is None


def test_coverage_is_the_share_of_the_words_that_the_best_match_has():
    index = index_of(tool("searchBooks", "Find books."), tool("b1", "Weather of a city."))
    assert search(index, "books").coverage == 1.0
    partly = search(index, "books about zeppelins")
    assert 0 < partly.coverage < 0.5
    assert partly.unknown_words == ["about", "zeppelins"]
    assert search(index, "zeppelins").coverage == 0.0
    assert search(index, "searchBooks").is_named
    assert not search(index, "books").is_named


def test_the_keys_of_tools_are_positive_and_differ():
    keys = {make_tool_key(uuid7()) for _ in range(1_000)}
    assert len(keys) == 1_000
    assert all(0 <= key < 1 << 62 for key in keys)


def test_a_tool_without_a_word_of_the_query_is_found_by_its_vector():
    coupon, invoice = (
        tool("createCoupon", "Create a coupon."),
        tool("listInvoices", "A voucher is in no text."),
    )
    index = index_of(coupon, invoice, vectors=Vectors())
    vector = {make_tool_key(coupon.id): 0.9, make_tool_key(invoice.id): 0.1}
    assert names(index, "discount voucher", vector=vector) == ["createCoupon", "listInvoices"]
    assert names(index, "discount voucher") == ["listInvoices"]


def test_a_near_tool_that_the_viewer_may_not_see_is_not_found():
    coupon = tool("createCoupon", "Create a coupon.")
    index = index_of(coupon, vectors=Vectors())
    viewer = Principal("k1", "reader", TENANT, frozenset({"tools:read"}), providers=frozenset({"other"}))
    assert search(index, "voucher", vector={make_tool_key(coupon.id): 0.9}, viewer=viewer).items == []


def test_the_vector_of_a_text_of_several_clauses_counts_less():
    """Its one vector is near to the tools of one clause; the words find those of the others."""
    coupon, order = tool("a1", "Apply a coupon."), tool("b1", "Cancel an order.")
    index = index_of(coupon, order, vectors=Vectors())
    vector = {make_tool_key(coupon.id): 0.8}
    whole = search(index, "apply a coupon to it", vector=vector, explain=True).items[0]
    both = search(index, "apply a coupon and then cancel an order", vector=vector, explain=True).items
    assert whole.explanation.vector_share == pytest.approx(1.2)
    assert {one.name: one.explanation.vector_share for one in both}["shop.a1"] == pytest.approx(0.48)


def test_a_verb_of_a_request_decides_between_tools_of_the_same_words():
    index = index_of(tool("getBook", "One book."), tool("searchBooks", "Find a book."), tool("find", "Find."))
    assert names(index, "find a book")[0] == "searchBooks"
    assert names(index, "book") == ["getBook", "searchBooks"]
    assert search(index, "show a book").unknown_words == []


def test_a_word_that_is_only_like_one_of_the_best_match_covers_half():
    index = index_of(tool("createLoan", "Lent."), tool("b1", "Weather."))
    assert search(index, "rent").coverage == pytest.approx(0.5)
    assert search(index, "lent").coverage == 1.0


def test_a_long_text_of_rare_words_is_no_name():
    words = [f"quark{first}{second}" for first in "bcdfghjk" for second in "lmnp"]
    index = index_of(
        tool("a1", " ".join(words)), *(tool(f"b{number}", "Other text. " * 20) for number in range(2_000))
    )
    (match,) = search(index, " ".join(words), limit=1, explain=True).items
    assert match.score == pytest.approx(1.0)
    assert match.explanation.words_score > 100
    assert not match.explanation.exact


def test_the_words_of_the_tool_that_is_named_are_told_from_its_name():
    index = index_of(
        tool("searchBooks", "Find books."), tool("b1", "Find."), tool("searchbooks_all", "Books.")
    )
    best = search(index, "searchBooks", explain=True).items[0]
    assert (best.name, best.explanation.exact) == ("shop.searchBooks", True)
    assert best.score == pytest.approx(101.0, abs=0.01)


class NearestVectors(Vectors):
    def find_nearest(self, vector, limit):
        return sorted(vector, key=vector.get, reverse=True)[:limit]


def test_hidden_tools_take_no_place_among_the_nearest():
    shown, other = tool("boot", "Run a machine."), tool("other", "Launch a rocket.")
    secret = uuid4()
    hidden = [replace(tool(f"h{n}", "Secret.", provider="secret"), provider_id=secret) for n in range(120)]
    index = index_of(shown, other, *hidden, vectors=NearestVectors())
    index.providers = {
        PROVIDER: IndexedProvider("shop", True, frozenset()),
        secret: IndexedProvider("secret", True, frozenset()),
    }
    vector = {make_tool_key(one.id): 0.9 for one in hidden} | {
        make_tool_key(shown.id): 0.8,
        make_tool_key(other.id): 0.1,
    }
    limited = Principal("k1", "reader", TENANT, frozenset(), providers=frozenset({"shop"}))
    assert names(index, "launch instances", vector=vector, viewer=limited)[0] == "boot"


@pytest.mark.parametrize("text", ["vouchex", "vouchex of a customer"])
def test_words_of_hidden_tools_change_nothing_for_a_restricted_client(text):
    pay, secret = tool("pay", "A voucher of a customer."), uuid4()
    hidden = replace(tool("h1", "Vouchex.", provider="secret"), provider_id=secret)
    found = []
    for tools in ((pay,), (pay, hidden)):
        index = index_of(*tools)
        index.providers = {
            PROVIDER: IndexedProvider("shop", True, frozenset()),
            secret: IndexedProvider("secret", True, frozenset()),
        }
        limited = Principal("k1", "reader", TENANT, frozenset(), providers=frozenset({"shop"}))
        matches = search(index, text, viewer=limited)
        found.append(([match.name for match in matches.items], matches.unknown_words))
    assert found[0] == found[1] == (["shop.pay"], ["vouchex"])
