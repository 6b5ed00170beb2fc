"""The sentences follow the rules of benchmarks/search/README.md as far as a program can tell."""

from collections import Counter

from benchmarks.search.measurement import SENTENCES, PublicSet
from benchmarks.search.sentences import sentences


def test_every_operation_that_is_right_exists(sets: list[PublicSet]) -> None:
    operations = next(one.tools for one in sets if one.name == SENTENCES)
    names = {tool.name for tool in operations}
    assert len(names) == len(operations)
    assert {name for query in sentences() for need in query.needs for name in need} <= names


def test_the_counts_are_those_of_the_rules() -> None:
    counts = Counter(subset for query in sentences() for subset in query.subsets)
    total = len(sentences())
    assert total >= 220
    assert len({query.text for query in sentences()}) == total
    assert abs(counts["names the API"] - counts["names no API"]) <= total / 20
    assert counts["paraphrase"] >= total / 2
    assert counts["other languages"] >= 12
    assert counts["several tools"] >= 15


def test_a_sentence_that_names_an_api_needs_no_other_one() -> None:
    for query in sentences():
        if "names the API" in query.subsets:
            assert all(
                len({name.partition("_")[0].partition(".")[0] for name in need}) == 1 for need in query.needs
            ), query
