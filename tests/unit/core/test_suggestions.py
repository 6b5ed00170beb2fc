"""Names that were probably meant, with bounded work."""

from itertools import count

from app.core.suggestions import MAX_CANDIDATES, did_you_mean, find_similar
from tests.harness.cases import for_each

TOOLS = ["library.searchBooks", "library.addBook", "library.deleteBook", "weather.getForecast"]


@for_each(
    ("name", "expected"),
    [
        ("library.serchBooks", "library.searchBooks"),
        ("library_searchBooks", "library.searchBooks"),
        ("Library.SearchBooks", "library.searchBooks"),
        ("searchBooks", "library.searchBooks"),
        ("weather.forecast", "weather.getForecast"),
        ("libary.addBook", "library.addBook"),
    ],
)
def test_the_closest_name_comes_first(name, expected):
    assert find_similar(name, TOOLS, limit=3)[0] == expected


@for_each("name", ["", "x", "zebra", "\x00", "a" * 10_000])
def test_nothing_similar_gives_nothing(name):
    assert find_similar(name, TOOLS) == []


def test_a_name_is_not_suggested_for_itself():
    assert "library.addBook" not in find_similar("library.addBook", TOOLS, limit=3)


def test_only_so_many_candidates_are_read():
    numbers = count()
    candidates = (f"tool{next(numbers)}" for _ in iter(int, 1))
    assert find_similar("tool17", candidates, limit=3)
    assert next(numbers) == MAX_CANDIDATES


def test_long_candidates_are_left_out():
    assert find_similar("a" * 100, ["a" * 101]) == []


def test_sentence_names_all():
    assert did_you_mean([]) == ""
    assert did_you_mean(["a"]) == "Did you mean `a`?"
    assert did_you_mean(["a", "b"]) == "Did you mean `a` or `b`?"
