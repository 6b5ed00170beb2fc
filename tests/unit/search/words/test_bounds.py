"""How many synonyms of a term, and of a query, the ranking searches."""

from types import SimpleNamespace

from app.core.uuid7 import uuid7
from app.search.index import Filters, IndexedProvider, IndexedTool, IndexQuery, ToolIndex
from app.search.signals import MAX_QUERY_SYNONYMS, MAX_SYNONYMS, SearchScope, Signals
from app.storage.models import TENANT

VIEWER = SimpleNamespace(providers=None, tags=None)
SCOPE = SearchScope(TENANT, "key")


class Words:
    """Synonyms that are given."""

    def __init__(self, synonyms):
        self.found = synonyms

    def get_synonyms(self, scope):
        return self.found

    def get_pins(self, stems, scope):
        return ()


def searched(synonyms, text):
    """The synonyms that a search of the text uses, by term."""
    provider = uuid7()
    index = ToolIndex(Signals(operator_words=Words(synonyms)))
    index.providers = {provider: IndexedProvider("shop", True, frozenset())}
    tool = IndexedTool(
        id=uuid7(), provider_id=provider, provider="shop", name="shop.list", alias="shop_list", description="x",
        inputs={}, tags=(), registrar_tags=(), json_members=b"}",
    )  # fmt: skip
    index.add([tool])
    index.commit()
    found = index.search(IndexQuery(text, SCOPE), viewer=VIEWER, filters=Filters(), limit=1)
    index.close()
    return found.synonyms


def test_synonyms_of_a_term_and_of_a_query_are_bounded():
    others = [(f"other{number}",) for number in range(100)]
    found = searched({(f"term{letter}",): others for letter in "bcdfg"}, "termb termc termd termf termg")
    counts = [len(found.get(f"term{letter}", ())) for letter in "bcdfg"]
    assert counts == [MAX_SYNONYMS] * (MAX_QUERY_SYNONYMS // MAX_SYNONYMS) + [0, 0]


def test_longest_term_counts():
    synonyms = {("gift", "card"): [("voucher",)], ("card",): [("board",)], ("gift",): [("present",)]}
    assert searched(synonyms, "a gift card please") == {"gift card": ["voucher"]}
    assert searched(synonyms, "card gift") == {"card": ["board"], "gift": ["present"]}
