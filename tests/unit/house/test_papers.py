"""The documentation holds together: links lead somewhere, decision records have one format."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "changelog.d" / "README.md",
]
DECISIONS = sorted((ROOT / "docs" / "decisions").glob("*.md"))
_LINK = re.compile(r"\]\((?!https?:|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
_DECISION = re.compile(
    r"# (?P<number>\d+)\. [^\n]+\n\nStatus: (accepted|superseded)[^\n]*\nDate: \d{4}-\d\d-\d\d\n\n## Context\n\n.+?\n## Decision\n\n.+",
    re.DOTALL,
)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_relative_links_lead_to_files(page):
    missing = [link for link in _LINK.findall(page.read_text()) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", DECISIONS, ids=lambda page: page.stem)
def test_decision_record_has_status_date_context_and_decision(page):
    match = _DECISION.fullmatch(page.read_text())
    assert match is not None
    assert int(match["number"]) == int(page.name[:4])


def test_decision_records_are_numbered_without_gaps():
    assert [int(page.name[:4]) for page in DECISIONS] == list(range(1, len(DECISIONS) + 1))


def test_readme_has_at_most_200_lines():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 200
