"""Language tags (BCP 47), and where documents and responses say theirs."""

from typing import Any

from app.core.language_tags import (
    get_primary_language,
    normalize_tag,
    read_content_language,
    read_document_language,
)
from tests.harness.cases import for_each


@for_each(
    ("given", "tag", "primary"),
    [
        ("de", "de", "de"),
        (" DE ", "de", "de"),
        ("pt-br", "pt-BR", "pt"),
        ("de_AT", "de-AT", "de"),
        ("ZH-hant-tw", "zh-Hant-TW", "zh"),
        ("sl-rozaj-biske-1994", "sl-rozaj-biske-1994", "sl"),
        ("es-419", "es-419", "es"),
        ("de-DE-u-co-phonebk", "de-DE-u-co-phonebk", "de"),
        ("en-x-US", "en-x-us", "en"),
        ("zh-cmn-Hans-CN", "zh-cmn-Hans-CN", "zh"),
        ("nds", "nds", "nds"),
    ],
)
def test_tags_have_the_case_of_the_specification(given: str, tag: str, primary: str) -> None:
    assert normalize_tag(given) == tag
    assert get_primary_language(tag) == primary


@for_each(
    "given",
    [
        "", "german", "d", "de-", "-de", "de--AT", "de-AT-", "x-klingon", "*", "de,en", "de;q=1", "d\xe9", "de\n-AT",
        "de-" + "a" * 9, "de" + "-abcdefgh" * 8, "de" * 1_000_000, 7, None, True, ["de"], {"de": 1},
    ],
    violations={"given": "de"},
)  # fmt: skip
def test_what_is_no_tag_is_none(given: Any) -> None:
    assert normalize_tag(given) is None


def test_no_language_has_no_primary_one() -> None:
    assert get_primary_language(None) is None


@for_each(
    ("document", "tag"),
    [
        ({"info": {"x-language": "de-AT"}}, "de-AT"),
        ({"info": {"x-lang": "de"}}, "de"),
        ({"x-language": "de"}, "de"),
        ({"x-lang": "de"}, "de"),
        ({"x-lang": "en", "info": {"x-language": "de"}}, "de"),
        ({"x-language": "de", "info": {"x-lang": "en"}}, "de"),
        ({"x-language": None, "info": "none"}, None),
        ({"info": None}, None),
        ({}, None),
    ],
)
def test_a_document_says_its_language(document: dict[str, Any], tag: str | None) -> None:
    assert read_document_language(document) == (tag, [])


def test_what_is_no_tag_is_reported_and_the_next_place_counts() -> None:
    tag, problems = read_document_language(
        {"info": {"x-language": "german", "x-lang": 7}, "x-language": "de"}
    )
    assert tag == "de"
    assert [problem.pointer for problem in problems] == ["/info/x-language", "/info/x-lang"]


@for_each(
    ("header", "tag"),
    [
        ("de", "de"),
        ("de-AT", "de-AT"),
        ("de-AT, de-CH", "de-AT"),
        ("de, en", None),
        ("de, ", None),
        ("", None),
        ("german", None),
        ("de," * 100_000, None),
    ],
)
def test_the_language_of_a_response_is_that_of_one_audience(header: str, tag: str | None) -> None:
    assert read_content_language(header) == tag
