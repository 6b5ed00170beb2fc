"""The table of the clients' own suites in docs/protocols.md is what `make client-suites` has recorded."""

from tests.interop.suites.table import BEGIN, END, PAGE, read_results, render, without_reason


def test_the_table_of_the_clients_suites_is_that_of_the_results() -> None:
    text = PAGE.read_text()
    assert text.count(BEGIN) == text.count(END) == 1
    assert text[text.index(BEGIN) : text.index(END) + len(END)] == render(read_results())


def test_each_case_that_differs_has_a_reason() -> None:
    assert without_reason(read_results()) == []
