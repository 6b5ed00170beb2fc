"""Stems of terms, what terms expand to, and the text form of synonyms."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import InvalidInput
from app.search.words.definition import MAX_SETS, SynonymSet
from app.search.words.memory import expand_terms
from app.search.words.stems import digest_query, digest_synonyms, stem_target, stem_term
from app.search.words.text_form import format_synonyms, parse_synonyms
from app.storage.models import SynonymSetRow
from tests.harness.cases import for_each


def row(*terms, expand_to=None, toolset=None):
    return SynonymSetRow(terms=list(terms), expand_to=expand_to, toolset=toolset, digest=b"")


@for_each(
    ("term", "stems"),
    [
        ("Vouchers", ("voucher",)),
        ("gift cards", ("gift", "card")),
        ("giftCard", ("gift", "card")),
        ("gift-card", ("gift", "card")),
        # The query has its parts, and it whole behind all of its other words.
        ("k8s", ("k8s",)),
        ("EC2", ("ec2",)),
        ("EC2 instance", ("ec", "2", "instanc")),
        ("café", ("cafe",)),
        # Words that no query is searched by.
        ("please find a book", ("book",)),
        ("図書館", ("図書", "書館")),
        ("?!", ()),
    ],
)
def test_stems_of_a_term(term, stems):
    assert stem_term(term) == stems


def test_a_target_is_searched_in_parts_and_whole():
    assert stem_target("k8s") == (("k8s",), ("k", "8", "s"))
    assert stem_target("gift card") == (("gift", "card"),)


def test_equivalent_terms_expand_to_each_other():
    found = expand_terms([row("voucher", "coupon", "gift card")])
    assert found == {
        ("voucher",): (("coupon",), ("gift", "card")),
        ("coupon",): (("voucher",), ("gift", "card")),
        ("gift", "card"): (("voucher",), ("coupon",)),
    }


def test_one_way_synonyms_expand_one_way():
    assert expand_terms([row("cab", "taxi", expand_to=["ride", "taxi"])]) == {
        ("cab",): (("ride",), ("taxi",)),
        ("taxi",): (("ride",),),
    }


def test_sets_that_share_a_term_are_not_joined():
    found = expand_terms([row("a1x", "b2x"), row("b2x", "c3x")])
    assert found[("a1x",)][0] == ("b2x",)
    assert ("c3x",) not in found[("a1x",)]
    assert {("a1x",), ("c3x",)} <= set(found[("b2x",)])


def test_terms_with_the_same_stems_do_not_expand_to_each_other():
    assert expand_terms([row("voucher", "Vouchers")]) == {}


def test_digests_depend_on_words_alone():
    assert digest_synonyms(["gift card", "c"], None) == digest_synonyms(["C", "gift-cards"], None)
    assert digest_synonyms(["a b", "c"], None) != digest_synonyms(["a b"], ["c"])
    assert digest_synonyms(["c"], ["d"]) != digest_synonyms(["d"], ["c"])
    assert digest_query("refund a payment") == digest_query("Payments, refunded")
    assert digest_query("refund") != digest_query("refund payment")


def test_text_is_read_and_written():
    text = "\ufeff# comment\r\n\r\nvoucher , coupon\nk8s=>kubernetes, kube\n  # another\n"
    sets = parse_synonyms(text, toolset="desk")
    assert [one.model_dump() for one in sets] == [
        {"terms": ["voucher", "coupon"], "expand_to": None, "toolset": "desk"},
        {"terms": ["k8s"], "expand_to": ["kubernetes", "kube"], "toolset": "desk"},
    ]
    written = format_synonyms((one.terms, one.expand_to) for one in sets)
    assert written == "voucher, coupon\nk8s => kubernetes, kube\n"


@for_each(
    ("text", "line"),
    [
        ("alone", 1),
        ("a1, b1\n\n=> b", 3),
        ("a1, b1\na => ", 2),
        ("a => b => c", 1),
        (", ,", 1),
        ("?!, b1", 1),
        ("a1, " + "x" * 101, 1),
        ("a1, \x07b1", 1),
        (", ".join(f"t{number}" for number in range(21)), 1),
    ],
)
def test_a_line_that_is_no_set_is_named(text, line):
    with pytest.raises(InvalidInput) as raised:
        parse_synonyms(text, toolset=None)
    (error,) = raised.value.errors
    assert error.pointer == ""
    assert error.detail.startswith(f"Line {line}: ")


def test_many_wrong_lines_are_named_up_to_a_bound():
    with pytest.raises(InvalidInput) as raised:
        parse_synonyms("alone\n" * 1_000, toolset=None)
    assert len(raised.value.errors) == 50


def test_a_text_has_a_bound():
    lines = [f"one{number}, two{number}" for number in range(MAX_SETS + 1)]
    assert len(parse_synonyms("\n".join(lines[1:]), toolset=None)) == MAX_SETS
    with pytest.raises(InvalidInput):
        parse_synonyms("\n".join(lines), toolset=None)


@given(st.text(max_size=60))
def test_any_text_is_read_or_rejected(text):
    try:
        sets = parse_synonyms(text, toolset=None)
    except InvalidInput:
        return
    written = format_synonyms((one.terms, one.expand_to) for one in sets)
    assert parse_synonyms(written, toolset=None) == sets


@given(st.lists(st.text("abc 1é-", min_size=1, max_size=12), min_size=2, max_size=5))
def test_a_stored_set_is_equal_to_its_text(terms):
    try:
        given_set = SynonymSet(terms=terms)
    except ValueError:
        return
    text = format_synonyms([(given_set.terms, given_set.expand_to)])
    assert parse_synonyms(text, toolset=None) == [given_set]


def test_a_text_of_too_many_sets_is_not_read_to_its_end():
    # The last line would be reported, were it read.
    text = "".join(f"voucher{number} => coupon\n" for number in range(MAX_SETS + 1)) + "no set\n"
    with pytest.raises(InvalidInput, match="at most 1,000 sets"):
        parse_synonyms(text, toolset=None)
