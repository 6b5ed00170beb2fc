"""What `.ci/run` runs again is named in a list that only gets shorter."""

from tests.harness.retried import find_unlisted, read_list
from tests.harness.selection import ROOT

TEXT = (ROOT / "tests/retried.txt").read_text()


def test_list_of_retried_tests_has_as_many_lines_as_its_ceiling():
    ceiling, lines = read_list(TEXT)
    assert len(lines) == ceiling


def test_retried_tests_exist():
    # Its imports take longer than all tests of this file.
    from tests.faults.scenarios import SCENARIOS

    for target, test in read_list(TEXT)[1]:
        path, _, name = test.partition("::")
        if name:
            assert f"def {name.partition('[')[0].rpartition('::')[2]}(" in (ROOT / path).read_text(), test
        else:
            assert (target, test in SCENARIOS) == ("faults-slice", True)


def test_test_that_is_not_in_the_list_is_not_retried():
    _, listed = read_list("# ceiling: 2\ntest tests/a.py::test_a[x y]\nfaults-slice H\n")
    assert find_unlisted("test", ["tests/a.py::test_a[x y]"], listed) == []
    assert find_unlisted("test", ["tests/a.py::test_a[x y]", "tests/a.py::test_b"], listed) == [
        "tests/a.py::test_b"
    ]
    assert find_unlisted("faults-slice", ["H", "K"], listed) == ["K"]
