"""Reports of imports as values and as JSON."""

from app.openapi.assessment.assess import assess
from app.openapi.report import OperationOutcome, SourceReport, SourceWarning
from tests.unit.providers.registration.documents import parsed_document


def report(*outcomes: OperationOutcome) -> SourceReport:
    return SourceReport(outcomes)


def test_renamed_tool_counts_as_accepted():
    found = report(
        OperationOutcome.of("a", "a", pointer="/0"),
        OperationOutcome.of("b c", "b_c", pointer="/1"),
        OperationOutcome.of("d", pointer="/2", reason="no"),
    )
    assert found.to_json()["counts"] == {"operations": 3, "accepted": 2, "renamed": 1, "skipped": 1}


def test_json_of_an_outcome_has_only_the_members_that_are_set():
    assert OperationOutcome.of("a", "a", pointer="/0").to_json() == {
        "source_key": "a", "name": "a", "outcome": "accepted", "pointer": "/0", "notes": [],
    }  # fmt: skip


def test_report_of_a_converter_survives_json():
    parsed = parsed_document("/pets", "/owners")
    assessed = parsed.report.with_assessments(assess(parsed.tools))
    assert SourceReport.from_json(assessed.to_json()) == assessed
    assert assessed.tokens == sum(one.tokens for one in assessed.operations)


def test_skipping_a_tool_retains_the_reason_of_one_that_was_skipped_before():
    found = report(
        OperationOutcome.of("a", "a", pointer=""), OperationOutcome.of("b", pointer="", reason="first")
    )
    skipped = found.with_skipped({"a": "later", "b": "later"})
    assert [(one.name, one.outcome, one.reason) for one in skipped.operations] == [
        ("", "skipped", "later"),
        ("", "skipped", "first"),
    ]


def test_warnings_are_appended():
    found = report().with_warnings(SourceWarning("one")).with_warnings(SourceWarning("two", "/x"))
    assert found.to_json()["warnings"] == [
        {"pointer": "", "detail": "one"},
        {"pointer": "/x", "detail": "two"},
    ]


def test_named_report_names_tools_canonically_and_reports_rejected_ones():
    parsed = parsed_document("/pets", "/owners", "/visits")
    keys = [tool.source_key for tool in parsed.tools]
    names = {keys[0]: "p.pets", keys[1]: "p.owners_2"}
    found = parsed.named_report(names, provider="p", rejected=[keys[2]])
    assert [(one.name, one.outcome) for one in found.operations] == [
        ("p.pets", "accepted"),
        ("p.owners_2", "renamed"),
        ("", "skipped"),
    ]
    assert found.operations[0].security == (("default",), ())
    assert found.operations[2].reason == "It holds a value that the database cannot store."
