"""A test of many cases fails once, and names every case that failed."""

import pytest

from tests.harness.cases import for_each


def run(test, **fixtures):
    """Run a test of cases; return the text of its failure."""
    with pytest.raises(pytest.fail.Exception) as failure:
        test(**fixtures)
    return str(failure.value)


def test_all_failed_cases_are_named_with_what_failed():
    @for_each(
        ("value", "expected"),
        [(1, 1), (2, 3), pytest.param(3, 3, id="third"), pytest.param(4, 5, id="fourth"), ("\n", "é\0")],
    )
    def check(value, expected):
        assert value == expected

    text = run(check)
    assert text.startswith("3 of 5 cases failed:\n  2-3\n  fourth\n  \\n-é\\x00\n")
    assert "assert 2 == 3" in text
    assert "assert 4 == 5" in text
    assert "third" not in text


def test_the_name_of_a_case_is_one_line():
    @for_each("value", ["a\nb"])
    def check(value):
        assert value == "a"

    assert run(check).startswith("1 of 1 cases failed:\n  a\\nb\n")


def test_cases_of_two_decorators_are_combined_and_may_be_computed_late():
    seen = []

    @for_each("left", lambda: iter("ab"))
    @for_each("right", [1, 2], ids={"one": 1, "two": 2})
    def check(left, right, fixture):
        seen.append((left, right, fixture))
        assert (left, right) != ("b", 1)

    assert seen == []
    assert "  b-one\n" in run(check, fixture="f")
    assert seen == [("a", 1, "f"), ("a", 2, "f"), ("b", 1, "f"), ("b", 2, "f")]


async def test_coroutines_are_awaited():
    @for_each("value", [1, 2])
    async def check(value):
        assert value == 1

    with pytest.raises(pytest.fail.Exception, match="1 of 2 cases failed"):
        await check()


def test_a_test_is_skipped_only_where_all_cases_are():
    @for_each("value", [1, 2])
    def check(value, skipped):
        if value in skipped:
            pytest.skip(f"no {value}")

    check(skipped=[1])
    with pytest.raises(pytest.skip.Exception, match="no 1; no 2"):
        check(skipped=[1, 2])


def test_what_is_wrong_with_the_cases_is_no_pass():
    @for_each("value", [])
    def check(value):
        pass

    with pytest.raises(AssertionError, match="without a case"):
        check()
    with pytest.raises(AssertionError, match="no parameters"):
        for_each("other", [1])(check)


def test_marks_between_two_decorators_are_kept():
    @for_each("left", [1])
    @pytest.mark.process
    @for_each("right", [2])
    def check(left, right):
        pass

    assert [mark.name for mark in check.pytestmark] == ["process"]
