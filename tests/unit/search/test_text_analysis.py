"""Names are taken apart where people see their words."""

from app.search.text_analysis import has_several_clauses, list_exact_forms, split_identifier
from tests.harness.cases import for_each


@for_each(
    ("name", "words"),
    [
        ("getHTTPServer2", "get HTTP Server 2"),
        ("listV2Books", "list V 2 Books"),
        ("plain", "plain"),
        ("ABc", "A Bc"),
        ("snake_case", "snake_case"),
        ("本book", " 本 book"),
    ],
)
def test_a_name_is_split_at_its_seams(name, words):
    assert split_identifier(name) == words


def test_a_tool_is_meant_by_its_names_and_by_its_words():
    assert list_exact_forms("library", "library.getBook2", "library_getBook2") == [
        "library.getbook2", "library getbook2", "getbook2", "get book 2",
    ]  # fmt: skip
    assert list_exact_forms("p", "p.plain", "p_plain") == ["p.plain", "p plain", "plain"]


@for_each(
    ("text", "several"),
    [
        ("refund the last payment", False),
        ("refund the payment and write to the customer", True),
        ("Refund the payment. Write to the customer.", True),
        ("salt and pepper", False),
        ("", False),
        ("one two three" + " " * 8_000 + "and four five six", False),
        ("one two three\nfour five six", True),
    ],
)
def test_a_text_of_several_clauses_is_recognised(text, several):
    assert has_several_clauses(text) is several
