"""Names that model providers accept, and text without what a person cannot see."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import InvalidDocument
from app.core.text import clean_text, pointer, reject_unstorable
from app.formats.utcp.names import (
    LEGAL_NAME,
    RESERVED_NAMES,
    choose_agent_name,
    choose_alias,
    make_legal_name,
)
from app.toolsets.meta_tools import META_TOOL_NAMES
from tests.harness.cases import for_each


@for_each(
    ("raw", "expected"),
    [
        ("get_pet", "get_pet"),
        ("repos/get.v1 x", "repos_get_v1_x"),
        ("Café", "Cafe"),
        ("_a_", "_a_"),
        ("/a/", "a"),
    ],
)
def test_names_stay_as_near_as_can_be(raw, expected):
    assert make_legal_name(raw) == expected


def test_what_is_lost_or_taken_is_distinguished_by_a_hash():
    assert make_legal_name("日本").startswith("tool_")
    assert len(make_legal_name("日本")) == 13
    assert make_legal_name("日本") != make_legal_name("本日")
    assert make_legal_name("a.b", {"a_b"}) != make_legal_name("a/b", {"a_b"})
    long = [make_legal_name("x" * 80 + tail) for tail in "ab"]
    assert len(set(long)) == 2
    assert {len(name) for name in long} == {64}


def test_aliases():
    assert choose_alias("petstore", "get_pet") == "petstore_get_pet"
    assert choose_alias("a", "b_c", {"a_b_c"}) != choose_alias("a_b", "c", {"a_b_c"})


@given(st.lists(st.text(max_size=90), max_size=30))
def test_names_are_always_legal_unique_and_repeatable(raws):
    def named():
        taken: set[str] = set()
        for raw in raws:
            name = make_legal_name(raw, taken)
            assert LEGAL_NAME.fullmatch(name)
            assert name not in taken
            taken.add(name)
            yield name

    assert list(named()) == list(named())


@given(st.text(max_size=90), st.text(max_size=90))
def test_aliases_are_always_legal(provider, tool):
    assert LEGAL_NAME.fullmatch(choose_alias(provider, tool))


@for_each(
    ("text", "expected"),
    [
        ("plain\n\ttext", "plain\n\ttext"),
        ("a\r\nb\rc", "a\nb\nc"),
        ("a\u200bb\u202ec\u2066d\ufeff\u00ad", "abcd"),
        ("x\U000e0041\U000e0042y", "xy"),
        ("x\ufe04\ufe08\ufe0ey\U000e0101", "xy"),
        ("a\u3164\u115f\u17b4\uffa0\U0001d173b", "ab"),
        ("\u2764\ufe0f", "\u2764\ufe0f"),
        ("\x1b[31mred\x07\x9b", "[31mred"),
        ("\ud800ok", "ok"),
        ("日本 é 😀", "日本 é 😀"),
    ],
)
def test_what_cannot_be_seen_goes(text, expected):
    assert clean_text(text) == expected


def test_text_has_a_length():
    assert clean_text("x" * 20, limit=10) == "x" * 9 + "…"


def test_nul_is_rejected_where_it_stands():
    with pytest.raises(InvalidDocument) as caught:
        clean_text("a\x00", pointer="/tools/0/name")
    assert caught.value.errors[0].pointer == "/tools/0/name"
    for bad in ({"a": ["\x00"]}, {"a": {"\x00": 1}}, {"a": ["\ud800"]}):
        with pytest.raises(InvalidDocument):
            reject_unstorable(bad)


def test_pointers_are_escaped():
    assert pointer("/a", "b/c~d", 0, "") == "/a/b~1c~0d/0/"


def test_no_tool_has_the_name_of_a_meta_tool_for_agents() -> None:
    assert frozenset(META_TOOL_NAMES) == RESERVED_NAMES
    assert choose_agent_name("read.less", "read_less") == "read_less"
    assert re.fullmatch("read_more_[a-z2-7]{6}", choose_agent_name("read.more", "read_more"))
